"""Jacobians and Hessians: derivatives along all directions at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy import tree
from xlapy.differentiation import (
    _in_one_program,
    _inputs,
    _positions,
    _tensor,
    jvp,
    vjp,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import require_function
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.vectorization import vmap

__all__ = ["hessian", "jacfwd", "jacrev"]


def _basis(tensors: Sequence[Tensor]) -> list[Any]:
    """The unit vectors of the space of all the tensors together: for each tensor its rows, [total, *shape]."""
    total = sum(t.size for t in tensors)
    rows, offset = [], 0
    for t in tensors:
        block = np.zeros((total, t.size), t.dtype.numpy)
        block[offset : offset + t.size] = np.eye(t.size, dtype=t.dtype.numpy)
        rows.append(bind(lookup("constant"), value=block.reshape(total, *t.shape)))
        offset += t.size
    return rows


def _cut(stacked: Tensor, tensors: Sequence[Tensor], in_front: bool) -> list[Any]:
    """Cut axis 0 of [total, *rest] into blocks of the tensors' shapes, in front or at the end."""
    parts, offset = [], 0
    rest = stacked.shape[1:]
    for t in tensors:
        start = (offset, *[0] * len(rest))
        limit = (offset + t.size, *rest)
        part = bind(
            lookup("slice"),
            stacked,
            start_indices=start,
            limit_indices=limit,
            strides=(1,) * len(start),
        )
        part = bind(lookup("reshape"), part, shape=(*t.shape, *rest))
        if not in_front:
            k = len(t.shape)
            order = (*range(k, k + len(rest)), *range(k))
            part = bind(lookup("transpose"), part, permutation=order)
        parts.append(part)
        offset += t.size
    return parts


def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the Jacobian, column by column in forward mode: for more results than arguments.

    Parameters
    ----------
    f : callable
    argnums : int or sequence of int

    Returns
    -------
    callable
        Its result has f's containers, and in each place the argument's, with shape
        ``(*result.shape, *argument.shape)``.

    Examples
    --------
    >>> import xlapy
    >>> xlapy.jacfwd(lambda x: x * x)(xlapy.asarray([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]], f32[2,2])
    """
    return _jacobian(f, argnums, forward=True)


def jacrev(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the Jacobian, row by row in reverse mode: for more arguments than results.

    Parameters
    ----------
    f : callable
    argnums : int or sequence of int

    Returns
    -------
    callable
        As for `jacfwd`.

    Examples
    --------
    >>> import xlapy
    >>> xlapy.jacrev(lambda x: x * x)(xlapy.asarray([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]], f32[2,2])
    """
    return _jacobian(f, argnums, forward=False)


def _jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int], *, forward: bool
) -> Callable[..., Any]:
    require_function(f, f"{'jacfwd' if forward else 'jacrev'}: f")
    name = getattr(f, "__name__", "function")

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        positions = _positions(argnums, len(args), name)

        def recorded(*inner: Any) -> Any:
            leaves, structure = tree.flatten([inner[p] for p in positions])
            inputs = _inputs(leaves, "what a Jacobian is taken by", name)

            def of_leaves(*chosen: Any) -> Any:
                full = list(inner)
                for p, value in zip(positions, tree.unflatten(structure, chosen), strict=True):
                    full[p] = value
                output = f(*full, **kwargs)
                outs, out_structure = tree.flatten(output)
                structures.append(out_structure)
                return [_tensor(o) for o in outs]

            structures: list[tree.TreeDef] = []
            if forward:
                columns = vmap(lambda *ts: jvp(of_leaves, inputs, ts)[1])(*_basis(inputs))
                blocks = [_cut(c, inputs, in_front=False) for c in columns]
            else:
                outs, pullback = vjp(of_leaves, *inputs)
                rows = vmap(lambda *cts: pullback(list(cts)))(*_basis(outs))
                by_input = [_cut(r, outs, in_front=True) for r in rows]
                blocks = [list(column) for column in zip(*by_input, strict=True)]
            nested = []
            for block in blocks:
                gradients = tuple(tree.unflatten(structure, block))
                nested.append(gradients[0] if isinstance(argnums, int) else gradients)
            return tree.unflatten(structures[0], nested)

        return _in_one_program(recorded, args, f"jacobian_{name}")

    return wrapper


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives, forward over reverse.

    Parameters
    ----------
    f : callable
        Returning a scalar.
    argnums : int or sequence of int

    Returns
    -------
    callable

    Examples
    --------
    >>> import xlapy
    >>> xlapy.hessian(lambda x: xlapy.sum(x * x * x))(xlapy.asarray([1.0, 2.0]))
    Tensor([[ 6.,  0.],
            [ 0., 12.]], f32[2,2])
    """
    return jacfwd(jacrev(f, argnums), argnums)
