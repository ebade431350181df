"""Nested containers of tensors: taken apart into leaves and put together again.

Containers are dict, list, tuple, None, named tuples, dataclasses, and classes given to `register`; everything else
is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

from xlapy.errors import ConstraintError, DTypeError, shown

__all__ = [
    "LEAF",
    "TreeDef",
    "flatten",
    "flatten_with_paths",
    "map",
    "paths",
    "register",
    "unflatten",
]


@final
class TreeDef:
    """The structure of a container, without its leaves; hashable and comparable.

    Attributes
    ----------
    kind : type or None
        The container's class; None for a leaf.
    data : hashable
        What the container needs beside its children: the keys of a dict, the fields of a dataclass.
    children : tuple of TreeDef
    leaves : int
        The number of leaves below.
    """

    __slots__ = ("_hash", "children", "data", "kind", "leaves")

    def __init__(self, kind: type | None, data: Any, children: tuple[TreeDef, ...]) -> None:
        self.kind = kind
        self.data = data
        self.children = children
        self.leaves: int = 1 if kind is None else sum(c.leaves for c in children)
        self._hash = hash((kind, data, children))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TreeDef)
            and self._hash == other._hash
            and self.kind is other.kind
            and self.data == other.data
            and self.children == other.children
        )

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is dict:
            return (
                "{"
                + ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.data, self.children, strict=True))
                + "}"
            )
        if self.kind is type(None):
            return "None"
        inner = ", ".join(map_repr(self.children))
        if self.kind is list:
            return f"[{inner}]"
        return f"({inner})" if self.kind is tuple else f"{self.kind.__name__}({inner})"


def map_repr(items: Iterable[object]) -> list[str]:
    """The representation of each item."""
    return [repr(i) for i in items]


#: the structure of a lone leaf
LEAF: Final = TreeDef(None, None, ())
_NONE: Final = TreeDef(type(None), None, ())

# class -> (to_children(x) -> (children, data, names), from_children(data, children))
_Split = Callable[[Any], tuple[Sequence[Any], Any]]
_Join = Callable[[Any, Sequence[Any]], Any]
_registered: dict[type, tuple[_Split, _Join]] = {}
# classes found to be no containers, and how many are remembered
_leaf_classes: set[type] = set()
_REMEMBERED: Final = 1024


def register(cls: type, to_children: _Split, from_children: _Join) -> type:
    """Let instances of a class be containers.

    Parameters
    ----------
    cls : type
    to_children : callable
        From an instance to (children, data); `data` must be hashable.
    from_children : callable
        From (data, children) to an instance.

    Returns
    -------
    type
        `cls`.

    Raises
    ------
    ConstraintError
        If the class is registered already.

    Examples
    --------
    >>> import xlapy
    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> _ = xlapy.tree.register(Pair, lambda p: ((p.a, p.b), None), lambda _, ab: Pair(*ab))
    >>> xlapy.tree.flatten(Pair(1, [2, 3]))[0]
    [1, 2, 3]
    """
    if not isinstance(cls, type) or not callable(to_children) or not callable(from_children):
        raise DTypeError(
            f"register must get a class and two functions; got {shown(cls)}, {shown(to_children)} and"
            f" {shown(from_children)} [X1]"
        )
    if cls in _registered or cls in (dict, list, tuple, type(None)):
        raise ConstraintError(
            f"a container class must be registered once; got {cls.__name__} again [X1]"
        )
    _registered[cls] = (to_children, from_children)
    _leaf_classes.discard(cls)
    return cls


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of a container, in order, and its structure.

    Parameters
    ----------
    tree : any
        Dicts are read in the order of their sorted keys, so that two equal dicts have one structure.

    Returns
    -------
    leaves : list
    structure : TreeDef

    Examples
    --------
    >>> leaves, structure = flatten({"b": [1, 2], "a": None})
    >>> leaves, structure
    ([1, 2], {'a': None, 'b': [*, *]})
    """
    leaves: list[Any] = []
    try:
        return leaves, _flatten(tree, leaves)
    except RecursionError:
        if not _is_deep(tree):
            raise  # the caller has left no room
        raise ConstraintError(
            "a container must not contain itself, nor lie deeper than Python can call; got a"
            f" {type(tree).__name__} [X1]"
        ) from None


# Containers that do not fill Python's stack.
_SHALLOW: Final = 50
# A container that contains itself more than once does not end.
_MANY: Final = 100_000


def _is_deep(tree: Any) -> bool:
    """Whether containers lie deep in each other, or in themselves."""
    level = [tree]
    count = 0
    for _ in range(_SHALLOW):
        inner: list[Any] = []
        for x in level:
            if isinstance(x, dict):
                inner += x.values()
            elif isinstance(x, list | tuple):
                inner += x
            elif (entry := _split(x, type(x))) is not None:
                inner += entry[0]
        level = [x for x in inner if type(x) not in _leaf_classes]
        count += len(level)
        if count > _MANY:
            return True
    return bool(level)


