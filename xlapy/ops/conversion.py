"""Operations from one element type to another."""

from __future__ import annotations

from typing import Any

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import XlapyError
from xlapy.specs import TensorSpec, as_int, require, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I32
from xlapy.trace.mode import annotate, bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from . import elementwise_kernels as kernels
from .bit_compositions import bits_of_parts, from_bits, to_bits
from .families import INEXACT, document, is_weak, unary
from .rules import batch_elementwise, constant_like, linear, zero


def _write(writer: Writer, instruction: Any) -> None:
    """The element type stands in the result's type."""
    writer.line(instruction.op.hlo.name, instruction)


def _element_type(name: str, given: Any) -> DType:
    try:
        return as_dtype(given)
    except XlapyError as error:
        raise annotate(error, name, None) from None


# --- ConvertElementType ---------------------------------------------------------------------------


def _check(x: Any, dtype: Any) -> None:
    if type(x) is not TensorSpec:
        require_dtype(False, "I1", "the operand must be an array", x)
    if type(dtype) is not DType:
        require_dtype(False, "X1", "dtype must be one of XLA's element types", dtype)


def infer_convert(x: TensorSpec, *, dtype: DType) -> TensorSpec:
    """C1: the operand's shape."""
    _check(x, dtype)
    return x.with_dtype(dtype)


def _write_convert(writer: Writer, instruction: Any) -> None:
    """From complex numbers by way of their real parts: XLA dies of such a conversion of a constant.

    From f4e2m1fn to integers by way of f32: XLA takes its largest number, 6, for the integers' largest.
    """
    given, made = instruction.operands[0].spec.dtype, instruction.results[0].spec.dtype
    if given.kind == "complex" and made.kind != "complex":
        writer.composed(instruction, lambda x: convert(bind(real_op, x), made))
    elif given.name == "f4e2m1fn" and made.integer:
        writer.composed(instruction, lambda x: convert(convert(x, "f32"), made))
    else:
        _write(writer, instruction)


def _read_convert(reader: Reader, operation: Any) -> Any:
    spec: Any = reader.result_specs(operation)[0]
    return bind(convert_element_type_op, *reader.operands(operation), dtype=spec.dtype)


convert_element_type_op: Op = register(Op(
    name="convert_element_type",
    section="ConvertElementType",
    infer=infer_convert,
    hlo=Hlo("stablehlo.convert", write=_write_convert, read=_read_convert),
    kernel=lambda x, *, dtype, out: kernels.convert(x, dtype.numpy),
    ad=linear(lambda g, x, *, dtype: bind(convert_element_type_op, g, dtype=x.dtype)),
    batch=batch_elementwise,
))  # fmt: skip


def convert_element_type(operand: Any, new_element_type: Any) -> Tensor:
    """The operand's values in another element type.

    Floats become integers by dropping the fraction; what is too large becomes the largest, what is too small the
    smallest, and nan 0. Integers that are too wide wrap. Truth values become 0 and 1, and numbers whether they are
    not 0. Complex numbers lose their imaginary part.

    Parameters
    ----------
    operand : Tensor or array-like or scalar
    new_element_type : dtype

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [I1] If the operand is no array; [X1] If there is no such element type.

    Notes
    -----
    Section ConvertElementType of the operation semantics; ``stablehlo.convert``. The derivative of a conversion
    between floats is the conversion itself.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.convert_element_type(ops.constant([1.9, -1.9, 1e10]), "s32")
    Tensor([         1,         -1, 2147483647], s32[3])
    """
    dtype = _element_type("convert_element_type", new_element_type)
    x = operand if type(operand) is Tensor else lift(operand)
    if x.placed.spec.__class__ is TensorSpec and x.dtype is dtype and not is_weak(x):
        return Tensor(x.placed, x.payload)  # assigning to its elements must not change the operand
    result: Tensor = bind(convert_element_type_op, x, dtype=dtype)
    return result


#: a shorter name of `convert_element_type`
convert = convert_element_type


# --- BitcastConvertType ---------------------------------------------------------------------------


