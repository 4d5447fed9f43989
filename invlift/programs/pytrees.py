"""Immutable classes of arrays and settings that pass through compiled functions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, dataclass_transform

import jax

from invlift.programs.by_content import by_content

#: Nested tuples, dicts and modules of arrays; only the code that makes one knows its structure.
PyTree = Any


def static(**options):
    """Return a field of a :class:`Module` that is a setting: part of the structure, not a leaf.

    Parameters
    ----------
    **options
        As for :func:`dataclasses.field`, ``default`` for example.
    """
    return field(metadata={"static": True}, **options)


def aside(default: Any = None) -> Any:
    """Return a field of a :class:`Module` that nothing is computed from.

    It is neither a leaf nor part of the structure: compiled programs and digests do not know it,
    and what JAX makes of an instance has the default again.
    """
    return field(default=default, compare=False, repr=False, metadata={"aside": True})


@dataclass_transform(frozen_default=True, field_specifiers=(field, static, aside))
class Module:
    """Base of classes that JAX takes as arguments: every subclass is a frozen dataclass and pytree.

    Fields made by :func:`static` are settings, those by :func:`aside` no part of the pytree; all
    others hold arrays, or other modules.  With
    ``class Name(Base, settings=True)`` all fields of the class are settings.
    """

    _are_settings = False

    def __init_subclass__(cls, *, settings: bool | None = None, **options) -> None:
        super().__init_subclass__(**options)
        if settings is not None:
            cls._are_settings = settings
        pytree(dataclass(frozen=True)(cls))

    def __post_init__(self) -> None:
        """Take functions among the settings by what they compute, not by which object they are."""
        for each in fields(self):
            if self._are_settings or each.metadata.get("static"):
                value = getattr(self, each.name)
                if (taken := by_content(value)) is not value:
                    object.__setattr__(self, each.name, taken)


def pytree(cls: type) -> type:
    """Register a dataclass with JAX; the class itself is returned.

    Fields whose metadata says ``static`` are part of the structure, all others are children.

    Parameters
    ----------
    cls : type
        A dataclass.  Its subclasses are registered on their own.

    Notes
    -----
    JAX's own ``register_dataclass`` must not be used: to JAX (0.10) two classes that it registers,
    of equally many fields, have equal structures, and where their hashes happen to meet, a compiled
    function called with one runs the program of the other.  Of 300 classes that differ in what
    they compute, 43 got the result of another.  The classes of the children are part of
    the structure as well, since a user's own may be registered in that way.
    """
    are_settings = getattr(cls, "_are_settings", False)
    aside = {field.name: field.default for field in fields(cls) if field.metadata.get("aside")}
    static = [
        field.name
        for field in fields(cls)
        if field.name not in aside and (are_settings or field.metadata.get("static"))
    ]
    names = [field.name for field in fields(cls) if field.name not in [*static, *aside]]

    def flatten(instance):
        children = tuple(getattr(instance, name) for name in names)
        classes = tuple(type(child) if _is_node(child) else None for child in children)
        return children, (tuple(getattr(instance, name) for name in static), classes)

    def flatten_with_keys(instance):
        children, structure = flatten(instance)
        keys = (jax.tree_util.GetAttrKey(name) for name in names)
        return tuple(zip(keys, children, strict=True)), structure

    def unflatten(structure, children):
        # Past the constructor: JAX also builds instances of things that are not arrays.
        instance = object.__new__(cls)
        for name, value in zip([*static, *names], [*structure[0], *children], strict=True):
            object.__setattr__(instance, name, value)
        for name, default in aside.items():
            object.__setattr__(instance, name, default)
        return instance

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def _is_node(child) -> bool:
    """Whether a child is a registered dataclass: JAX puts some that are not in a leaf's place."""
    return is_dataclass(child) and not jax.tree_util.all_leaves([child])
