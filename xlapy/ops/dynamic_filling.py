"""StableHLO's dynamic_broadcast_in_dim and dynamic_iota: filling shapes that are computed.

What XLA compiles must have known sizes or bounds. There these operations are composed of the static
ones, at the bounds, with the sizes set afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.errors import NotDifferentiableError
from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_int,
    as_ints,
    require,
    require_array,
    require_dtype,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64, I64_ARRAY
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo_reader import Reader

from .creation import kernel_iota
from .rules import zero
from .shaping import (
    infer_broadcast_in_dim,
    kernel_broadcast_in_dim,
    transpose_broadcast_in_dim,
)
from .varying import (
    batch_composed,
    checked,
    composed_derivatives,
    element,
    known_shape,
    lift_sizes,
    read_result,
    require_bounds,
    require_sizes,
    result_of,
    with_sizes,
    write_with_result,
)

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- dynamic_broadcast_in_dim ---------------------------------------------------------------------


def infer_dynamic_broadcast_in_dim(
    x: TensorSpec,
    output_dimensions: TensorSpec,
    *,
    broadcast_dimensions: Ints,
    known_expanding_dimensions: Ints,
    known_nonexpanding_dimensions: Ints,
    result: TensorSpec,
) -> TensorSpec:
    """C1 to C10, of which C6 is of quantised types."""
    require_array(x, "I1")
    require_sizes(output_dimensions, "I2", "output_dimensions", result.rank, "C7")
    require_dtype(
        x.dtype is result.dtype, "C1", "the result must have the operand's type", result.dtype
    )
    known = (*known_expanding_dimensions, *known_nonexpanding_dimensions)
    require(len(set(known)) == len(known), "C8", "known dimensions must be unique", known)
    for label, dims in (("C9", known_expanding_dimensions), ("C10", known_nonexpanding_dimensions)):
        require(
            all(0 <= d < x.rank for d in dims),
            label,
            f"known dimensions must be in [0, {x.rank})",
            dims,
        )
    dims = broadcast_dimensions
    require(len(dims) == x.rank, "C2", f"broadcast_dimensions must have {x.rank} entries", dims)
    require(
        all(0 <= d < result.rank for d in dims),
        "C3",
        f"broadcast_dimensions must be in [0, {result.rank})",
        dims,
    )
    # What is not known or varies on either side is checked when it runs.
    sizes = [
        1 if DYNAMIC in (n, result.shape[d]) or i in x.dynamic or d in result.dynamic else n
        for i, (n, d) in enumerate(zip(x.shape, dims))
    ]
    infer_broadcast_in_dim(
        TensorSpec(sizes, x.dtype),
        shape=tuple(1 if n is DYNAMIC else n for n in result.shape),
        broadcast_dimensions=dims,
    )
    return result


def kernel_dynamic_broadcast_in_dim(
    x: Array,
    output_dimensions: Array,
    *,
    broadcast_dimensions: Ints,
    known_expanding_dimensions: Ints,
    known_nonexpanding_dimensions: Ints,
    result: TensorSpec,
    out: TensorSpec,
) -> Array:
    """As broadcast_in_dim."""
    shape = checked(output_dimensions, out)
    spec = TensorSpec(x.shape, out.dtype)
    static = infer_broadcast_in_dim(spec, shape=shape, broadcast_dimensions=broadcast_dimensions)
    return kernel_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=broadcast_dimensions, out=static
    )


def compose_dynamic_broadcast_in_dim(
    x: Any,
    output_dimensions: Any,
    *,
    broadcast_dimensions: Ints,
    known_expanding_dimensions: Ints,
    known_nonexpanding_dimensions: Ints,
    result: TensorSpec,
) -> Any:
    """To the bounds, with the sizes set."""
    require_bounds(result)
    full = bind(
        lookup("broadcast_in_dim"), x, shape=result.shape, broadcast_dimensions=broadcast_dimensions
    )
    return with_sizes(full, result, lambda d: element(output_dimensions, d))


def read_dynamic_broadcast_in_dim(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    names = (
        "broadcast_dimensions", "known_expanding_dimensions", "known_nonexpanding_dimensions"
    )  # fmt: skip
    dims = {name: I64_ARRAY.parse(reader.attribute(operation, name)) for name in names}
    x, sizes = reader.operands(operation)
    result = read_result(reader, operation)
    shape = known_shape(reader, sizes, result) if x.spec.is_static else None
    if shape is not None:
        return bind(lookup("broadcast_in_dim"), x, shape=shape, broadcast_dimensions=dims[names[0]])
    return bind(dynamic_broadcast_in_dim_op, x, sizes, result=result, **dims)


def transpose_to_any_size(
    g: Any,
    x: Any,
    output_dimensions: Any,
    *,
    broadcast_dimensions: Ints,
    known_expanding_dimensions: Ints,
    known_nonexpanding_dimensions: Ints,
    result: TensorSpec,
) -> Any:
    """Sum over what was repeated, which must be known: an operand's unknown size may be 1."""
    kept = known_nonexpanding_dimensions
    if any(n is DYNAMIC and i not in kept for i, n in enumerate(x.spec.shape)):
        raise NotDifferentiableError(
            "dynamic_broadcast_in_dim: dimensions of unknown size must be known not to be expanded where there are"
            f" derivatives; got {x.spec} [X4]"
        )
    return transpose_broadcast_in_dim(
        g, x, shape=result.shape, broadcast_dimensions=broadcast_dimensions
    )


