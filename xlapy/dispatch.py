"""The call of a compiled function, seen before: arguments to payloads and a key, in as few steps as there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xlapy import tree
from xlapy.tensor import Placed, Tensor

__all__ = ["NotPlainError", "arrange", "from_payloads", "places"]


class NotPlainError(Exception):
    """An argument holds something else than tensors in dicts, lists, tuples and None; never seen by users."""


def arrange(arguments: Iterable[Any], payloads: list[Any], key: list[Any]) -> None:
    """Append the payloads of the arguments' tensors, and what tells calls of different programs apart.

    Dicts are read in their own order, which is part of the key: sorting would take longer than all the rest.

    Raises
    ------
    NotPlainError
        If there is anything else among the arguments.
    """
    for x in arguments:
        kind = type(x)
        if kind is Tensor:
            payloads.append(x.payload)
            key.append(x.placed)
        elif kind is dict:
            key.append(tuple(x))
            values = x.values()
            try:
                found = [v.payload for v in values]
                key.extend([v.placed for v in values])
            except AttributeError:  # not tensors alone
                arrange(values, payloads, key)
            else:
                payloads.extend(found)
        elif kind is tuple or kind is list:
            key.append(kind)
            key.append(len(x))
            arrange(x, payloads, key)
        elif x is None:
            key.append(None)
        else:
            raise NotPlainError


def places(arguments: Sequence[Any]) -> list[int]:
    """Where each leaf of the arguments, in the order of `xlapy.tree`, stands among the payloads of `arrange`."""
    count = iter(range(_size(arguments)))

    def numbered(x: Any) -> Any:
        if type(x) is dict:
            return {k: numbered(v) for k, v in x.items()}
        if type(x) in (tuple, list):
            return [numbered(v) for v in x]
        return None if x is None else next(count)

    return tree.flatten(numbered(arguments))[0]


def _size(arguments: Any) -> int:
    return len(tree.flatten(arguments)[0])


def from_payloads(
    run: Callable[[list[Any]], Any], structure: tree.TreeDef, placed: Sequence[Placed]
) -> Callable[[list[Any]], Any]:
    """A program as a function from its arguments' payloads to what it returns: the leanest for the container."""
    if structure is tree.LEAF:
        first = placed[0]

        def call(payloads: list[Any]) -> Any:
            return Tensor(first, run(payloads)[0])

    elif structure.kind in (tuple, list) and all(c is tree.LEAF for c in structure.children):
        kind: Any = structure.kind

        def call(payloads: list[Any]) -> Any:
            return kind([Tensor(p, r) for p, r in zip(placed, run(payloads), strict=True)])

    elif structure.kind is dict and all(c is tree.LEAF for c in structure.children):
        names = structure.data

        def call(payloads: list[Any]) -> Any:
            return {n: Tensor(p, r) for n, p, r in zip(names, placed, run(payloads), strict=True)}

    else:

        def call(payloads: list[Any]) -> Any:
            return tree.unflatten(
                structure, [Tensor(p, r) for p, r in zip(placed, run(payloads), strict=True)]
            )

    return call
