"""`vmap`: a function of single examples as a function of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy import tree
from xlapy.differentiation import _in_one_program, _tensor
from xlapy.errors import ConstraintError, DTypeError, ShapeError, XlapyError, shown
from xlapy.numpy.promotion import as_tensor, is_weak
from xlapy.source import hide_library_frames
from xlapy.specs import DYNAMIC, TokenSpec, as_axis
from xlapy.tensor import Tensor
from xlapy.trace.batching import broadcast_leading, replay_batched
from xlapy.trace.builder import lift, require_function, trace
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.sizes import broadcast_rows

__all__ = ["vmap"]


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Vectorise a function over an axis of its arguments.

    The function is recorded for one example, and every operation is replaced by the one that does the whole batch.

    Parameters
    ----------
    f : callable
    in_axes : int or None or container
        The axis of each argument to go along; None for arguments that are the same for all examples. A tuple gives
        one entry for each argument; a container within it goes with the argument's own.
    out_axes : int or container
        Where the new axis goes in the results.

    Returns
    -------
    callable

    Raises
    ------
    ShapeError
        If the axes differ in length, or an argument lacks its axis.

    Examples
    --------
    >>> import xlapy
    >>> x = xlapy.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> xlapy.vmap(lambda row, c: xlapy.sum(row) * c, in_axes=(0, None))(x, 10.0)
    Tensor([30., 70.], f32[2])
    """
    require_function(f, "vmap: f")
    name = getattr(f, "__name__", "function")

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        def recorded(*inner: Any) -> Any:
            return _vectorize(f, inner, kwargs, in_axes, out_axes, name)

        try:
            return _in_one_program(recorded, args, f"vmap_{name}")
        except XlapyError as error:
            hide_library_frames(error)
            raise

    return wrapper


def _spread(prefix: Any, structure: tree.TreeDef, what: str, name: str) -> list[Any]:
    """One entry of a prefix container for each leaf below it."""
    if prefix is None or isinstance(prefix, int | np.integer):
        return [prefix] * structure.leaves
    if not isinstance(prefix, tuple | list | dict):
        raise DTypeError(
            f"{name}: {what} must be an axis, None or a container of them; got {shown(prefix)} [X1]"
        )
    entries = list(prefix.values()) if isinstance(prefix, dict) else list(prefix)
    if isinstance(prefix, dict) and structure.kind is dict:
        if set(prefix) != set(structure.data):
            raise ConstraintError(
                f"{name}: {what} must have the argument's keys; got {sorted(prefix)} [X1]"
            )
        entries = [prefix[k] for k in structure.data]
    if len(entries) != len(structure.children):
        raise ConstraintError(
            f"{name}: {what} must have an entry for each of the {len(structure.children)} parts of {structure};"
            f" got {shown(prefix)} [X1]"
        )
    return [
        x
        for e, c in zip(entries, structure.children, strict=True)
        for x in _spread(e, c, what, name)
    ]


def _adapts(x: Any) -> bool:
    """Whether an argument is a Python scalar, or stands for one."""
    return type(x) in (bool, int, float, complex) or (type(x) is Tensor and is_weak(x))


def _to_front(x: Tensor, axis: int) -> Any:
    if axis == 0:
        return x
    order = (axis, *[i for i in range(x.ndim) if i != axis])
    return bind(lookup("transpose"), x, permutation=order)


def _from_front(x: Tensor, axis: int, name: str) -> Any:
    position = as_axis(axis, x.ndim, what=f"{name}: out_axes")
    if position == 0:
        return Tensor(x.placed, x.payload)  # an argument itself perhaps
    order = (*range(1, position + 1), 0, *range(position + 1, x.ndim))
    return bind(lookup("transpose"), x, permutation=order)


def _lead(tensors: list[Tensor], axes: Sequence[Any], in_axes: Any, name: str) -> int:
    """Bring the mapped axes of arguments to the front, and give the length that they have in common."""
    sizes = set()
    for i, (t, a) in enumerate(zip(tensors, axes, strict=True)):
        if a is not None:
            position = as_axis(a, t.ndim, what=f"{name}: in_axes")
            sizes.add(t.shape[position])
            tensors[i] = _to_front(t, position)
    if len(sizes) == 1:
        return sizes.pop()
    what = (
        "mapped axes must be of one length"
        if sizes
        else "at least one argument must have a mapped axis"
    )
    raise ShapeError(
        f"{name}: {what}; got {[str(t.spec) for t in tensors]} with in_axes={shown(in_axes)} [X5]"
    )


def _vectorize(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    in_axes: Any,
    out_axes: Any,
    name: str,
) -> Any:
    leaves, structure = tree.flatten(args)
    prefix = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    axes = _spread(prefix, structure, "in_axes", name)
    tensors = [_tensor(x) for x in leaves]
    # A token has no rows: it is the same for all examples.
    axes = [None if type(t.spec) is TokenSpec else a for t, a in zip(tensors, axes, strict=True)]
    flags = [a is not None for a in axes]
    size = _lead(tensors, axes, in_axes, name)
    specs = [
        t.spec.with_shape(t.shape[1:]) if b else t.spec for t, b in zip(tensors, flags, strict=True)
    ]
    found: list[tree.TreeDef] = []

    def of_leaves(*single: Any) -> Any:
        # Python scalars that are the same for all adapt to what they meet, as they do outside.
        single = tuple(
            [
                x if not b and _adapts(x) else s
                for s, x, b in zip(single, leaves, flags, strict=True)
            ]
        )
        output = f(*tree.unflatten(structure, single), **kwargs)
        outs, out_structure = tree.flatten(output)
        found.append(out_structure)
        return [x if type(x) is Tensor else lift(x) for x in outs]

    traced = trace(of_leaves, specs, name=name)
    operands = [*tensors, *traced.captured]
    results, batched = replay_batched(
        traced.computation, operands, [*flags, *[False] * len(traced.captured)], size
    )
    (out_structure,) = found
    places = _spread(
        tuple(out_axes) if isinstance(out_axes, list) else out_axes, out_structure, "out_axes", name
    )
    first = tensors[flags.index(True)]
    finished = [
        _finished(x, b, a, first, size, name)
        for x, b, a in zip(results, batched, places, strict=True)
    ]
    return tree.unflatten(out_structure, finished)


def _finished(x: Any, varies: bool, axis: Any, mapped: Tensor, size: int, name: str) -> Any:
    """A result with its rows where they belong; `mapped` is an argument with as many."""
    if type(x.spec) is TokenSpec:
        return x
    if axis is None:
        if varies:
            raise DTypeError(
                f"{name}: a result that varies must have an axis in out_axes; got None for {x.spec} [X5]"
            )
        return as_tensor(x) if is_weak(x) else Tensor(x.placed, x.payload)
    if not varies:
        counted = size is DYNAMIC or 0 in mapped.spec.dynamic
        x = broadcast_rows(x, mapped) if counted else broadcast_leading(x, size)
    return _from_front(x, axis, name)
