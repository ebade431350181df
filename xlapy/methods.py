"""Compiled methods: an object's tensors are arguments, its other attributes static."""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np

from xlapy import tree
from xlapy.errors import TracingError, XlapyError
from xlapy.source import hide_library_frames
from xlapy.tensor import Tensor

# Objects of these have attributes of their own that no program depends on.
_OPAQUE: Final = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
)


def static_key(value: Any) -> Any:
    """What to know a static value by, for 1, True and 1.0 are equal, so are 0.0 and -0.0, and nan equals nothing."""
    kind = type(value)
    if isinstance(value, float | complex | np.inexact):
        return kind, repr(value)
    if kind is tuple or kind is frozenset:
        return kind, kind(static_key(v) for v in value)
    return kind, value


@final
@dataclass(frozen=True, slots=True)
class _Held:
    """A value that does not count where descriptions are compared, as nan equals nothing: its key does."""

    value: Any = field(compare=False)


def describe_object(instance: Any) -> tuple[list[Any], Any]:
    """Part an object into the tensors that it holds, however deep, and a hashable description of the rest.

    Containers and the objects among the attributes are gone through as well, so that a tensor of a layer of a model
    is an argument like the model's own.

    Returns
    -------
    leaves : list of Tensor or array
    description : hashable
        From which, with the leaves, `stand_in_for` makes the object again.

    Raises
    ------
    TracingError
        If an attribute is neither made of tensors nor hashable: a change of it could not be seen.
    """
    leaves: list[Any] = []
    return leaves, _describe(instance, "self", leaves, {})


@functools.cache
def _slots(kind: type) -> tuple[str, ...]:
    """The attributes that a class keeps outside `__dict__`."""
    found: list[str] = []
    for cls in kind.__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__"):
                private = name.startswith("__") and not name.endswith("__")
                found.append(f"_{cls.__name__.lstrip('_')}{name}" if private else name)
    return tuple(found)


def _attributes(x: Any) -> dict[str, Any]:
    """What an object holds, by name."""
    found = dict(vars(x)) if hasattr(x, "__dict__") else {}
    kind: Any = type(x)
    for name in _slots(kind):
        if hasattr(x, name):
            found[name] = getattr(x, name)
    return found


def _is_plain_object(x: Any) -> bool:
    """Whether an object is compared by identity, so that a change within it has to be looked for."""
    kind: Any = type(x)
    return (
        (hasattr(x, "__dict__") or bool(_slots(kind)))
        and kind.__hash__ is object.__hash__
        and not isinstance(x, _OPAQUE)
        and not callable(x)
        and kind.__module__.partition(".")[0] not in sys.stdlib_module_names
    )


def _describe(x: Any, path: str, leaves: list[Any], seen: dict[int, int]) -> Any:
    if isinstance(x, Tensor | np.ndarray):
        leaves.append(x)
        return _LEAF
    if isinstance(x, type):  # of a class method
        return ("static", static_key(x), _Held(x))
    if path == "self" or _is_plain_object(x):
        if id(x) in seen:
            return ("again", seen[id(x)])
        seen[id(x)] = len(seen)
        parts = tuple(
            (k, _describe(v, f"{path}.{k}", leaves, seen)) for k, v in _attributes(x).items()
        )
        return ("object", type(x), parts)
    parts_with_paths, structure = tree.flatten_with_paths(x, path)
    if structure is not tree.LEAF:
        return (
            "container",
            structure,
            tuple(_describe(v, p, leaves, seen) for p, v in parts_with_paths),
        )
    try:
        hash(x)
    except TypeError:
        raise TracingError(
            f"an attribute of a compiled method's object must be hashable or made of tensors; got"
            f" {type(x).__name__} for {path} [X1]"
        ) from None
    return ("static", static_key(x), _Held(x))


_LEAF: Final = ("leaf",)


def parts_of(description: Any, path: str = "self") -> Iterator[tuple[str, Any]]:
    """Where each tensor and each static value of a described object is found: ("leaf",) or ("static", value)."""
    what, *rest = description
    if what == "object":
        for name, part in rest[1]:
            yield from parts_of(part, f"{path}.{name}")
    elif what == "container":
        for place, part in zip(tree.paths(rest[0], path), rest[1], strict=True):
            yield from parts_of(part, place)
    elif what == "static":
        yield path, (what, rest[1].value)
    elif what == "leaf":
        yield path, description


def stand_in_for(
    description: Any, leaves: Sequence[Any]
) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """Make a copy of a described object that holds the given leaves.

    Returns
    -------
    stand_in : object
    before : list of (object, attributes)
        The copies of it and of the objects in it, with what they held at first; see `require_unchanged`.
    """
    before: list[tuple[Any, dict[str, Any]]] = []
    stand_in = _rebuild(description, iter(leaves), before)
    return stand_in, [(x, _attributes(x)) for x, _ in before]


def _rebuild(
    description: Any, leaves: Iterator[Any], made: list[tuple[Any, dict[str, Any]]]
) -> Any:
    what, *rest = description
    if what == "leaf":
        return next(leaves)
    if what == "again":
        return made[rest[0]][0]
    if what == "object":
        copy = object.__new__(rest[0])
        made.append((copy, {}))
        for name, part in rest[1]:
            object.__setattr__(copy, name, _rebuild(part, leaves, made))
        return copy
    if what == "container":
        return tree.unflatten(rest[0], [_rebuild(p, leaves, made) for p in rest[1]])
    return rest[1].value


def require_unchanged(name: str, before: Sequence[tuple[Any, dict[str, Any]]]) -> None:
    """Refuse assignments to attributes, which would happen only while the method is recorded."""
    for x, old in before:
        new = _attributes(x)
        changed = sorted(k for k in {*old, *new} if old.get(k) is not new.get(k))
        if changed:
            raise TracingError(
                f"{name}: a compiled method must not assign attributes, for the assignment would happen only while"
                f" it is recorded; got {type(x).__name__}.{changed[0]} [X1]\n  return the new value instead"
            )


@final
class BoundMethod:
    """A compiled method of one object: its tensors are arguments, so that later assignments are seen."""

    __slots__ = ("__self__", "_compiled")

    def __init__(self, compiled: Any, instance: Any) -> None:
        self._compiled = compiled
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method for its object."""
        compiled = self._compiled
        try:
            return compiled._call(args, kwargs, self.__self__)
        except XlapyError as error:
            hide_library_frames(error)
            raise

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Record the method for these arguments; see `CompiledFunction.lower`."""
        return self._compiled._lower(args, kwargs, self.__self__)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """The computation for these arguments; see `CompiledFunction.trace`."""
        return self.lower(*args, **kwargs).computation

    def __reduce__(self) -> Any:
        return BoundMethod, (self._compiled, self.__self__)

    def __deepcopy__(self, memo: Any) -> BoundMethod:
        return BoundMethod(self._compiled, copy.deepcopy(self.__self__, memo))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)
