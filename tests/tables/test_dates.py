"""Dates in the orders of tables: read where all entries tell the order, else refused."""

import itertools
from datetime import datetime, timedelta

import pytest
from refusals import refused

from invlift.tables.dates import dates_of
from invlift.tables.times import Clock, read_times

ORDERS = {
    "%d.%m.%Y": "day, month, year",
    "%d/%m/%Y": "day, month, year",
    "%d-%m-%y": "day, month, year",
    "%m/%d/%Y": "month, day, year",
    "%m/%d/%y": "month, day, year",
    "%Y/%m/%d": "year, month, day",
    "%Y-%m-%d": "",
}
CLOCKS = "%H:%M", "%H:%M:%S", "%I:%M:%S %p", ""
START = datetime(2014, 5, 28, 21, 30)
STEPS = [START + timedelta(hours=13) * k for k in range(6)]


def read(entries):
    return dates_of(entries, [f"row {k + 2}" for k in range(len(entries))])


@pytest.mark.parametrize(("order", "clock"), list(itertools.product(ORDERS, CLOCKS)))
def test_dates_of_one_order_are_read(order, clock):
    if order == "%Y-%m-%d" and "p" in clock:
        return  # which ISO 8601 has not
    written = [each.strftime(f"{order} {clock}").strip() for each in STEPS]
    if order == "%d-%m-%y":
        written = [each.replace("-14", "-45", 1) for each in written]  # no day of a month
    found, name = read(written)
    wanted = [each if clock else each.replace(hour=0, minute=0) for each in STEPS]
    assert [each.replace(year=2014) for each in found] == wanted
    assert name == ORDERS[order]


@pytest.mark.parametrize(
    ("entries", "parts"),
    [
        (["03/04/2024", "05/04/2024"], ["row 2", "03 April 2024 or 04 March 2024", "either"]),
        (["03/04/12"], ["03 April 2012 or 04 March 2012"]),
        (["25/05/2012", "05/25/2012"], ["row 3", "'05/25/2012' beside '25/05/2012'"]),
        (["25/05/2012 25:00"], ["a time of day", "'25:00'"]),
        (["2012-05-25", "03/04/2012"], ["row 3", "03 April 2012 or 04 March 2012", "either"]),
        (["25.05.2012", "25/05/2012", "05/06/2012"], ["row 4", "05 June 2012 or 06 May 2012"]),
        (["25.05.2012", "05/25/2012", "25/05/2012"], ["row 4", "dates of one order"]),
        (["2012-05-25", "no date"], ["row 3", "'no date' beside '2012-05-25'"]),
        (["25/05/2012", "1.5"], ["row 3", "'1.5' beside '25/05/2012'"]),
    ],
)
def test_dates_that_may_be_either_are_refused(entries, parts):
    with refused(*parts):
        read(entries)


def test_dates_of_several_formats_are_read_if_each_tells():
    """By their marks; days come first behind points."""
    found, name = read(["2012-05-25T08:30", "25.05.2012 09:30", "05/25/12 10:30:00 AM"])
    assert found == [datetime(2012, 5, 25, hour, 30) for hour in (8, 9, 10)]
    assert name == "ISO 8601 or day, month, year or month, day, year, row by row"
    assert read(["03.04.2012", "2012-04-03"])[0] == [datetime(2012, 4, 3)] * 2


def test_the_same_day_in_all_orders_is_no_question():
    assert read(["05/05/2012"])[0] == [datetime(2012, 5, 5)]


def test_zones_behind_dates():
    found, _ = read(["25.05.2012 10:00+02:00", "25.05.2012 08:00Z"])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("entries", "parts"),
    [
        (["20240403", "20240404"], ["row 2", "20240403, which may be the date 03 April 2024"]),
        (["41054.5", "41055.25"], ["row 2", "the date 25 May 2012 of a spreadsheet"]),
        (["1337904000", "1337904060"], ["the date 25 May 2012 as seconds since 1970"]),
        (["2024-04-03", ""], ["row 3", "a number or a date, found an empty entry", "remove the"]),
        (["2024-04-03", "5"], ["row 3", "'5' beside '2024-04-03'"]),
    ],
)
def test_times_that_are_no_numbers_and_no_dates_are_refused(entries, parts):
    with refused(*parts):
        read_times(entries, ["row 2", "row 3"], Clock("h", START))


def test_large_numbers_are_times():
    for entries in (["20240403", "20249903"], ["20240403.5"], ["199911"]):
        found = read_times(entries, entries, Clock("s"))
        assert found.tolist() == [float(each) for each in entries]
    for entries in (["43200", "43260"], ["41054.5", "7.5"]):  # half a day; far from the start
        found = read_times(entries, entries, Clock("s", START))
        assert found.tolist() == [float(each) for each in entries]