def infer_bitcast_convert(x: TensorSpec, *, dtype: DType) -> TensorSpec:
    """C1: as many bits; the last dimension appears or goes. C2: complex numbers only from complex ones."""
    _check(x, dtype)
    require_dtype(
        (x.dtype.kind == "complex") == (dtype.kind == "complex"),
        "C2", "both or neither element type must be complex", (x.dtype, dtype),
    )  # fmt: skip
    old, new = x.dtype.bits, dtype.bits
    if old == new:
        return x.with_dtype(dtype)
    wide, narrow = (old, new) if old > new else (new, old)
    require_dtype(
        wide % narrow == 0, "C1", "one width must be a multiple of the other", (x.dtype, dtype)
    )
    if old > new:
        return TensorSpec((*x.shape, old // new), dtype, x.dynamic)
    require_shape(
        x.rank > 0 and x.shape[-1] == new // old and x.rank - 1 not in x.dynamic,
        "C1", f"the last dimension must have size {new // old} to become one {dtype}", x,
    )  # fmt: skip
    return TensorSpec(x.shape[:-1], dtype, x.dynamic)


def _write_bitcast_convert(writer: Writer, instruction: Any) -> None:
    """XLA dies of wider complex numbers, has no narrower ones, and takes truth values for bytes."""
    given, made = instruction.operands[0].spec.dtype, instruction.results[0].spec.dtype
    kinds = {given.kind, made.kind}
    if given is made or 6 in (given.bits, made.bits) or kinds.isdisjoint(("complex", "bool")):
        _write(writer, instruction)
        return
    way = bits_of_parts if "complex" in kinds else to_bits if made.kind == "bool" else from_bits
    writer.composed(instruction, lambda x: way(x, made))


def _read_bitcast_convert(reader: Reader, operation: Any) -> Any:
    spec: Any = reader.result_specs(operation)[0]
    return bind(bitcast_convert_type_op, *reader.operands(operation), dtype=spec.dtype)


bitcast_convert_type_op: Op = register(Op(
    name="bitcast_convert_type",
    section="BitcastConvertType",
    infer=infer_bitcast_convert,
    hlo=Hlo("stablehlo.bitcast_convert", write=_write_bitcast_convert, read=_read_bitcast_convert),
    kernel=lambda x, *, dtype, out: kernels.bitcast_convert(x, dtype.numpy),
    ad=zero,
    batch=batch_elementwise,
))  # fmt: skip


def bitcast_convert_type(operand: Any, new_element_type: Any) -> Tensor:
    """The operand's bits read as another element type.

    Between widths the last dimension changes: a wide element becomes a new last dimension of narrow ones, the one
    with the lowest bits first, and the other way round that dimension goes.

    Parameters
    ----------
    operand : Tensor or array-like or scalar
    new_element_type : dtype

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [I1] If the operand is no array; [C1] if no width is a multiple of the other; [C2] if only one of the types
        is complex.
    ShapeError
        [C1] If the last dimension does not make up one element of the wider type.

    Notes
    -----
    Section BitcastConvertType of the operation semantics; ``stablehlo.bitcast_convert``. The derivative is 0.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.bitcast_convert_type(ops.constant(1.0), "u16")
    Tensor([    0, 16256], u16[2])
    """
    result: Tensor = bind(
        bitcast_convert_type_op,
        operand,
        dtype=_element_type("bitcast_convert_type", new_element_type),
    )
    return result


# --- ReducePrecision ------------------------------------------------------------------------------


def infer_reduce_precision(x: TensorSpec, *, exponent_bits: int, mantissa_bits: int) -> TensorSpec:
    """C2: at least one bit of exponent. C3: mantissa_bits is not negative."""
    require_dtype(
        type(x) is TensorSpec and x.dtype.kind == "float",
        "I1",
        "the operand must be an array of kind float",
        x,
    )
    require(
        type(exponent_bits) is int and 1 <= exponent_bits < 2**31,
        "C2",
        "exponent_bits must be positive",
        exponent_bits,
    )
    require(
        type(mantissa_bits) is int and 0 <= mantissa_bits < 2**31,
        "C3",
        "mantissa_bits must not be negative",
        mantissa_bits,
    )
    return x


reduce_precision_op: Op = register(Op(
    name="reduce_precision",
    section="ReducePrecision",
    infer=infer_reduce_precision,
    hlo=Hlo("stablehlo.reduce_precision", {"exponent_bits": I32, "mantissa_bits": I32}),
    kernel=lambda x, *, exponent_bits, mantissa_bits, out: kernels.reduce_precision(
        x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
    ),
    ad=linear(lambda g, x, **params: bind(reduce_precision_op, g, **params)),
    batch=batch_elementwise,
))  # fmt: skip


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Tensor:
    """The operand rounded to a float format of these sizes, and back.

    Halves go to the even one; what is too large becomes infinite and what is too small 0; nan stays nan.

    Parameters
    ----------
    operand : Tensor or array-like or scalar
        Of kind float.
    exponent_bits : int
        At least 1.
    mantissa_bits : int
        At least 0.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [I1] If the operand is of another kind.
    ConstraintError
        [C2], [C3] If a number of bits is too small.

    Notes
    -----
    Section ReducePrecision of the operation semantics; ``stablehlo.reduce_precision``. The derivative is taken to be
    that of the operand itself, reduced in the same way.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_precision(ops.constant([1.0, 3.14159]), 8, 7)
    Tensor([1.      , 3.140625], f32[2])
    """
    try:
        exponent = as_int(exponent_bits, "exponent_bits", "C2")
        mantissa = as_int(mantissa_bits, "mantissa_bits", "C3")
    except XlapyError as error:
        raise annotate(error, "reduce_precision", None) from None
    result: Tensor = bind(
        reduce_precision_op, operand, exponent_bits=exponent, mantissa_bits=mantissa
    )
    return result


# --- parts of complex numbers ---------------------------------------------------------------------


def _transpose_real(g: Any, x: Any) -> Any:
    return bind(lookup("complex"), g, constant_like(g, 0)) if x.dtype.kind == "complex" else g


def _transpose_imag(g: Any, x: Any) -> Any:
    # im(z) = re(-i z)
    if x.dtype.kind != "complex":
        return constant_like(g, 0)
    return bind(lookup("complex"), constant_like(g, 0), bind(lookup("neg"), g))


real_op: Op = unary(
    "real", "stablehlo.real", section="Real", dtypes=INEXACT, kernel=kernels.real,
    ad=linear(_transpose_real), result=lambda d: d.real_part,
)  # fmt: skip


def real(operand: Any) -> Tensor:
    """The real part; a real operand itself.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.real(ops.constant([1 + 2j]))
    Tensor([1.], f32[1])
    """
    result: Tensor = bind(real_op, operand)
    return result


imag_op: Op = unary(
    "imag", "stablehlo.imag", section="Imag", dtypes=INEXACT, kernel=kernels.imag,
    ad=linear(_transpose_imag), result=lambda d: d.real_part,
)  # fmt: skip


def imag(operand: Any) -> Tensor:
    """The imaginary part; 0 for a real operand.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.imag(ops.constant([1 + 2j]))
    Tensor([2.], f32[1])
    """
    result: Tensor = bind(imag_op, operand)
    return result


document(real, imag)
