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
from xlapy.errors import NotDifferentiableError
from xlapy.ops.forms import converted
from xlapy.tensor import Tensor
from xlapy.trace.builder import require_function
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.vectorization import vmap

__all__ = ["hessian", "jacfwd", "jacrev"]


def _basis(tensors: Sequence[Tensor], unit: complex) -> list[Any]:
    """The unit vectors of the space of all the tensors together: for each tensor its rows, [total, *shape].

    They are multiplied by `unit`, where this is imaginary those of complex numbers alone.
    """
    total = sum(t.size for t in tensors)
    rows, offset = [], 0
    for t in tensors:
        block = np.zeros((total, t.size), t.dtype.numpy)
        scale = unit if t.dtype.kind == "complex" else unit.real
        block[offset : offset + t.size] = np.eye(t.size) * scale
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


def _complete(
    blocks: list[list[Any]],
    units: Sequence[Tensor],
    forward: bool,
    along: Callable[[complex], list[list[Any]]],
) -> list[list[Any]]:
    """Give derivatives between real and complex numbers the part that they have along i."""
    scales = [
        [units[k if forward else j].dtype for k in range(len(row))] for j, row in enumerate(blocks)
    ]
    halves = [
        [
            d.kind == "complex" and block.dtype.kind == "float"
            for d, block in zip(*rows, strict=True)
        ]
        for rows in zip(scales, blocks, strict=True)
    ]
    if not any(map(any, halves)):
        return blocks
    others = along(-1j)
    return [
        [
            bind(lookup("complex"), converted(re, d.real_part), converted(im, d.real_part))
            if half
            else re
            for half, d, re, im in zip(*rows, strict=True)
        ]
        for rows in zip(halves, scales, blocks, others, strict=True)
    ]


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
        ``(*result.shape, *argument.shape)``. It is complex where the result or the argument is: of a real result the
        derivative by the argument's real part less i times that by its imaginary part, as in `grad`; a complex
        result must be a holomorphic function of a complex argument.

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
            outs, pullback = ([], None) if forward else vjp(of_leaves, *inputs)

            def along(unit: complex) -> list[list[Any]]:
                """For each result the derivatives by each argument, with respect to multiples of the unit vectors."""
                if forward:
                    columns = vmap(lambda *ts: jvp(of_leaves, inputs, ts)[1])(*_basis(inputs, unit))
                    return [_cut(c, inputs, in_front=False) for c in columns]
                assert pullback is not None
                rows = vmap(lambda *cts: pullback(list(cts)))(*_basis(outs, unit))
                return [
                    list(c) for c in zip(*[_cut(r, outs, in_front=True) for r in rows], strict=True)
                ]

            blocks = _complete(along(1), inputs if forward else outs, forward, along)
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

    Raises
    ------
    NotDifferentiableError
        If an argument is complex: the gradient by it is no holomorphic function.

    Examples
    --------
    >>> import xlapy
    >>> xlapy.hessian(lambda x: xlapy.sum(x * x * x))(xlapy.asarray([1.0, 2.0]))
    Tensor([[ 6.,  0.],
            [ 0., 12.]], f32[2,2])
    """
    gradient = jacrev(f, argnums)

    @functools.wraps(f)
    def of_real(*args: Any, **kwargs: Any) -> Any:
        chosen = [args[p] for p in _positions(argnums, len(args), "hessian")]
        for t in map(_tensor, tree.flatten(chosen)[0]):
            if t.dtype.kind == "complex":
                raise NotDifferentiableError(
                    f"hessian: what a Hessian is taken by must be real; got {t.spec} [X4]\n"
                    "  take the real and the imaginary part as arguments"
                )
        return gradient(*args, **kwargs)

    return jacfwd(of_real, argnums)
