"""Computations on scalars, applied to whole arrays: what reductions, windows and maps hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.dtypes import DType
from xlapy.specs import TensorSpec, require, require_array, require_dtype
from xlapy.trace.batching import batch_computation, replay_batched
from xlapy.trace.builder import as_computation
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

from .rules import batch_elementwise

__all__ = ["applied", "in_types_of", "on_arrays", "require_fold", "scalar_body", "scalar_operation"]

Array = np.ndarray[Any, Any]

#: operations whose kernels take whole arrays for scalars though their batching rule is another
_ELEMENTWISE: Final = frozenset(
    {"constant", "select", "clamp", "compare", "convert_element_type", "copy"}
)


def is_elementwise(computation: Computation) -> bool:
    """Whether the kernels of a computation on scalars work element by element when they are given arrays."""
    found = computation.cache.get("elementwise")
    if found is None:
        found = computation.cache["elementwise"] = all(
            i.op.batch is batch_elementwise or i.op.name in _ELEMENTWISE
            for i in computation.instructions
        )
    answer: bool = found
    return answer


def on_arrays(body: Any, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a computation on scalars for each element of arrays that broadcast together.

    Parameters
    ----------
    body : Evaluator
        As kernels get it.
    arrays : sequence of arrays
    """
    computation: Computation = body.computation
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    if is_elementwise(computation):
        found = body(*arrays)
    else:
        # Loops, branches and the like: the vectorised computation, on rows of one element.
        size = int(np.prod(shape))
        flat = [np.broadcast_to(a, shape).reshape(size) for a in arrays]
        if not size:
            dtypes = [s.dtype.numpy for s in computation.result_specs if type(s) is TensorSpec]
            return tuple(np.zeros(shape, d) for d in dtypes)
        key = ("vectorised", size)
        run = computation.cache.get(key)
        if run is None:
            count = len(computation.results)
            batched, _ = batch_computation(
                computation, [True] * len(arrays), size, out_batched=[True] * count
            )
            run = computation.cache[key] = type(body)(batched)
        found = tuple(np.reshape(f, shape) for f in run(*flat))
    return tuple(
        f if f.shape == shape else np.broadcast_to(f, shape) for f in map(np.asarray, found)
    )


def applied(body: Computation, tensors: Sequence[Any]) -> list[Any]:
    """A computation on scalars recorded for each element of tensors of one shape."""
    shape = tensors[0].spec.shape
    size = tensors[0].spec.size
    reshape = lookup("reshape")
    one = len(shape) == 1
    flat = [t if one else bind(reshape, t, shape=(size,)) for t in tensors]
    results, is_batched = replay_batched(body, flat, [True] * len(flat), size)
    broadcast = lookup("broadcast_in_dim")
    full = [
        r if b else bind(broadcast, r, shape=(size,), broadcast_dimensions=())
        for r, b in zip(results, is_batched, strict=True)
    ]
    return full if one else [bind(reshape, r, shape=shape) for r in full]


# --- what folds have in common --------------------------------------------------------------------


def is_promotable(given: DType, to: DType) -> bool:
    """Of the same kind, and at least as wide."""
    return given is to or (given.kind == to.kind and given.bits <= to.bits)


def require_fold(
    body: Any, dtypes: Sequence[DType], own: str, label: str, what: str = "body"
) -> None:
    """A parameter must be a computation that folds two scalars of each element type into one.

    `own` is the label of the parameter itself and `label` that of its type.
    """
    require_dtype(
        type(body) is Computation, own, f"{what} must be a Computation", type(body).__name__
    )
    scalars = tuple(TensorSpec((), d) for d in dtypes)
    wanted = (*scalars, *scalars)
    if body.parameter_specs != wanted:
        given = body.parameter_specs
        text = ", ".join(map(str, wanted))
        require_dtype(False, label, f"{what} must take ({text})", given)
    if body.result_specs != scalars:
        text = ", ".join(map(str, scalars))
        require_dtype(False, label, f"{what} must give ({text})", body.result_specs)


def in_types_of(body: Any, xs: Sequence[Any], label: str, what: str = "body") -> list[Any]:
    """Operands converted to the wider types that a computation takes, for XLA does not promote them."""
    if type(body) is not Computation:
        return list(xs)
    count = len(xs)
    specs = body.parameter_specs[:count]
    require(
        len(specs) == count, label, f"{what} must take {2 * count} scalars", len(body.parameters)
    )
    convert = lookup("convert_element_type")
    found = []
    for x, spec in zip(xs, specs, strict=True):
        given = x.spec
        if type(given) is TensorSpec and type(spec) is TensorSpec and given.dtype is not spec.dtype:
            require_dtype(
                is_promotable(given.dtype, spec.dtype),
                label,
                f"{what} must take the operands' types, or wider ones of the same kind",
                spec,
            )
            x = bind(convert, x, dtype=spec.dtype)
        found.append(x)
    return found


_operations: dict[tuple[str, DType], Computation] = {}


def scalar_operation(name: str, dtype: DType) -> Computation:
    """The computation that is one operation of two scalars, made once for each element type."""
    found = _operations.get((name, dtype))
    if found is None:
        op = lookup(name)
        scalar = TensorSpec((), dtype)
        found = as_computation(
            lambda x, y: bind(op, x, y), [scalar, scalar], name=name, shared=True
        )
        _operations[name, dtype] = found
    return found


def replacement(dtype: DType) -> Computation:
    """The computation that gives the second of two scalars, as a scatter does that replaces."""
    found = _operations.get(("", dtype))
    if found is None:
        scalar = TensorSpec((), dtype)
        found = as_computation(lambda old, new: new, [scalar, scalar], name="replace", shared=True)
        _operations["", dtype] = found
    return found


def scalar_body(body: Any, operands: Sequence[Any], what: str, copies: int = 2) -> Computation:
    """A computation from what a user gave: of as many scalars as there are operands, `copies` times over."""
    if type(body) is Computation:
        return body
    for x in operands:
        require_array(x.spec, "I1", "an operand")
    scalars = [TensorSpec((), x.spec.dtype) for x in operands]
    return as_computation(body, scalars * copies, name=what, what=what)
