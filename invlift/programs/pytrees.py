"""Immutable classes of arrays and settings that pass through compiled functions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, dataclass_transform

import jax

from invlift.programs.by_content import by_content

#: Nested tuples, dicts and modules of arrays; only the code that creates one knows its structure.
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
    """Return a field of a :class:`Module` that no computation uses.

    It is neither a leaf nor part of the structure, so compiled programs and digests do not depend
    on it.  An instance that JAX creates from another one has the default value again.
    """
    return field(default=default, compare=False, repr=False, metadata={"aside": True})


@dataclass_transform(frozen_default=True, field_specifiers=(field, static, aside))
class Module:
    """Base of classes that JAX takes as arguments: every subclass is a frozen dataclass and pytree.

    Fields made by :func:`static` are settings.  Fields made by :func:`aside` are not part of the
    pytree.  All others hold arrays or other modules.  With ``class Name(Base, settings=True)`` all
    fields of the class are settings.
    """

    _are_settings = False

    def __init_subclass__(cls, *, settings: bool | None = None, **options) -> None:
        super().__init_subclass__(**options)
        if settings is not None:
            cls._are_settings = settings
        pytree(dataclass(frozen=True)(cls))

    def __post_init__(self) -> None:
        """Wrap functions in the settings, so that they compare by content, not by identity."""
        for each in fields(self):
            if self._are_settings or each.metadata.get("static"):
                value = getattr(self, each.name)
                if (taken := by_content(value)) is not value:
                    object.__setattr__(self, each.name, taken)


def pytree(cls: type) -> type:
    """Register a dataclass with JAX, and return the class.

    Fields with ``static`` in their metadata are part of the structure, fields with ``aside`` are
    not part of the pytree, and all others are children.

    Parameters
    ----------
    cls : type
        A dataclass.  Its subclasses are registered separately.

    Notes
    -----
    JAX's ``register_dataclass`` must not be used.  In JAX 0.10, two classes that it registers have
    equal structures if they have equally many fields.  If their hashes collide, a compiled function
    called with one class runs the program of the other: of 300 classes with different computations,
    43 got the result of another class.  The structure also contains the classes of the children,
    because a user's class may be registered in that way.
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
        # Without the constructor, as JAX also builds instances with children that are no arrays.
        instance = object.__new__(cls)
        for name, value in zip([*static, *names], [*structure[0], *children], strict=True):
            object.__setattr__(instance, name, value)
        for name, default in aside.items():
            object.__setattr__(instance, name, default)
        return instance

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def _is_node(child) -> bool:
    """Return whether a child is a registered dataclass; JAX may use unregistered ones as leaves."""
    return is_dataclass(child) and not jax.tree_util.all_leaves([child])
