"""StopGradient: the identity, whose derivative is zero."""

from __future__ import annotations

from typing import Any

from xlapy.specs import TensorSpec, require_array
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.stablehlo import Writer

from .rules import zero


def infer_stop_gradient(x: TensorSpec) -> TensorSpec:
    """I1: an array."""
    require_array(x, "I1")
    return x


stop_gradient_op = register(Op(
    name="stop_gradient",
    section="StableHLO: none",
    infer=infer_stop_gradient,
    hlo=Hlo("", write=Writer.alias),
    kernel=lambda x, *, out: x,
    ad=zero,
    batch=lambda op, args, is_batched, size: bind(op, args[0]),
))  # fmt: skip


def stop_gradient(operand: Any) -> Tensor:
    """The same values, counted as a constant by every derivative.

    Parameters
    ----------
    operand : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import xlapy
    >>> xlapy.ops.stop_gradient(xlapy.ops.constant(2.0))
    Tensor(2., f32[])
    """
    result: Tensor = bind(stop_gradient_op, operand)
    return result
