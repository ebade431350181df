"""Elementwise operations on two and three operands.

Nothing is promoted here, and shapes must be equal; a scalar operand is broadcast, and `broadcast_dimensions` says
where the dimensions of an operand of lower rank go, as in the operation semantics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec, require, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import Enum
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register

from . import elementwise_kernels as kernels
from .families import ANY, INEXACT, NUMBER, REAL, SIGNED, binary, meet, unary
from .rules import batch_elementwise, bilinear, constant_like, elementwise, linear, zero

# --- arithmetic ---------------------------------------------------------------------------------------------------

add_op = binary(
    "add", "stablehlo.add", section="Add", dtypes=ANY, kernel=kernels.add,
    ad=elementwise(lambda g, x, y, out: g, lambda g, x, y, out: g),
)  # fmt: skip


def add(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The sum; of truth values the disjunction. Integers wrap.

    Parameters
    ----------
    lhs, rhs : Tensor or scalar
        Of one element type and shape.
    broadcast_dimensions : sequence of int, optional
        Where the dimensions of the operand of lower rank go.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError, DTypeError
        [C1] If shapes or element types differ.

    Notes
    -----
    Section Add of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.add(ops.constant([1, 2]), 3)
    Tensor([4, 5], s32[2])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(add_op, x, y)
    return result


sub_op = binary(
    "sub", "stablehlo.subtract", section="Sub", dtypes=NUMBER, kernel=kernels.subtract,
    ad=elementwise(lambda g, x, y, out: g, lambda g, x, y, out: neg(g)),
)  # fmt: skip


def sub(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The difference."""
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(sub_op, x, y)
    return result


mul_op = binary(
    "mul", "stablehlo.multiply", section="Mul", dtypes=ANY, kernel=kernels.multiply,
    ad=bilinear(lambda g, x, y: mul(g, y), lambda g, x, y: mul(g, x)),
)  # fmt: skip


def mul(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The product."""
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(mul_op, x, y)
    return result


div_op = binary(
    "div", "stablehlo.divide", section="Div", dtypes=NUMBER, kernel=kernels.divide,
    ad=elementwise(lambda g, x, y, out: div(g, y), lambda g, x, y, out: neg(div(mul(g, out), y))),
)  # fmt: skip


def div(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The quotient."""
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(div_op, x, y)
    return result


neg_op = unary(
    "neg", "stablehlo.negate", section="Neg", dtypes=NUMBER, kernel=kernels.negate,
    ad=linear(lambda g, x: neg(g)),
)  # fmt: skip


def neg(operand: Any) -> Tensor:
    """The negative."""
    result: Tensor = bind(neg_op, operand)
    return result


sin_op = unary("sin", "stablehlo.sine", section="Sin", dtypes=INEXACT, kernel=kernels.sine,
               derivative=lambda x, y: bind(cos_op, x))  # fmt: skip
cos_op = unary("cos", "stablehlo.cosine", section="Cos", dtypes=INEXACT, kernel=kernels.cosine,
               derivative=lambda x, y: neg(bind(sin_op, x)))  # fmt: skip
tanh_op = unary("tanh", "stablehlo.tanh", section="Tanh", dtypes=INEXACT, kernel=kernels.tanh,
                derivative=lambda x, y: sub(constant_like(x, 1), mul(y, y)))  # fmt: skip
exp_op = unary("exp", "stablehlo.exponential", section="Exp", dtypes=INEXACT, kernel=kernels.exponential,
               derivative=lambda x, y: y)  # fmt: skip
log_op = unary("log", "stablehlo.log", section="Log", dtypes=INEXACT, kernel=kernels.log,
               ad=elementwise(lambda g, x, y: div(g, x)))  # fmt: skip
