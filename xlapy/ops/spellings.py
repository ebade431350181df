"""How elementwise operations are read that CHLO and MHLO spell otherwise: nothing is written so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from xlapy.specs import TensorSpec, require_shape
from xlapy.trace.codecs import I64_ARRAY
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup, register_reader
from xlapy.trace.stablehlo_reader import Reader
from xlapy.trace.zeros import constant_of

from .comparison import compare_op
from .creation import read_constant

_Read = Callable[[Reader, Any], Any]


def _same(name: str) -> _Read:
    """The operation of another name, on the same operands."""

    def read(reader: Reader, operation: Any) -> Any:
        return bind(lookup(name), *reader.operands(operation))

    return read


def _broadcasting(name: str) -> _Read:
    """CHLO's form that broadcasts its operands first."""

    def read(reader: Reader, operation: Any) -> Any:
        op = lookup(name)
        params = reader.params(operation, op) if op is compare_op else {}
        return bind(op, *_spread(reader, operation), **params)

    return read


def _spread(reader: Reader, operation: Any) -> list[Any]:
    """The operands in the result's shape.

    The dimensions of an operand of lower rank go where `broadcast_dimensions` says, by default to the last ones.
    """
    result = reader.result_specs(operation)[0]
    require_shape(
        type(result) is TensorSpec and result.is_static, "X6", "the shape must be static", result
    )
    assert type(result) is TensorSpec
    attribute = reader.attribute(operation, "broadcast_dimensions")
    spread = []
    for x in reader.operands(operation):
        spec = x.spec
        if spec.shape != result.shape:
            dims: Any = tuple(range(result.rank - spec.rank, result.rank))
            if attribute is not None and spec.rank and spec.rank < result.rank:
                dims = I64_ARRAY.parse(attribute)
            x = bind(lookup("broadcast_in_dim"), x, shape=result.shape, broadcast_dimensions=dims)
        spread.append(x)
    return spread


def _read_constant_like(reader: Reader, operation: Any) -> Any:
    """One value in the shape of the operand."""
    (like,) = reader.operands(operation)
    text = reader.text(operation, "value").split(":")[0].strip()
    return constant_of(like.spec, float(text) if like.dtype.inexact else int(text))


def _read_broadcast(reader: Reader, operation: Any) -> Any:
    """New dimensions before the others."""
    (x,) = reader.operands(operation)
    sizes = I64_ARRAY.parse(reader.attribute(operation, "broadcast_sizes"))
    return bind(
        lookup("broadcast_in_dim"),
        x,
        shape=(*sizes, *x.spec.shape),
        broadcast_dimensions=tuple(range(len(sizes), len(sizes) + x.spec.rank)),
    )


_IN_MHLO: Final = (
    "acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "mulhi", "sinh", "tan",
)  # fmt: skip
#: the last word of ``chlo.broadcast_...`` -> the operation
_BROADCASTING: Final = {
    "divide": "div", "multiply": "mul", "subtract": "sub", "power": "pow", "maximum": "max",
    "minimum": "min", "remainder": "rem",
} | {
    name: name
    for name in (
        "add", "and", "atan2", "compare", "complex", "next_after", "or", "polygamma", "select",
        "shift_left", "shift_right_arithmetic", "shift_right_logical", "xor", "zeta",
    )
}  # fmt: skip

register_reader("chlo.tan", _same("tan"))
register_reader("stablehlo.broadcast", _read_broadcast)
register_reader("chlo.constant", read_constant)
register_reader("chlo.constant_like", _read_constant_like)
for _name in _IN_MHLO:
    register_reader(f"mhlo.{_name}", _same(_name))
for _word, _name in _BROADCASTING.items():
    register_reader(f"chlo.broadcast_{_word}", _broadcasting(_name))
