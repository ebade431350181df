"""ScaledDot: a product of arrays of which each block has a scale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import TensorSpec, as_ints, require_array, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.codecs import quote
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .contraction import DotDimensionNumbers, dot_general_op, infer_dot_general, require_numbers
from .custom import register_target_reader
from .dot_algorithm import as_precision_config
from .elementwise_kernels import convert
from .forms import converted
from .internal import by_decomposition
from .products import compute_dtype, product_dtype
from .rules import broadcast_leading

__all__ = ["scaled_dot", "scaled_dot_op"]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def scaled_dtype(operand: DType, scale: DType) -> DType:
    """The element type of an operand times its scale: the narrowest in which that is exact or nearly so."""
    if "f64" in (operand.name, scale.name):
        return as_dtype("f64")
    powers = scale.name == "f8e8m0fnu"
    if (operand.bits <= 8 and scale.bits <= 8) or (powers and operand.name == "bf16"):
        return as_dtype("bf16")
    return as_dtype("f32")


def _dot_params(p: dict[str, Any]) -> dict[str, Any]:
    return {**p, "algorithm": None}


def infer_scaled_dot(
    lhs: TensorSpec, lhs_scale: TensorSpec, rhs: TensorSpec, rhs_scale: TensorSpec, **p: Any
) -> TensorSpec:
    """C1 to C11 are those of dot_general; HLO gives no labels."""
    for label, name, spec in (
        ("I1", "lhs", lhs),
        ("I2", "lhs_scale", lhs_scale),
        ("I3", "rhs", rhs),
        ("I4", "rhs_scale", rhs_scale),
    ):
        require_array(spec, label, name)
        require_dtype(spec.dtype.real, label, f"{name} must be of kind float", spec)
        require_shape(spec.is_static, "X6", f"the sizes of {name} must be known and not vary", spec)
    result = infer_dot_general(lhs, rhs, **_dot_params(p))
    require_dtype(
        result.dtype.inexact,
        "X5",
        "preferred_element_type must be of kind float or complex",
        result,
    )
    for name, x, scale, contracting in (
        ("lhs", lhs, lhs_scale, p["lhs_contracting_dimensions"]),
        ("rhs", rhs, rhs_scale, p["rhs_contracting_dimensions"]),
    ):
        require_shape(
            x.rank == scale.rank, "X2", f"{name}_scale must be of the rank of {name}", (x, scale)
        )
        for d, (n, m) in enumerate(zip(x.shape, scale.shape)):
            if d in contracting:
                require_shape(
                    m > 0 and n % m == 0,
                    "X3",
                    f"the contracting dimensions of {name} must be multiples of those of {name}_scale",
                    (x, scale),
                )
            else:
                require_shape(
                    n == m,
                    "X4",
                    f"the other dimensions of {name} must be those of {name}_scale",
                    (x, scale),
                )
    return result


def kernel_scaled_dot(
    lhs: Array, lhs_scale: Array, rhs: Array, rhs_scale: Array, *, out: TensorSpec, **p: Any
) -> Array:
    """The product of each operand's elements times the scales of their blocks."""
    return dot_general_op.kernel(  # type: ignore[no-any-return]
        _scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale), out=out, **_dot_params(p)
    )


