"""Where work may begin, and where it may go on."""

import pytest

from invlift.errors import InputError
from invlift.files.output_folder import OutputFolder


def folder(tmp_path, **parts):
    return OutputFolder(tmp_path / "out", "study", "kept/study.json", ("table.csv",), **parts)


def put(tmp_path, *names):
    for name in names:
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


@pytest.mark.parametrize("leftovers", [None, ()])
def test_work_begins_where_nothing_is_and_goes_on_where_it_has_begun(tmp_path, leftovers):
    own = folder(tmp_path, leftovers=leftovers)
    own.check(is_resuming=False)
    with pytest.raises(InputError, match="with a study to go on with, found no such directory"):
        own.check(is_resuming=True)
    put(tmp_path, ".hidden")
    own.check(is_resuming=False)
    with pytest.raises(InputError, match=r"found no kept/study.json in it; name the directory"):
        own.check(is_resuming=True)
    put(tmp_path, "kept/study.json")
    own.check(is_resuming=True)
    with pytest.raises(InputError, match=r"found kept/study.json, which is there already"):
        own.check(is_resuming=False)


def test_results_without_a_record_are_not_written_over(tmp_path):
    put(tmp_path, "table.csv")
    with pytest.raises(InputError, match=r"without a study, found table.csv, which is there"):
        folder(tmp_path).check(is_resuming=False)


def test_other_files_are_in_the_way_of_work_with_a_folder_of_its_own_alone(tmp_path):
    put(tmp_path, "mine.txt", "yours.txt", "problem.toml")
    folder(tmp_path).check(is_resuming=False)
    own = folder(tmp_path, leftovers=("problem.toml",))
    with pytest.raises(InputError, match=r"an empty directory, found mine.txt, .* and 1 more"):
        own.check(is_resuming=False)
    for name in ("mine.txt", "yours.txt"):
        (tmp_path / "out" / name).unlink()
    own.check(is_resuming=False)  # what is left of work that had not begun


def test_work_of_another_identity_is_refused(tmp_path):
    own, known = folder(tmp_path), {"seed": 1, "problem": "a1"}
    own.check_identity(known | {"more": 2}, known)
    with pytest.raises(InputError, match=r"study.json, seed: expected 2, found 1; resume with"):
        own.check_identity(known, known | {"seed": 2})
    with pytest.raises(InputError, match="problem: expected this problem, found another one"):
        own.check_identity(known, known | {"problem": "b2"})


def test_one_is_at_work_in_it(tmp_path):
    with folder(tmp_path).lock():
        assert (tmp_path / "out" / "kept").is_dir()
