"""Functions that are vectorised, differentiated or compiled within a program, and so within one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlapy
from fuzzing.draft import INEXACT, Draft, Unfit
from fuzzing.values import LARGEST
from xlapy import ops
from xlapy.errors import NotDifferentiableError, ShapeError, UnsupportedOpError
from xlapy.specs import TensorSpec
from xlapy.trace.replay import inline

from .control_flow import _grown, _specs
from .table import generates


def _function(
    draft: Draft, specs: Sequence[TensorSpec], arrays: Sequence[Any], results: list[TensorSpec]
) -> Callable[..., tuple[Any, ...]]:
    """A random function from arrays of specs to arrays of specs."""
    body = draft.body(
        lambda inner, *xs: _grown(inner, results), list(specs), list(arrays), scalars=False
    )
    return lambda *xs: tuple(inline(body, xs))


def _done(transformed: Callable[[], Any]) -> Any:
    """What a transformation gives; it is not drawn where an operation in the function has no rule."""
    try:
        return transformed()
    except (NotDifferentiableError, UnsupportedOpError) as error:
        raise Unfit from error
    except ShapeError as error:
        if "sizes must be known" not in str(error):
            raise
        raise Unfit from error


@generates("compile", weight=0.6)
def compile_(draft: Draft, name: str) -> Any:
    operands = [draft.tensor() for _ in range(draft.integer(1, 3))]
    arrays = [draft.array(o) for o in operands]
    function = xlapy.compile(_function(draft, [o.spec for o in operands], arrays, _specs(draft)))
    found = function(*operands)
    return function(*operands) if draft.chance(0.3) else found


@generates("vmap", weight=1.5)
def vmap(draft: Draft, name: str) -> Any:
    """Some operands of rows along any axis, others the same for all."""
    size = draft.choose([0, 1, 2, 3]) if draft.chance(0.5) else None
    given: list[tuple[Any, int | None]] = []
    for i in range(draft.integer(1, 3)):
        if i and draft.chance(0.3):
            given.append((draft.tensor(), None))
            continue
        x = draft.tensor(least=1) if size is None else None
        if x is None:
            shape = list(draft.shape(draft.integer(0, 2)))
            axis = draft.integer(0, len(shape))
            shape.insert(axis, size if size is not None else 1)
            if np.prod(shape) > LARGEST:
                raise Unfit
            x = draft.tensor(shape=tuple(shape))
        else:
            axis = draft.integer(0, x.spec.rank - 1)
            size = x.spec.shape[axis]
        given.append((x, axis - x.spec.rank if draft.chance(0.3) else axis))
    specs, rows = [], []
    for x, axis_ in given:
        array = draft.array(x)
        if axis_ is None:
            row = array
        elif size:
            row = np.take(array, 0, axis_)
        else:
            row = np.zeros(np.delete(array.shape, axis_), array.dtype)
        rows.append(np.asarray(row))
        specs.append(TensorSpec(np.shape(row), x.spec.dtype))
    results = _specs(draft)
    if size and max(r.size for r in results) * size > LARGEST:
        raise Unfit
    function = _function(draft, specs, rows, results)
    out_axes = tuple(draft.integer(0, r.rank) for r in results)
    return _done(
        lambda: xlapy.vmap(function, in_axes=tuple(a for _, a in given), out_axes=out_axes)(
            *[x for x, _ in given]
        )
    )


def _differentiable(draft: Draft) -> tuple[list[Any], Callable[..., Any], list[TensorSpec]]:
    """Operands, a function of those that are floats, and the specs of its results."""
    operands = [draft.tensor(INEXACT)]
    operands += [draft.tensor() for _ in range(draft.integer(0, 2))]
    arrays = [draft.array(o) for o in operands]
    results = [TensorSpec(draft.shape(), draft.dtype(INEXACT)) for _ in range(draft.integer(1, 2))]
    whole = _function(draft, [o.spec for o in operands], arrays, results)
    varying = [i for i, o in enumerate(operands) if o.spec.dtype.inexact]

    def function(*xs: Any) -> Any:
        every = list(operands)
        for i, x in zip(varying, xs, strict=True):
            every[i] = x
        return whole(*every)

    return [operands[i] for i in varying], function, results


@generates("jvp", weight=1)
def jvp(draft: Draft, name: str) -> Any:
    primals, function, _ = _differentiable(draft)
    tangents = tuple(draft.tensor(dtype=p.spec.dtype, shape=p.spec.shape) for p in primals)
    return _done(lambda: xlapy.jvp(function, tuple(primals), tangents))


@generates("vjp", weight=1)
def vjp(draft: Draft, name: str) -> Any:
    primals, function, results = _differentiable(draft)
    cotangents = tuple(draft.exactly(r) for r in results)

    def pulled() -> Any:
        _, pull = xlapy.vjp(function, *primals)
        found = pull(cotangents)
        return pull(cotangents) if draft.chance(0.2) else found

    return _done(pulled)


@generates("grad", weight=1)
def grad(draft: Draft, name: str) -> Any:
    primals, function, _ = _differentiable(draft)

    def loss(*xs: Any) -> Any:
        (first, *_) = function(*xs)
        if first.spec.dtype.kind == "complex":
            first = ops.real(first)
        return ops.reduce_sum(first)

    if draft.chance(0.5):
        return _done(lambda: xlapy.grad(loss)(*primals))
    return _done(lambda: xlapy.value_and_grad(loss, argnums=tuple(range(len(primals))))(*primals))