def _scaled(x: Array, scale: Array) -> Array:
    for d, (n, m) in enumerate(zip(x.shape, scale.shape)):
        if m not in (n, 1):
            scale = np.repeat(scale, n // m, d)
    kind = scaled_dtype(as_dtype(x.dtype), as_dtype(scale.dtype)).numpy
    wide = np.dtype(np.float64) if kind == np.float64 else np.dtype(np.float32)
    return convert(np.asarray(convert(x, wide) * convert(scale, wide)), kind)


def decompose_scaled_dot(lhs: Any, lhs_scale: Any, rhs: Any, rhs_scale: Any, **p: Any) -> Any:
    """dot_general of each operand times its repeated scales."""
    operands = []
    for x, scale in ((lhs, lhs_scale), (rhs, rhs_scale)):
        kind = scaled_dtype(x.dtype, scale.dtype)
        operands.append(
            bind(lookup("mul"), converted(x, kind), _repeated(converted(scale, kind), x.spec.shape))
        )
    wide = product_dtype(operands[0].dtype, operands[1].dtype)
    return bind(dot_general_op, *[converted(x, wide) for x in operands], **_dot_params(p))


def _repeated(scale: Any, shape: Ints) -> Any:
    """Each scale as often as its block has elements."""
    own = scale.spec.shape
    if own == shape:
        return scale
    split: list[int] = []
    kept: list[int] = []
    for n, m in zip(shape, own):
        kept.append(len(split))
        split += [n] if n == m else [m, n // m]
    wide = bind(
        lookup("broadcast_in_dim"), scale, shape=tuple(split), broadcast_dimensions=tuple(kept)
    )
    return bind(lookup("reshape"), wide, shape=shape)


def batch_scaled_dot(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **p: Any
) -> Any:
    """Both operands: one more batching dimension. One of them: a free dimension, moved to the front."""
    left, right = is_batched[0] or is_batched[1], is_batched[2] or is_batched[3]
    full = [
        x if b or not side else broadcast_leading(x, size)
        for x, b, side in zip(args, is_batched, (left, left, right, right), strict=True)
    ]

    def shifted(name: str) -> Ints:
        by = left if name.startswith("lhs") else right
        return tuple([d + 1 for d in p[name]]) if by else p[name]

    dims = {name: shifted(name) for name in p if name.endswith("_dimensions")}
    count = len(p["lhs_batching_dimensions"])
    if left and right:
        dims["lhs_batching_dimensions"] = (0, *dims["lhs_batching_dimensions"])
        dims["rhs_batching_dimensions"] = (0, *dims["rhs_batching_dimensions"])
    found = bind(op, *full, **{**p, **dims})
    at = count if left else args[0].ndim - len(p["lhs_contracting_dimensions"])
    if (left and right) or not at:
        return found
    order = (at, *range(at), *range(at + 1, found.ndim))
    return bind(lookup("transpose"), found, permutation=order)


def write_scaled_dot(writer: Writer, instruction: Any) -> None:
    """As the composite that XLA replaces where the hardware has it, and expands elsewhere."""
    p = instruction.params
    lhs, lhs_scale, rhs, rhs_scale = instruction.operands
    # XLA has the scales behind the operands.
    order = (lhs, rhs, lhs_scale, rhs_scale)
    body = as_computation(
        lambda x, y, s, t: decompose_scaled_dot(x, s, y, t, **p),
        [v.spec for v in order],
        name="scaled_dot",
    )
    numbers = ", ".join(
        f"[{list(p[f'lhs_{kind}_dimensions'])}, {list(p[f'rhs_{kind}_dimensions'])}]"
        for kind in ("contracting", "batching")
    )
    kind = p["preferred_element_type"].mlir
    attributes = f"{{dimension_numbers = [{numbers}], preferred_element_type = {kind}}}"
    writer.line(
        "stablehlo.composite",
        instruction,
        f"name = {quote('xla.scaled_dot')}, decomposition = @{writer.symbol(body)},"
        f" composite_attributes = {attributes}",
        operands=order,
    )


scaled_dot_op: Op = register(Op(
    name="scaled_dot",
    section="ScaledDot",
    infer=infer_scaled_dot,
    hlo=Hlo("", write=write_scaled_dot, decomposition=decompose_scaled_dot),
    kernel=kernel_scaled_dot,
    ad=by_decomposition,
    batch=batch_scaled_dot,
))  # fmt: skip


def read_scaled_dot(reader: Reader, operation: Any) -> Any:
    """As a custom call with HLO's attributes, for which StableHLO and MHLO have no operation."""
    text = reader.text(operation, "backend_config")
    found = dict(re.findall(r"(\w+)=\{([^{}]*)\}", text))

    def dims(name: str) -> Ints:
        return tuple([int(n) for n in re.findall(r"-?\d+", found.get(name, ""))])

    lhs, rhs, lhs_scale, rhs_scale = reader.operands(operation)
    result: Any = reader.result_specs(operation)[0]
    precisions = [w.upper() for w in re.findall(r"\w+", found.get("operand_precision", ""))]
    return bind(
        scaled_dot_op,
        lhs,
        lhs_scale,
        rhs,
        rhs_scale,
        lhs_batching_dimensions=dims("lhs_batch_dims"),
        rhs_batching_dimensions=dims("rhs_batch_dims"),
        lhs_contracting_dimensions=dims("lhs_contracting_dims"),
        rhs_contracting_dimensions=dims("rhs_contracting_dims"),
        precision_config=as_precision_config(precisions or None),
        preferred_element_type=result.dtype,
    )


register_target_reader("xlapy.scaled_dot", read_scaled_dot)


def scaled_dot(
    lhs: Any,
    lhs_scale: Any,
    rhs: Any,
    rhs_scale: Any,
    dimension_numbers: DotDimensionNumbers,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """The product of two arrays in blocks of narrow floats, each block with a scale.

    Parameters
    ----------
    lhs, rhs : array
        Of kind float, such as f8e4m3fn or f4e2m1fn.
    lhs_scale, rhs_scale : array or None
        Of kind float, such as f8e8m0fnu. Each has the dimensions of its operand, but a contracting one is shorter by
        the number of elements in a block. None stands for no scales.
    dimension_numbers : DotDimensionNumbers
    precision_config : optional
        As of `dot_general`.
    preferred_element_type : dtype, optional
        Of the result; by default bf16 if both operands times their scales are exact in it, else f32 or f64.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [I1] to [I4] If an operand is of another kind; [X5] for a result of another kind.
    ConstraintError
        [C1] to [C8] As `dot_general`.
    ShapeError
        [C9], [C10] As `dot_general`; [X2] to [X4] If scales do not fit their operand; [X6] for varying sizes.

    Notes
    -----
    Section ScaledDot of the operation semantics. StableHLO has no such operation: it is written as the composite
    ``xla.scaled_dot``, which XLA replaces where the hardware multiplies blocks and otherwise expands: operands and
    scales are multiplied in bf16 where that is exact, else in f32 or f64.

    Examples
    --------
    >>> from xlapy import ops
    >>> x = ops.constant([[1.0, 2.0, 3.0, 4.0]])
    >>> scales = ops.constant([[1.0, 10.0]])
    >>> numbers = DotDimensionNumbers([1], [1])
    >>> ops.scaled_dot(x, scales, [[1.0, 1.0, 1.0, 1.0]], None, numbers)
    Tensor([[73.]], f32[1,1])
    """
    require_numbers(dimension_numbers, DotDimensionNumbers)
    x = lift(lhs, (rhs,))
    y = lift(rhs, (x,))
    n = dimension_numbers
    contracting = (
        as_ints(n.lhs_contracting_dimensions, "lhs_contracting_dimensions", "C6"),
        as_ints(n.rhs_contracting_dimensions, "rhs_contracting_dimensions", "C8"),
    )
    s, t = (
        _ones(operand, dims) if scale is None else lift(scale)
        for operand, scale, dims in ((x, lhs_scale, contracting[0]), (y, rhs_scale, contracting[1]))
    )
    if preferred_element_type is None:
        for value, label in ((x, "I1"), (s, "I2"), (y, "I3"), (t, "I4")):
            require_array(value.spec, label)
        left, right = scaled_dtype(x.dtype, s.dtype), scaled_dtype(y.dtype, t.dtype)
        kind = compute_dtype(left, right, left)
    else:
        kind = as_dtype(preferred_element_type)
    result: Tensor = bind(
        scaled_dot_op,
        x,
        s,
        y,
        t,
        lhs_batching_dimensions=as_ints(n.lhs_batch_dimensions, "lhs_batch_dimensions", "C5"),
        rhs_batching_dimensions=as_ints(n.rhs_batch_dimensions, "rhs_batch_dimensions", "C7"),
        lhs_contracting_dimensions=contracting[0],
        rhs_contracting_dimensions=contracting[1],
        precision_config=as_precision_config(precision_config),
        preferred_element_type=kind,
    )
    return result


def _ones(x: Tensor, contracting: Ints) -> Any:
    """Scales that change nothing, one for each place in the other dimensions."""
    require_array(x.spec, "I1")
    shape = tuple([1 if d in contracting else n for d, n in enumerate(x.shape)])
    one = np.ones((), as_dtype("f8e8m0fnu").numpy)
    return bind(lookup("constant"), value=np.broadcast_to(one, shape))