dynamic_broadcast_in_dim_op: Op = register(Op(
    name="dynamic_broadcast_in_dim",
    section="StableHLO dynamic_broadcast_in_dim",
    infer=infer_dynamic_broadcast_in_dim,
    hlo=Hlo(
        "stablehlo.dynamic_broadcast_in_dim",
        write=write_with_result(
            "stablehlo.dynamic_broadcast_in_dim",
            broadcast_dimensions=I64_ARRAY,
            known_expanding_dimensions=I64_ARRAY,
            known_nonexpanding_dimensions=I64_ARRAY,
        ),
        read=read_dynamic_broadcast_in_dim,
        decomposition=compose_dynamic_broadcast_in_dim,
    ),
    kernel=kernel_dynamic_broadcast_in_dim,
    ad=composed_derivatives("dynamic_broadcast_in_dim", of_any_size=transpose_to_any_size),
    batch=batch_composed,
))  # fmt: skip


def dynamic_broadcast_in_dim(
    operand: Any,
    output_dimensions: Any,
    broadcast_dimensions: int | Sequence[int],
    new_size_bounds: int | Sequence[int],
    dims_are_dynamic: Sequence[bool] | None = None,
) -> Tensor:
    """An array repeated to a shape that is computed.

    Parameters
    ----------
    operand : array
    output_dimensions : sequence of integer scalars, or an array of integers
        The sizes of the result.
    broadcast_dimensions : sequence of int
        As of `broadcast_in_dim`.
    new_size_bounds, dims_are_dynamic
        As of `dynamic_reshape`.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError
        As of `broadcast_in_dim`; [C6] unless there is a size for each dimension.

    Notes
    -----
    StableHLO's dynamic_broadcast_in_dim.

    Examples
    --------
    >>> dynamic_broadcast_in_dim([1, 2], [2, 2], [1], (2, 2))
    Tensor([[1, 2],
            [1, 2]], s32[2,2])
    """
    x = lift(operand)
    result: Tensor = bind(
        dynamic_broadcast_in_dim_op,
        x,
        lift_sizes(output_dimensions),
        broadcast_dimensions=as_ints(broadcast_dimensions, "broadcast_dimensions", "C2"),
        known_expanding_dimensions=(),
        known_nonexpanding_dimensions=(),
        result=result_of(x.dtype, new_size_bounds, dims_are_dynamic),
    )
    return result


# --- dynamic_iota ---------------------------------------------------------------------------------


def infer_dynamic_iota(
    output_shape: TensorSpec, *, iota_dimension: int, result: TensorSpec
) -> TensorSpec:
    """C1, C2."""
    require_sizes(output_shape, "I1", "output_shape", result.rank, "C2")
    require(
        0 <= iota_dimension < result.rank,
        "C1",
        f"iota_dimension must be in [0, {result.rank})",
        iota_dimension,
    )
    require_dtype(
        result.dtype.kind != "bool", "X1", "the element type must be a number", result.dtype
    )
    return result


def kernel_dynamic_iota(
    output_shape: Array, *, iota_dimension: int, result: TensorSpec, out: TensorSpec
) -> Array:
    """As iota."""
    return kernel_iota(
        shape=checked(output_shape, out), dtype=out.dtype, iota_dimension=iota_dimension, out=out
    )


def compose_dynamic_iota(output_shape: Any, *, iota_dimension: int, result: TensorSpec) -> Any:
    """To the bounds, with the sizes set."""
    require_bounds(result)
    full = bind(
        lookup("iota"), shape=result.shape, dtype=result.dtype, iota_dimension=iota_dimension
    )
    return with_sizes(full, result, lambda d: element(output_shape, d))


def read_dynamic_iota(reader: Reader, operation: Any) -> Any:
    """The shape and element type stand in the result's type."""
    (sizes,) = reader.operands(operation)
    result = read_result(reader, operation)
    dimension = I64.parse(reader.attribute(operation, "iota_dimension"))
    shape = known_shape(reader, sizes, result)
    if shape is not None:
        return bind(lookup("iota"), shape=shape, dtype=result.dtype, iota_dimension=dimension)
    return bind(dynamic_iota_op, sizes, iota_dimension=dimension, result=result)


dynamic_iota_op: Op = register(Op(
    name="dynamic_iota",
    section="StableHLO dynamic_iota",
    infer=infer_dynamic_iota,
    hlo=Hlo(
        "stablehlo.dynamic_iota",
        write=write_with_result("stablehlo.dynamic_iota", iota_dimension=I64),
        read=read_dynamic_iota,
        decomposition=compose_dynamic_iota,
    ),
    kernel=kernel_dynamic_iota,
    ad=zero,
    batch=batch_composed,
))  # fmt: skip


def dynamic_iota(
    dtype: Any,
    output_shape: Any,
    iota_dimension: int,
    new_size_bounds: int | Sequence[int],
    dims_are_dynamic: Sequence[bool] | None = None,
) -> Tensor:
    """Numbers that count up along one dimension of a shape that is computed.

    Parameters
    ----------
    dtype : dtype
    output_shape : sequence of integer scalars, or an array of integers
    iota_dimension : int
    new_size_bounds, dims_are_dynamic
        As of `dynamic_reshape`.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        [C1] If there is no such dimension.
    ShapeError
        [C2] Unless there is a size for each dimension.

    Notes
    -----
    StableHLO's dynamic_iota.

    Examples
    --------
    >>> dynamic_iota("s32", [3], 0, (3,))
    Tensor([0, 1, 2], s32[3])
    """
    result: Tensor = bind(
        dynamic_iota_op,
        lift_sizes(output_shape),
        iota_dimension=as_int(iota_dimension, "iota_dimension", "C1"),
        result=result_of(dtype, new_size_bounds, dims_are_dynamic),
    )
    return result
