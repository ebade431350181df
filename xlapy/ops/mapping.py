"""Map: a computation on scalars applied to each element of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.errors import UnsupportedOpError
from xlapy.specs import (
    TensorSpec,
    as_ints,
    as_items,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.autodiff import jvp_computation, vjp_computation
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64_ARRAY
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.simplify import eliminate_dead

from .regions import listed, require_computation
from .rules import broadcast_leading
from .scalar_bodies import applied, on_arrays, scalar_body

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def infer_map(*operands: TensorSpec, computation: Computation, dimensions: Ints) -> TensorSpec:
    """C1 to C4."""
    require(bool(operands), "C2", "there must be an operand", 0)
    for x in operands:
        require_array(x, "I1", "each operand")
    first = operands[0]
    for x in operands[1:]:
        require_shape(
            x.shape == first.shape and x.dynamic == first.dynamic,
            "C1",
            "the operands must be of one shape",
            operands,
        )
    every = tuple(range(first.rank))
    require(dimensions == every, "C3", f"dimensions must be all of them, {every}", dimensions)
    scalars = [TensorSpec((), x.dtype) for x in operands]
    require_computation(computation, scalars, "I3", "C4", "computation")
    results = computation.result_specs
    require_dtype(
        len(results) == 1 and type(results[0]) is TensorSpec and results[0].rank == 0,
        "C4",
        "computation must give one scalar",
        listed(results),
    )
    result: Any = results[0]
    return first.with_dtype(result.dtype)


def kernel_map(*arrays: Array, computation: Any, dimensions: Ints, out: Any) -> Array:
    """result[i] = computation(operands[i]...)."""
    return on_arrays(computation, arrays)[0]


def _of_one(computation: Computation, position: int) -> Computation:
    """The computation with only one of its results."""
    return eliminate_dead(
        Computation(
            computation.parameters,
            computation.instructions,
            [computation.results[position]],
            computation.name,
        )
    )


class MapDerivatives:
    """Maps of the computation's derivatives."""

    kind = "by body"
    __slots__ = ()

    def jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any],
        params: Any,
    ) -> Sequence[Any]:  # fmt: skip
        """A map of values and tangents."""
        dual, active = jvp_computation(params["computation"], [t is not None for t in tangents])
        if not active[0]:
            return [None]
        given = [t for t in tangents if t is not None]
        return [bind(op, *operands, *given, **{**params, "computation": _of_one(dual, 1)})]

    def vjp(
        self, op: Op, operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any],
        params: Any, needed: Sequence[bool],
    ) -> Sequence[Any]:  # fmt: skip
        """For each operand a map of values and the cotangent."""
        back = vjp_computation(params["computation"], needed)
        result: list[Any] = [None] * len(operands)
        for position, i in enumerate(i for i, n in enumerate(needed) if n):
            body = _of_one(back, position)
            result[i] = bind(op, *operands, *cotangents, **{**params, "computation": body})
        return result


def batch_map(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, computation: Any,
    dimensions: Ints,
) -> Any:  # fmt: skip
    """A map of one more dimension."""
    full = [a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)]
    return bind(op, *full, computation=computation, dimensions=tuple(range(len(dimensions) + 1)))


map_op: Op = register(Op(
    name="map",
    section="Map",
    infer=infer_map,
    hlo=Hlo(
        "stablehlo.map",
        {"dimensions": I64_ARRAY},
        regions=("computation",),
        decomposition=lambda *xs, computation, dimensions: applied(computation, xs)[0],
    ),
    kernel=kernel_map,
    ad=MapDerivatives(),
    batch=batch_map,
))  # fmt: skip


def map(
    operands: Any,
    computation: Any,
    dimensions: Sequence[int] | None = None,
    static_operands: Sequence[Any] = (),
) -> Tensor:
    """A computation on scalars applied to the elements of arrays in the same place.

    Parameters
    ----------
    operands : array or sequence of arrays of one shape
    computation : function or Computation
        From a scalar of each operand to one scalar, of any type.
    dimensions : sequence of int, optional
        All dimensions, in order: XLA takes nothing else.
    static_operands : sequence
        Must be empty: XLA does not take any.

    Returns
    -------
    Tensor
        Of the operands' shape.

    Raises
    ------
    ConstraintError, ShapeError, DTypeError
        [C1] to [C4] If the operands, the dimensions and the computation do not fit together.
    UnsupportedOpError
        [X5] If there are static operands.

    Notes
    -----
    Section Map of the operation semantics. Calling the operations on the arrays themselves does the same.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.map([1.0, 2.0], lambda x: ops.add(ops.mul(x, x), 1.0))
    Tensor([2., 5.], f32[2])
    """
    if static_operands is not None and (count := len(as_items(static_operands, "static_operands"))):
        raise UnsupportedOpError(f"map: static_operands must be empty; got {count} of them [X5]")
    several = isinstance(operands, list | tuple) and any(
        isinstance(x, Tensor | np.ndarray) for x in operands
    )
    xs = [lift(x) for x in (operands if several else [operands])]
    for x in xs:
        require_array(x.spec, "I1", "each operand")
    dims = tuple(range(xs[0].spec.rank))
    if dimensions is not None:
        dims = as_ints(dimensions, "dimensions", "C3")
    result: Tensor = bind(
        map_op, *xs, computation=scalar_body(computation, xs, "computation", 1), dimensions=dims
    )
    return result
