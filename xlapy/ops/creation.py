"""Constant and Iota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import as_dtype, python_scalar, weak_dtype
from xlapy.specs import TensorSpec, as_axis, as_int, as_shape, require, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import host_array, scalar_array
from xlapy.trace.codecs import I64
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.stablehlo import Writer, constant_text
from xlapy.trace.stablehlo_reader import Reader

from . import elementwise_kernels as kernels
from .rules import unsupported, zero

Array = np.ndarray[Any, Any]

_NO_OPERANDS = unsupported("it has no operands")


# --- Constant -----------------------------------------------------------------------------------------------------


def infer_constant(*, value: Array) -> TensorSpec:
    """C1: the result has the value's type."""
    return TensorSpec(value.shape, value.dtype)


def write_constant(writer: Writer, instruction: Any) -> None:
    """Write the value bit by bit."""
    spec = instruction.results[0].spec
    value = constant_text(instruction.params["value"], spec)
    writer.line("stablehlo.constant", instruction, f"value = {value} : {spec.mlir}")


def read_constant(reader: Reader, operation: Any) -> Any:
    """Read the value, in whatever form MLIR printed it."""
    spec = reader.result_specs(operation)[0]
    assert type(spec) is TensorSpec
    return bind(constant_op, value=reader.elements(operation, "value", spec))


constant_op = register(Op(
    name="constant",
    section="Constant",
    infer=infer_constant,
    hlo=Hlo("stablehlo.constant", write=write_constant, read=read_constant),
    kernel=lambda *, value, out: value,
    ad=zero,
    batch=_NO_OPERANDS,
))  # fmt: skip


def constant(value: Any, dtype: Any = None) -> Tensor:
    """An array known when the program is written.

    Parameters
    ----------
    value : array-like
        Python numbers give s32, f32, c64 and pred; numpy arrays keep their element type.
    dtype : dtype, optional
        Converts first.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        If `value` holds anything else than numbers.

    Notes
    -----
    Section Constant of the operation semantics.

    Examples
    --------
    >>> constant([1, 2, 3])
    Tensor([1, 2, 3], s32[3])
    """
    number = python_scalar(value)
    kind = None if dtype is None else as_dtype(dtype)
    if number is None:
        array = np.array(host_array(value))
    elif kind is None:
        array = scalar_array(number)
    else:
        weak_dtype(number, kind)  # must fit
        array = np.asarray(number)
    if kind is not None:
        lost = array.dtype.kind == "c" and kind.kind not in ("complex", "bool")
        require_dtype(not lost, "X1", "complex numbers must not become real ones", kind)
        with np.errstate(all="ignore"):
            array = np.array(kernels.convert(array, kind.numpy))
    result: Tensor = bind(constant_op, value=array)
    return result


# --- Iota ---------------------------------------------------------------------------------------------------------


def infer_iota(*, shape: tuple[int, ...], dtype: Any, iota_dimension: int) -> TensorSpec:
    """C1: the dimension is one of the result's."""
    spec = TensorSpec(shape, dtype)
    require_shape(spec.is_static, "X2", "the sizes must be known; use dynamic_iota", shape)
    require(
        0 <= iota_dimension < spec.rank,
        "C1",
        f"iota_dimension must be in [0, {spec.rank})",
        iota_dimension,
    )
    require(spec.dtype.kind != "bool", "X1", "the element type must be a number", spec.dtype)
    return spec


def kernel_iota(
    *, shape: tuple[int, ...], dtype: Any, iota_dimension: int, out: TensorSpec
) -> Array:
    """result[i0, ..., id, ...] = id."""
    ramp = np.arange(shape[iota_dimension]).astype(out.dtype.numpy)
    sizes = [1] * len(shape)
    sizes[iota_dimension] = -1
    return np.broadcast_to(ramp.reshape(sizes), shape)


def write_iota(writer: Writer, instruction: Any) -> None:
    """The shape and element type stand in the result's type."""
    writer.line(
        "stablehlo.iota",
        instruction,
        f"iota_dimension = {instruction.params['iota_dimension']} : i64",
    )


def read_iota(reader: Reader, operation: Any) -> Any:
    """The shape and element type stand in the result's type."""
    spec = reader.result_specs(operation)[0]
    assert type(spec) is TensorSpec
    dimension = I64.parse(operation.attributes["iota_dimension"])
    return bind(iota_op, shape=spec.shape, dtype=spec.dtype, iota_dimension=dimension)


iota_op = register(Op(
    name="iota",
    section="Iota",
    infer=infer_iota,
    hlo=Hlo("stablehlo.iota", write=write_iota, read=read_iota),
    kernel=kernel_iota,
    ad=zero,
    batch=_NO_OPERANDS,
))  # fmt: skip


def iota(dtype: Any, shape: int | Sequence[int], iota_dimension: int = 0) -> Tensor:
    """Numbers that count up along one dimension.

    Parameters
    ----------
    dtype : dtype
        Any number type; counts that it does not hold wrap or round.
    shape : int or sequence of int
    iota_dimension : int
        The dimension to count along.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        [C1] If there is no such dimension.

    Notes
    -----
    Section Iota of the operation semantics.

    Examples
    --------
    >>> iota("s32", (2, 3), 1)
    Tensor([[0, 1, 2],
            [0, 1, 2]], s32[2,3])
    """
    sizes = as_shape(shape)
    axis = as_axis(iota_dimension, len(sizes), "C1") if sizes else as_int(iota_dimension)
    result: Tensor = bind(iota_op, shape=sizes, dtype=as_dtype(dtype), iota_dimension=axis)
    return result
