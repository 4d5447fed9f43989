"""What a problem file can say: the choices of its tables, and contents that cover their pairs.

All is found in the tables themselves, so that a prior, a noise or a kernel that is added to a
registry is tried without being named.  A content is what the sections hold, by section and key.
"""

from itertools import combinations, product
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from invlift.app.problem.sections import SamplerTable
from invlift.files.tables import OneOf, Table, table_of_dataclass
from invlift.samplers.kernels import KERNELS
from invlift.tables.noise import NOISES
from invlift.tables.priors import PRIORS

#: Numbers that make sense together on a body of extent 1, by key; that of any other key is 1.
NUMBERS = {
    "smoothness": (1.0, 2.0, 3.0),
    "range": (0.8,),
    "std": (0.4,),
    "location": (0.0,),
    "low": (0.05,),
    "scale": (0.6,),
    "mean": (0.6,),
    "sigma": (0.1,),
    "degrees_of_freedom": (4.0,),
    "inclusion": (3.0,),
    "share": (0.3,),
    "width": (0.3,),
    "draws": (20,),
}
#: Keys that are no choices: amounts of a run, what is chosen before or apart, and what stands for
#: other keys.
NO_CHOICES = ("kind", "chains", "warmup", "budget", "seed", "options", "median", "factor",
              "between")  # fmt: skip
#: A distribution that stands for all of them in pairs, which each pass a contract of their own: it
#: has a coordinate that is not standard normal.  Those by quantiles are in the documentation.
STAND_INS = ("gamma",)
#: Subdomains of the bodies in these tests.
SUBDOMAINS = ("low", "high")
#: Tables of the sections by kind.
SECTIONS = {"prior": PRIORS, "noise": NOISES, "sampler": {None: SamplerTable}}


def choices_of(table: type[Table]) -> dict[str, list]:
    """Values of each key that has any to choose from; of numbers one, or a few."""
    found = {
        name: _values(name, field.annotation, field.metadata)
        for name, field in table.model_fields.items()
        if name not in NO_CHOICES
    }
    return {name: values for name, values in found.items() if values}


def options_of(method: str) -> dict[str, list]:
    """Values of those options of a method that are not numbers."""
    every = choices_of(table_of_dataclass(KERNELS[method]))
    return {name: values for name, values in every.items() if isinstance(values[0], str | bool)}


def every(section: str) -> dict[str, dict]:
    """All that a section can hold, by a name."""
    found = {}
    for kind, table in SECTIONS[section].items():
        choices = choices_of(table)
        for values in product(*choices.values()):
            content = {"kind": kind, **dict(zip(choices, values, strict=True))}
            if is_possible({section: content}):
                found[brief(content)] = content
    return found


def is_possible(content: dict[str, dict]) -> bool:
    """Whether choices go together: a scale that is known is not shared by groups of readings."""
    noise = content.get("noise", {})
    is_known = not isinstance(noise.get("sigma", {}), dict)
    return not (is_known and noise.get("per", "all") != "all")


def brief(content: dict) -> str:
    """The choices in a few words."""
    return " ".join(f"{key}={_word(value)}" for key, value in content.items() if value is not None)


def covering(*sections: str, num: int = 2) -> list[dict[str, dict]]:
    """Contents of sections such that any ``num`` choices that go together are in one of them.

    Found greedily: each begins with the first choices that are not covered yet, and takes of all
    other keys the values that cover most.  A key that several kinds of a section have is one key.
    """
    tables = {
        (section, kind): {"kind": [kind], **_without_repeats(choices_of(table), num)}
        for section in sections
        for kind, table in SECTIONS[section].items()
    }
    #: (section, key, value in words) -> value by the kinds that have it
    items: dict[tuple, dict] = {}
    for (section, kind), choices in tables.items():
        for key, values in choices.items():
            for value in values:
                items.setdefault((section, key, repr(value)), {})[kind] = value
    places = {item: place for place, item in enumerate(items)}

    def content_of(chosen):
        content = {section: {} for section in sections}
        for item in chosen:
            content[item[0]][item[1]] = next(iter(items[item].values()))
        return content

    def go_together(chosen):
        of_section = [[items[i].keys() for i in chosen if i[0] == s] for s in sections]
        has_kind = all(not own or set.intersection(*map(set, own)) for own in of_section)
        is_one_of_each = len({item[:2] for item in chosen}) == len(chosen)
        return is_one_of_each and has_kind and is_possible(content_of(chosen))

    def gain(chosen, new):
        return sum(
            tuple(sorted([*others, new], key=places.get)) in missing
            for others in combinations(chosen, num - 1)
        )

    missing = dict.fromkeys(each for each in combinations(items, num) if go_together(each))
    contents = []
    while missing:
        chosen = list(next(iter(missing)))
        for section in sections:
            keys = ["kind"]
            for key in keys:  # those of the kind are added once it is known
                fitting = [
                    item
                    for item in items
                    if item[:2] == (section, key) and go_together([*chosen, item])
                ]
                if fitting:  # not there already
                    chosen.append(max(fitting, key=lambda item: gain(chosen, item)))
                if key == "kind":
                    kind = content_of(chosen)[section]["kind"]
                    keys += [each for each in tables[section, kind] if each != "kind"]
        for each in combinations(sorted(chosen, key=places.get), num):
            missing.pop(each, None)
        contents.append(content_of(chosen))
    return contents


def _without_repeats(choices, num):
    """The same, where a key that takes the distributions of one before it takes one of them.

    In pairs and more some stand for all.
    """
    found, seen = {}, []
    for key, values in choices.items():
        tables = [value for value in values if isinstance(value, dict) and _is_named(value)]
        if num > 1 and any(_word(table) in STAND_INS for table in tables):
            tables = [table for table in tables if _word(table) in STAND_INS]
            values = [v for v in values if not (isinstance(v, dict) and _is_named(v))] + tables
        kept = [table for table in tables if table not in seen] or tables[:1]
        found[key] = [value for value in values if value not in tables or value in kept]
        seen += tables
    return found


def _is_named(table):
    return isinstance(next(iter(table.values())), str)


def _values(name, annotation, metadata):
    """Values that a type allows, one of each form and each name."""
    for entry in metadata:
        if isinstance(entry, OneOf):
            return [
                {entry.key: choice, **{key: values[0] for key, values in choices_of(table).items()}}
                for choice, table in entry.registry.items()
            ]
    if get_origin(annotation) is Annotated:
        kind, *rest = get_args(annotation)
        return _values(name, kind, rest)
    if get_origin(annotation) in (Union, UnionType):
        return [value for kind in get_args(annotation) for value in _values(name, kind, ())]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return [False, True]
    if get_origin(annotation) is dict and _is_table(get_args(annotation)[1]):
        choices = choices_of(get_args(annotation)[1])
        one, other = ({key: values[k] for key, values in choices.items()} for k in (0, -1))
        return [dict.fromkeys(SUBDOMAINS, one), dict(zip(SUBDOMAINS, (one, other), strict=True))]
    if get_origin(annotation) is dict:
        return [dict.fromkeys(SUBDOMAINS, NUMBERS.get(name, (1.0,))[0])]
    if name == "method":
        return list(KERNELS)
    return list(NUMBERS.get(name, (1.0,))) if annotation in (int, float) else []


def _is_table(kind):
    return isinstance(kind, type) and issubclass(kind, Table)


def _word(value):
    """A value; of a table what it is of, or that it has values for parts of the body."""
    if not isinstance(value, dict):
        return value
    first = next(iter(value.values()), None)
    if isinstance(first, str):
        return first
    return "each" if all(other == first for other in value.values()) else "each another"
