"""Operations that move elements and change none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.specs import TensorSpec, as_axes, require, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64_ARRAY
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .joining import require_array
from .rules import linear

Array = np.ndarray[Any, Any]

# --- BroadcastInDim -----------------------------------------------------------------------------------------------


def infer_broadcast_in_dim(
    x: TensorSpec, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> TensorSpec:
    """C2 to C5."""
    dims = broadcast_dimensions
    require(len(dims) == x.rank, "C2", f"broadcast_dimensions must have {x.rank} entries", dims)
    require(all(0 <= d < len(shape) for d in dims), "C3", f"broadcast_dimensions must be in [0, {len(shape)})", dims)
    require(len(set(dims)) == len(dims), "C4", "broadcast_dimensions must be unique", dims)
    require_shape(
        all(n in (1, shape[d]) for n, d in zip(x.shape, dims, strict=True)),
        "C5", f"each size must be 1 or that of its result dimension in {shape}", x.shape,
    )  # fmt: skip
    return x.with_shape(shape)


def kernel_broadcast_in_dim(
    x: Array, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...], out: TensorSpec
) -> Array:
    """result[..., i_d, ...] = operand[..., i_d or 0, ...]."""
    sizes = [1] * len(shape)
    order = sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
    for n, d in zip(x.shape, broadcast_dimensions, strict=True):
        sizes[d] = n
    return np.broadcast_to(x.transpose(order).reshape(sizes), shape)


def transpose_broadcast_in_dim(
    g: Any, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> Any:
    """Sum over what was repeated."""
    from .reduction import reduce_sum

    spec = x.spec
    stretched = [d for n, d in zip(spec.shape, broadcast_dimensions, strict=True) if n == 1 and shape[d] != 1]
    summed = [d for d in range(len(shape)) if d not in broadcast_dimensions or d in stretched]
    g = reduce_sum(g, summed) if summed else g
    kept = [d for d in broadcast_dimensions if d not in stretched]
    order = tuple(sorted(range(len(kept)), key=kept.__getitem__))
    if order != tuple(range(len(kept))):
        inverse = tuple(order.index(i) for i in range(len(kept)))
        g = bind(transpose_op, g, permutation=inverse)
    return bind(reshape_op, g, shape=spec.shape) if stretched else g


def batch_broadcast_in_dim(
    op: Op, args: Any, is_batched: Any, size: int, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> Any:
    """The new axis stays in front."""
    dims = (0, *[d + 1 for d in broadcast_dimensions])
    return bind(op, args[0], shape=(size, *shape), broadcast_dimensions=dims)


def write_broadcast_in_dim(writer: Writer, instruction: Any) -> None:
    """The shape stands in the result's type."""
    dims = I64_ARRAY.print(instruction.params["broadcast_dimensions"])
    writer.line("stablehlo.broadcast_in_dim", instruction, f"broadcast_dimensions = {dims}")


def read_broadcast_in_dim(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    spec: Any = reader.result_specs(operation)[0]
    dims = I64_ARRAY.parse(reader.attribute(operation, "broadcast_dimensions"))
    return bind(broadcast_in_dim_op, *reader.operands(operation), shape=spec.shape, broadcast_dimensions=dims)


broadcast_in_dim_op = register(Op(
    name="broadcast_in_dim",
    section="BroadcastInDim",
    infer=infer_broadcast_in_dim,
    hlo=Hlo("stablehlo.broadcast_in_dim", write=write_broadcast_in_dim, read=read_broadcast_in_dim),
    kernel=kernel_broadcast_in_dim,
    ad=linear(transpose_broadcast_in_dim),
    batch=batch_broadcast_in_dim,
))  # fmt: skip

# --- Reshape ------------------------------------------------------------------------------------------------------


def infer_reshape(x: TensorSpec, *, shape: tuple[int, ...]) -> TensorSpec:
    """C2: the same number of elements."""
    result = x.with_shape(shape)
    require_shape(result.size == x.size, "C2", f"the shape must have the operand's {x.size} elements", shape)
    return result


def write_reshape(writer: Writer, instruction: Any) -> None:
    """The shape stands in the result's type."""
    writer.line("stablehlo.reshape", instruction)


def read_reshape(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    spec: Any = reader.result_specs(operation)[0]
    return bind(reshape_op, *reader.operands(operation), shape=spec.shape)


reshape_op = register(Op(
    name="reshape",
    section="Reshape",
    infer=infer_reshape,
    hlo=Hlo("stablehlo.reshape", write=write_reshape, read=read_reshape),
    kernel=lambda x, *, shape, out: x.reshape(shape),
    ad=linear(lambda g, x, *, shape: bind(reshape_op, g, shape=x.shape)),
    batch=lambda op, args, is_batched, size, *, shape: bind(op, args[0], shape=(size, *shape)),
))  # fmt: skip

# --- Transpose ----------------------------------------------------------------------------------------------------


def infer_transpose(x: TensorSpec, *, permutation: tuple[int, ...]) -> TensorSpec:
    """C2: a permutation of the dimensions."""
    require(
        sorted(permutation) == list(range(x.rank)), "C2", f"permutation must be one of {x.rank} dimensions", permutation
    )
    return x.with_shape([x.shape[p] for p in permutation])


def transpose_transpose(g: Any, x: Any, *, permutation: tuple[int, ...]) -> Any:
    """The inverse permutation."""
    inverse = tuple(permutation.index(i) for i in range(len(permutation)))
    return bind(transpose_op, g, permutation=inverse)


transpose_op = register(Op(
    name="transpose",
    section="Transpose",
    infer=infer_transpose,
    hlo=Hlo("stablehlo.transpose", {"permutation": I64_ARRAY}),
    kernel=lambda x, *, permutation, out: x.transpose(permutation),
    ad=linear(transpose_transpose),
    batch=lambda op, args, is_batched, size, *, permutation: bind(
        op, args[0], permutation=(0, *[p + 1 for p in permutation])
    ),
))  # fmt: skip

# --- Rev ----------------------------------------------------------------------------------------------------------


def infer_rev(x: TensorSpec, *, dimensions: tuple[int, ...]) -> TensorSpec:
    """C2, C3."""
    require_array(x, "I1")
    require(len(set(dimensions)) == len(dimensions), "C2", "dimensions must be unique", dimensions)
    require(all(0 <= d < x.rank for d in dimensions), "C3", f"dimensions must be in [0, {x.rank})", dimensions)
    return x


rev_op = register(Op(
    name="rev",
    section="Rev",
    infer=infer_rev,
    hlo=Hlo("stablehlo.reverse", {"dimensions": I64_ARRAY}),
    kernel=lambda x, *, dimensions, out: np.flip(x, dimensions),
    ad=linear(lambda g, x, *, dimensions: bind(rev_op, g, dimensions=dimensions)),
    batch=lambda op, args, is_batched, size, *, dimensions: bind(
        op, args[0], dimensions=tuple(d + 1 for d in dimensions)
    ),
))  # fmt: skip


def rev(operand: Any, dimensions: int | Sequence[int]) -> Tensor:
    """The elements in the opposite order along some dimensions.

    Parameters
    ----------
    operand : array
    dimensions : sequence of int
        Each once; negative ones count from the back.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        [C2], [C3] For a dimension that there is not, or that is named twice.

    Notes
    -----
    Section Rev of the operation semantics.

    Examples
    --------
    >>> rev([1, 2, 3], [0])
    Tensor([3, 2, 1], s32[3])
    """
    x = lift(operand)
    result: Tensor = bind(rev_op, x, dimensions=as_axes(dimensions, x.ndim, "C3"))
    return result
