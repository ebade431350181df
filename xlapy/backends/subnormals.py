"""Operations whose results jump at zero, on processors that are told to take subnormal numbers for zeros.

XLA sets the CPU to do so in all of its threads (flags DAZ and FTZ of SSE), and no option changes it. What comes of that
is off by less than the smallest normal number where a function is continuous, but floor, ceil, sign and comparisons are
off by one. So these look at the bits, which are integers. And f8e8m0fnu has no zero: its least number, subnormal in the
f32 that XLA computes it in, would be nan. It goes by f64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation, Instruction, Value, subcomputations
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.simplify import expand

__all__ = ["with_subnormals"]


class _Bits(NamedTuple):
    """How a float is made of bits: the integers of its width, and the values of these bits."""

    unsigned: DType
    signed: DType
    sign: int
    infinity: int  # all bits of the exponent
    one: int


def _bits(unsigned: str, signed: str, width: int, mantissa: int) -> _Bits:
    infinity = (1 << (width - 1)) - (1 << mantissa)
    one = ((1 << (width - 2 - mantissa)) - 1) << mantissa
    return _Bits(as_dtype(unsigned), as_dtype(signed), 1 << (width - 1), infinity, one)


#: the types with subnormal numbers that are so for the processor: narrower ones are computed with in f32
_FLOATS: Final[Mapping[str, _Bits]] = {
    "bf16": _bits("u16", "s16", 16, 7),
    "f32": _bits("u32", "s32", 32, 23),
    "f64": _bits("u64", "s64", 64, 52),
}


def with_subnormals(computation: Computation) -> Computation:
    """The same program, with subnormal numbers told from zeros.

    Not in sorts by nothing but a comparison, which XLA knows and does three times as fast, and in what
    select_and_scatter selects by, which costs convolutional networks some hundredths of their time. (The comparator
    that `xlapy.ops.sort` has by default is in total order, which is by bits anyway.)
    """
    known: dict[Value, str] = {}
    _find_known(computation, known)
    return expand(
        computation,
        lambda i: _exact(i, known),
        within=_looked_into,
        repeated=False,
    )


def _looked_into(instruction: Instruction) -> bool:
    if instruction.op.name == "sort":
        comparator: Computation = instruction.params["comparator"]
        return len(comparator.instructions) > 1
    return instruction.op.name != "select_and_scatter"


def _find_known(computation: Computation, known: dict[Value, str]) -> None:
    """Add the values that are constants of zeros only, or of none but normal numbers."""
    for instruction in computation.instructions:
        name = instruction.op.name
        found = None
        if name == "constant":
            found = _kind_of(instruction.params["value"])
        elif name in _MOVES:
            found = known.get(instruction.operands[0])
        if found:
            known[instruction.results[0]] = found
        for inner in subcomputations(instruction.params):
            _find_known(inner, known)


_MOVES: Final = ("broadcast_in_dim", "reshape", "transpose")
#: larger constants are not looked at, unless they are one number
_LOOKED_AT: Final = 1024


def _kind_of(value: np.ndarray[Any, Any]) -> str | None:
    """``"zero"`` or ``"normal"`` if all numbers in an array are that."""
    form = _FLOATS.get(TensorSpec((), value.dtype).dtype.name)
    if form is None or not value.size or (value.size > _LOOKED_AT and any(value.strides)):
        return None
    few = value.reshape(-1)[:_LOOKED_AT]
    bits = np.ascontiguousarray(few).view(form.unsigned.numpy)
    exponents = bits & bits.dtype.type(form.infinity)
    if exponents.all():
        return "normal"
    size = bits & bits.dtype.type(form.sign - 1)
    return None if size.any() else "zero"


def _exact(instruction: Instruction, known: Mapping[Value, str]) -> Callable[..., Any] | None:
    """What computes the same and looks at the bits; None for operations that need not."""
    name = instruction.op.name
    if name not in _OPERATIONS and name not in _POWERS:
        return None
    spec: Any = instruction.operands[-1].spec
    if type(spec) is not TensorSpec or not spec.is_static:
        return None
    if spec.dtype.name == "f8e8m0fnu":
        return _exact_power(instruction)
    if name in _POWERS:
        return None
    if spec.dtype.kind not in ("float", "complex") or spec.dtype.real_part.name not in _FLOATS:
        return None
    if name == "compare":
        return _comparison(instruction, known)
    if name == "convert_element_type":
        wanted = instruction.params["dtype"]
        if wanted.name == "f8e8m0fnu" and spec.dtype.real_part.name == "f64":
            return _to_power
        return _as_truth_value if wanted.kind == "bool" else None
    return None if spec.dtype.kind == "complex" else _OPERATIONS[name]


def _comparison(instruction: Instruction, known: Mapping[Value, str]) -> Callable[..., Any] | None:
    first, second = instruction.operands
    kinds = known.get(first), known.get(second)
    # A subnormal number is to a normal one as zero is; and whatever it is, a number equals itself.
    if (
        first is second
        or "normal" in kinds
        or instruction.params.get("compare_type") == "TOTALORDER"
    ):
        return None
    if kinds[1] == "zero":
        return _compare_with_zero
    return _compare_zero_with if kinds[0] == "zero" else _compare


# --- arithmetic on bits -----------------------------------------------------------------------------------------------


def _full(like: Any, dtype: DType, value: int) -> Any:
    """A number of an integer type, as often as an array has elements."""
    number = np.array(value, np.uint64).astype(f"u{dtype.numpy.itemsize}").view(dtype.numpy)
    one = bind(lookup("constant"), value=number)
    shape = like.spec.shape
    if not shape:
        return one
    return bind(lookup("broadcast_in_dim"), one, shape=shape, broadcast_dimensions=())


def _call(name: str, x: Any, y: Any) -> Any:
    return bind(lookup(name), x, y)


def _integers(x: Any, direction: str, y: Any) -> Any:
    kind = "UNSIGNED" if x.spec.dtype.kind == "uint" else "SIGNED"
    return bind(lookup("compare"), x, y, comparison_direction=direction, compare_type=kind)


def _as_bits(x: Any, dtype: DType) -> Any:
    return bind(lookup("bitcast_convert_type"), x, dtype=dtype)


def _choose(condition: Any, x: Any, y: Any) -> Any:
    return bind(lookup("select"), condition, x, y)


def _starts_at(bits: Any, first: int, count: int) -> Any:
    """Whether bits are one of `count` from `first` on."""
    dtype = bits.spec.dtype
    return _integers(_call("sub", bits, _full(bits, dtype, first)), "LT", _full(bits, dtype, count))


# --- the operations ---------------------------------------------------------------------------------------------------


def _floor(x: Any, **params: Any) -> Any:
    return _stepped(x, "floor", _FLOATS[x.spec.dtype.name].sign, params)


def _ceil(x: Any, **params: Any) -> Any:
    return _stepped(x, "ceil", 0, params)


def _stepped(x: Any, name: str, sign: int, params: Mapping[str, Any]) -> Any:
    """As it is, but of subnormal numbers of this sign the step from zero."""
    form = _FLOATS[x.spec.dtype.name]
    bits = _as_bits(x, form.unsigned)
    subnormal = _starts_at(bits, sign + 1, _subnormals(form))
    step = _as_bits(_full(x, form.unsigned, sign + form.one), x.spec.dtype)
    return _choose(subnormal, step, bind(lookup(name), x, **params))


def _subnormals(form: _Bits) -> int:
    """How many there are of one sign."""
    return (form.infinity & -form.infinity) - 1


def _sign(x: Any, **params: Any) -> Any:
    form = _FLOATS[x.spec.dtype.name]
    bits = _as_bits(x, form.unsigned)
    size = _call("and", bits, _full(x, form.unsigned, form.sign - 1))
    sign = _call("and", bits, _full(x, form.unsigned, form.sign))
    unit = _as_bits(_call("or", sign, _full(x, form.unsigned, form.one)), x.spec.dtype)
    return _choose(_starts_at(size, 1, _subnormals(form)), unit, bind(lookup("sign"), x, **params))


def _as_truth_value(x: Any, **params: Any) -> Any:
    # Of a complex number the imaginary part is dropped.
    return _with_zero(bind(lookup("real"), x) if x.spec.dtype.kind == "complex" else x, "NE")


def _compare_with_zero(x: Any, y: Any, *, comparison_direction: str, **_: Any) -> Any:
    return _with_zero(x, comparison_direction)


def _with_zero(x: Any, direction: str) -> Any:
    """The comparison with zero; its bits say of nan that it is neither."""
    form = _FLOATS[x.spec.dtype.name]
    kind, bits = form.unsigned, _as_bits(x, form.unsigned)
    if direction in ("EQ", "NE"):
        size = _call("and", bits, _full(x, kind, form.sign - 1))
        return _integers(size, direction, _full(x, kind, 0))
    first = 0 if direction[0] == "G" else form.sign
    if direction[1] == "T":
        return _starts_at(bits, first + 1, form.infinity)
    other = _integers(bits, "EQ", _full(x, kind, form.sign - first))
    return _call("or", _starts_at(bits, first, form.infinity + 1), other)


_TURNED: Final = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def _compare_zero_with(x: Any, y: Any, *, comparison_direction: str, **_: Any) -> Any:
    return _with_zero(y, _TURNED[comparison_direction])


def _compare(x: Any, y: Any, **params: Any) -> Any:
    """As it is, but by their bits if neither is a normal number."""
    comparison_direction = params["comparison_direction"]
    if x.spec.dtype.kind == "complex":
        parts = [
            _compare(bind(lookup(part), x), bind(lookup(part), y), **params)
            for part in ("real", "imag")
        ]
        return _call("and" if comparison_direction == "EQ" else "or", *parts)
    form = _FLOATS[x.spec.dtype.name]
    kind = form.signed
    left, right = _as_bits(x, kind), _as_bits(y, kind)
    exponents = _call("and", _call("or", left, right), _full(x, kind, form.infinity))
    small = _integers(exponents, "EQ", _full(x, kind, 0))
    by_bits = _integers(_ordered(left, form), comparison_direction, _ordered(right, form))
    return _choose(small, by_bits, bind(lookup("compare"), x, y, **params))


def _ordered(bits: Any, form: _Bits) -> Any:
    """Integers in the order of the floats with these bits; both zeros are 0."""
    negative = _integers(bits, "LT", _full(bits, form.signed, 0))
    return _choose(negative, _call("sub", _full(bits, form.signed, form.sign), bits), bits)


# --- powers of two ----------------------------------------------------------------------------------------------------


#: operations that XLA computes in f32 for f8e8m0fnu, whose least number is subnormal there; and it has no zero
_POWERS: Final = frozenset({
    "add", "sub", "mul", "div", "max", "min", "pow", "atan2", "clamp", "square", "sqrt", "rsqrt", "cbrt", "log1p",
})  # fmt: skip
_LEAST_POWER: Final = 2.0**-127
_NOTHING_IN_F32: Final = 2.0**-150


def _exact_power(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes the same of f8e8m0fnu."""
    name = instruction.op.name
    if name in _POWERS:
        return lambda *xs, **params: _by_f64(name, xs, params)
    if name == "convert_element_type" and instruction.params["dtype"].kind == "bool":
        return _as_true
    return None