def _keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError:  # keys of several types: by the type's name, then by representation
        return tuple(sorted(tree, key=lambda k: (type(k).__name__, repr(k))))


def _flatten(tree: Any, leaves: list[Any]) -> TreeDef:
    kind = type(tree)
    if kind in _leaf_classes:
        leaves.append(tree)
        return LEAF
    if kind is dict:
        keys = _keys(tree)
        return TreeDef(dict, keys, tuple([_flatten(tree[k], leaves) for k in keys]))
    if kind is list or kind is tuple:
        return TreeDef(kind, None, tuple([_flatten(t, leaves) for t in tree]))
    if tree is None:
        return _NONE
    entry = _split(tree, kind)
    if entry is None:
        if len(_leaf_classes) < _REMEMBERED:
            _leaf_classes.add(kind)
        leaves.append(tree)
        return LEAF
    children, data = entry
    return TreeDef(kind, data, tuple([_flatten(c, leaves) for c in children]))


def _split(tree: Any, kind: type) -> tuple[Sequence[Any], Any] | None:
    """The children and data of a container of another class than the built-in ones; None for a leaf."""
    if kind in _registered:
        return _registered[kind][0](tree)
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return tree, None
    if dataclasses.is_dataclass(kind) and not isinstance(tree, type):
        names = tuple(f.name for f in dataclasses.fields(kind))
        return [getattr(tree, n) for n in names], names
    if isinstance(tree, dict):  # a subclass: OrderedDict, defaultdict
        keys = tuple(tree)
        return [tree[k] for k in keys], keys
    return None


def unflatten(structure: TreeDef, leaves: Iterable[Any]) -> Any:
    """Put a container together again.

    Parameters
    ----------
    structure : TreeDef
    leaves : iterable

    Raises
    ------
    ConstraintError
        If the number of leaves differs.

    Examples
    --------
    >>> _, structure = flatten({"a": 1, "b": [2, 3]})
    >>> unflatten(structure, "xyz")
    {'a': 'x', 'b': ['y', 'z']}
    """
    items = leaves if type(leaves) is list else list(leaves)
    if len(items) != structure.leaves:
        raise ConstraintError(
            f"the structure {structure} must get {structure.leaves} leaves; got {len(items)} [X1]"
        )
    return _unflatten(structure, iter(items))


def _unflatten(structure: TreeDef, leaves: Any) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    children = [next(leaves) if c is LEAF else _unflatten(c, leaves) for c in structure.children]
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if kind is dict:
        return dict(zip(structure.data, children, strict=True))
    if kind in _registered:
        return _registered[kind][1](structure.data, children)
    if issubclass(kind, tuple):
        return kind(*children)
    if issubclass(kind, dict):
        result = kind.__new__(kind)
        kind.__init__(result)  # a defaultdict loses its factory: the structure holds no functions
        result.update(zip(structure.data, children, strict=True))
        return result
    # A dataclass is rebuilt without its __init__, which may compute, check or lack fields.
    instance = object.__new__(kind)
    for name, child in zip(structure.data, children, strict=True):
        object.__setattr__(instance, name, child)
    return instance


def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to each leaf, or to the leaves in the same place of several containers.

    Parameters
    ----------
    function : callable
    tree, *rest : containers of one structure

    Returns
    -------
    container
        Of the same structure.

    Examples
    --------
    >>> map(lambda a, b: a + b, {"w": 1, "b": [2]}, {"w": 10, "b": [20]})
    {'b': [22], 'w': 11}
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in rest:
        more, other_structure = flatten(other)
        if other_structure != structure:
            raise DTypeError(
                f"containers must have one structure; got {structure} and {other_structure} [X1]"
            )
        columns.append(more)
    return unflatten(structure, [function(*row) for row in zip(*columns, strict=True)])


def flatten_with_paths(tree: Any, prefix: str = "") -> tuple[list[tuple[str, Any]], TreeDef]:
    """The leaves with the Python expression that reaches each, such as ``.params['w'][0]``."""
    leaves, structure = flatten(tree)
    return list(zip(paths(structure, prefix), leaves, strict=True)), structure


def paths(structure: TreeDef, prefix: str = "") -> list[str]:
    """The Python expression that reaches each leaf, such as ``.params['w'][0]``."""
    found: list[str] = []
    _append_paths(structure, prefix, found)
    return found


def _append_paths(structure: TreeDef, prefix: str, found: list[str]) -> None:
    kind = structure.kind
    if kind is None:
        found.append(prefix)
        return
    data = structure.data if isinstance(structure.data, tuple) else ()
    for i, child in enumerate(structure.children):
        if issubclass(kind, dict):
            step = f"[{data[i]!r}]"
        elif dataclasses.is_dataclass(kind) and i < len(data):
            step = f".{data[i]}"
        elif hasattr(kind, "_fields"):
            step = f".{kind._fields[i]}"
        else:
            step = f"[{i}]"
        _append_paths(child, prefix + step, found)