def _number(like: Any, value: float) -> Any:
    one = bind(lookup("constant"), value=np.array(value, like.spec.dtype.numpy))
    shape = like.spec.shape
    if not shape:
        return one
    return bind(lookup("broadcast_in_dim"), one, shape=shape, broadcast_dimensions=())


def _by_f64(name: str, xs: Sequence[Any], params: Mapping[str, Any]) -> Any:
    wide = [bind(lookup("convert_element_type"), x, dtype=as_dtype("f64")) for x in xs]
    return _to_power(bind(lookup(name), *wide, **params), dtype=xs[0].spec.dtype)


def _to_power(x: Any, **params: Any) -> Any:
    """By way of at least the least number, unless f32 has nothing for it: XLA makes nan of all that is below it."""
    if x.spec.dtype.kind == "complex":
        x = bind(lookup("real"), x)
    nothing = _number(x, _NOTHING_IN_F32)
    some = bind(lookup("compare"), x, nothing, comparison_direction="GT", compare_type="FLOAT")
    raised = _choose(some, _call("max", x, _number(x, _LEAST_POWER)), x)
    return bind(lookup("convert_element_type"), raised, **params)


def _as_true(x: Any, **params: Any) -> Any:
    one = bind(lookup("constant"), value=np.array(True))
    return bind(lookup("broadcast_in_dim"), one, shape=x.spec.shape, broadcast_dimensions=())


_OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "floor": _floor, "ceil": _ceil, "sign": _sign, "compare": _compare, "convert_element_type": _as_truth_value,
}  # fmt: skip
