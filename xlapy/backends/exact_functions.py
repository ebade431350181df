"""Functions that XLA computes wrongly for some arguments, made of what it computes well.

Functions of complex numbers it takes as differences of exponentials, which lose a small part: ``sin(1 + 1e-20i)`` is
real there. Of Hurwitz's zeta function and of polygamma it adds up the first nine terms and takes the others for those
right of zero, which they are not where the argument is less than that. And the logarithm of a power, x^y, is y log|x|
there, even if there is no such power. Bits that are read as others, and these as others again, it reads in one step,
which gives another shape; and the bits of constants in parts of less than a byte it reads wrong. Wide numbers it takes
to narrow floats by way of f32, so that what lies next to a tie is rounded twice. And where it divides by what is the
same for many it multiplies by the inverse, which may be too large for the type, or too small: 0 / 1e-5 is nan in f16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.trace.computation import Computation, Instruction, Value, subcomputations
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.simplify import expand

__all__ = ["composition", "with_exact_functions"]


def with_exact_functions(computation: Computation) -> Computation:
    """The same program, with such functions composed of others."""
    made: dict[Value, Instruction] = {}
    _find_made(computation, made)

    def find(instruction: Instruction) -> Callable[..., Any] | None:
        name = instruction.op.name
        if name in ("log", "bitcast_convert_type"):
            before = made.get(instruction.operands[0])
            if before is not None and name == "log" and before.op.name == "pow":
                return _log_of_power
            if before is not None and name == before.op.name and _widths(instruction, before):
                return _apart
        if name == "div":
            return _quotient(instruction, made)
        return composition(instruction)

    return expand(computation, find, repeated=False)


def _find_made(computation: Computation, made: dict[Value, Instruction]) -> None:
    """Add what is asked for here: how powers of real numbers, bits read as others and what is repeated are made."""
    for instruction in computation.instructions:
        name = instruction.op.name
        if name in ("pow", "bitcast_convert_type", "broadcast_in_dim", "constant"):
            spec: Any = instruction.results[0].spec
            if name != "pow" or spec.dtype.kind == "float":
                made[instruction.results[0]] = instruction
        for inner in subcomputations(instruction.params):
            _find_made(inner, made)


def _widths(*steps: Instruction) -> bool:
    """Whether one of some steps has elements of another number."""
    specs: list[Any] = [s for i in steps for s in (i.operands[0].spec, i.results[0].spec)]
    return len({s.rank for s in specs}) > 1


def _apart(x: Any, **params: Any) -> Any:
    """Bits as others, and not as those of what they were before."""
    (kept,) = _call("optimization_barrier", x)
    return _call("bitcast_convert_type", kept, **params)


def _quotient(
    division: Instruction, made: Mapping[Value, Instruction]
) -> Callable[..., Any] | None:
    """A quotient that XLA would take for a product with an inverse that is no normal number of the type."""
    spec: Any = division.operands[1].spec
    source = made.get(division.operands[1])
    if source is None or spec.dtype.kind != "float" or not spec.is_static:
        return None
    limits = _finfo(spec.dtype.numpy)
    least, most = float(limits.smallest_normal), float(limits.max)
    if most < _LARGEST_DIVISOR:
        return _quotient_in_f32
    while source is not None and source.op.name == "broadcast_in_dim":
        source = made.get(source.operands[0])
    # Of arrays XLA's product is left as it is, for such divisors are rare there, and it is faster.
    if source is None or source.op.name != "constant" or not spec.rank:
        return None
    size = np.abs(np.asarray(source.params["value"]).astype(np.float64))
    far = np.isfinite(size) & (size > 0) & ((size < max(least, 1 / most)) | (size > 1 / least))
    return _quotient_by_hidden if far.any() else None


def _quotient_by_hidden(x: Any, y: Any) -> Any:
    (kept,) = _call("optimization_barrier", y)
    return _call("div", x, kept)


def composition(instruction: Instruction) -> Callable[..., Any] | None:
    """What such a function is composed of; None for all other operations. It may be one of its own parts."""
    kind = _KINDS.get(instruction.op.name)
    spec: Any = instruction.operands[0].spec if kind else None
    if kind == "any":
        dtype = instruction.params["dtype"]
        plain = not {dtype.kind, spec.dtype.kind} & {"bool", "complex"} and spec.is_static
        return _packed if plain and dtype.bits < min(8, spec.dtype.bits) else None
    if kind == "wide":
        return _rounding(spec.dtype, instruction.params["dtype"]) if spec.is_static else None
    if kind is None or spec.dtype.kind != kind:
        return None
    return _COMPOSED[instruction.op.name]


def _call(name: str, *xs: Any, **params: Any) -> Any:
    return bind(lookup(name), *xs, **params)


def _compare(x: Any, direction: str, y: Any) -> Any:
    return _call("compare", x, y, comparison_direction=direction, compare_type="FLOAT")


# --- of complex numbers -----------------------------------------------------------------------------------------------


def _parts(z: Any) -> tuple[Any, Any]:
    return _call("real", z), _call("imag", z)


def _number(like: Any, value: float) -> Any:
    one = _call("constant", value=np.asarray(value).astype(like.spec.dtype.numpy))
    shape = like.spec.shape
    return _call("broadcast_in_dim", one, shape=shape, broadcast_dimensions=()) if shape else one


def _unless_zero(x: Any, otherwise: Any, product: Any) -> Any:
    """A product with an infinite or overflowing factor, which is nothing where the other one is."""
    return _call("select", _compare(x, "EQ", _number(x, 0.0)), otherwise, product)


def _odd(x: Any, y: Any, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """The parts of ``sinh(x + iy)``."""
    real = _call("mul", _call("sinh", x), _call("cos", y, **params))
    imag = _call("mul", _call("cosh", x), _call("sin", y, **params))
    return _unless_zero(x, x, real), _unless_zero(y, y, imag)


def _even(x: Any, y: Any, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """The parts of ``cosh(x + iy)``."""
    real = _call("mul", _call("cosh", x), _call("cos", y, **params))
    imag = _call("mul", _call("sinh", x), _call("sin", y, **params))
    nothing = _call("mul", _call("sign", x), y)
    return real, _unless_zero(y, nothing, imag)


def _sinh(z: Any, **params: Any) -> Any:
    return _call("complex", *_odd(*_parts(z), params))


def _cosh(z: Any, **params: Any) -> Any:
    return _call("complex", *_even(*_parts(z), params))


def _sin(z: Any, **params: Any) -> Any:
    x, y = _parts(z)
    imag, real = _odd(y, x, params)
    return _call("complex", real, imag)


def _cos(z: Any, **params: Any) -> Any:
    x, y = _parts(z)
    real, imag = _even(y, x, params)
    return _call("complex", real, _call("neg", imag))


def _expm1(z: Any, **params: Any) -> Any:
    """``expm1(x) cos(y) - 2 sin(y/2)^2 + i e^x sin(y)``."""
    x, y = _parts(z)
    half = _call("sin", _call("mul", y, _number(y, 0.5)))
    grown = _call("mul", _call("expm1", x, **params), _call("cos", y))
    real = _call("sub", grown, _call("mul", _number(y, 2.0), _call("mul", half, half)))
    imag = _call("mul", _call("exp", x, **params), _call("sin", y))
    return _call("complex", real, _unless_zero(y, y, imag))


# --- the logarithm of a power -----------------------------------------------------------------------------------------


def _log_of_power(x: Any, **params: Any) -> Any:
    """XLA's is right where the power is a positive number."""
    found = _call("log", x, **params)
    for value, logarithm in ((np.inf, np.inf), (0.0, -np.inf)):
        same = _compare(x, "EQ", _number(x, value))
        found = _call("select", same, _number(x, logarithm), found)
    return _call("select", _compare(x, "GE", _number(x, 0.0)), found, _number(x, np.nan))


# --- left of zero -----------------------------------------------------------------------------------------------------


def _is_whole(x: Any) -> Any:
    return _compare(x, "EQ", _call("floor", x))


def _zeta_left(s: Any, q: Any) -> Any:
    """``zeta(s, q)`` for ``q < 0`` that is no whole number; other arguments are taken for -1/2."""
    inside = _call("and", _compare(q, "LT", _number(q, 0.0)), _call("not", _is_whole(q)))
    q = _call("select", inside, q, _number(q, -0.5))
    one = _number(q, 1.0)
    # From the nearest pole, at q - r, there are terms to both sides: r^-s + zeta(s, 1 + r) in one direction, and as
    # many of zeta(s, 1 - r) as lie before those of zeta(s, 1 - q) in the other one.
    r = _call("sub", q, _call("round_nearest_even", q))
    before = _call("zeta", s, _call("sub", one, r))
    left = _call("sub", before, _call("zeta", s, _call("sub", one, q)))
    even = _is_whole(_call("mul", s, _number(s, 0.5)))
    left = _call("select", even, left, _call("neg", left))
    right = _call("add", _call("pow", r, _call("neg", s)), _call("zeta", s, _call("add", one, r)))
    total = _call("add", right, left)
    # Of other numbers than whole ones these are roots of negative numbers.
    fit = _call("and", _is_whole(s), _compare(s, "GT", _number(s, 1.0)))
    return _call("select", fit, total, _number(total, np.nan))


def _is_left(s: Any, q: Any, least: float) -> Any:
    """Where `_zeta_left` is the function's value."""
    left = _call("and", _compare(q, "LT", _number(q, 0.0)), _call("not", _is_whole(q)))
    return _call("and", left, _compare(s, "GT", _number(s, least)))


def _zeta(s: Any, q: Any) -> Any:
    return _call("select", _is_left(s, q, 1.0), _zeta_left(s, q), _call("zeta", s, q))


def _polygamma(n: Any, x: Any) -> Any:
    """``(-1)^(n+1) n! zeta(n + 1, x)``."""
    order = _call("add", n, _number(n, 1.0))
    even = _is_whole(_call("mul", n, _number(n, 0.5)))
    factorial = _call("exp", _call("lgamma", order))
    sized = _call("mul", factorial, _zeta_left(order, x))
    left = _call("select", even, _call("neg", sized), sized)
    return _call("select", _is_left(n, x, 0.0), left, _call("polygamma", n, x))


def _in_f32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats, by way of f32 if they are narrower."""

    def run(*xs: Any) -> Any:
        dtype = xs[0].spec.dtype
        if dtype.bits >= 32:
            return function(*xs)
        wide = [_call("convert_element_type", x, dtype=as_dtype("f32")) for x in xs]
        return _call("convert_element_type", function(*wide), dtype=dtype)

    return run


_finfo: Any = ml_dtypes.finfo
_quotient_in_f32 = _in_f32(lambda x, y: _call("div", x, y))
#: whose inverse is the smallest normal number of f32
_LARGEST_DIVISOR: Final = 2.0**126


# --- bits -------------------------------------------------------------------------------------------------------------


def _packed(x: Any, *, dtype: DType) -> Any:
    """Elements of fewer bits than a byte from the bytes of others, by arithmetic."""
    bits, own = dtype.bits, x.spec.dtype.bits
    words = _call("bitcast_convert_type", x, dtype=as_dtype(f"u{min(own, 8)}"))
    words = _call("convert_element_type", words, dtype=as_dtype("u8"))
    spec = words.spec
    shape = (*spec.shape, min(own, 8) // bits)
    words = _call(
        "broadcast_in_dim", words, shape=shape, broadcast_dimensions=tuple(range(spec.rank))
    )
    place = _call("iota", shape=shape, dtype=spec.dtype, iota_dimension=spec.rank)
    parts = _call("shift_right_logical", words, _call("mul", place, _number(place, bits)))
    low = _call("and", parts, _number(parts, (1 << bits) - 1))
    made = _call("convert_element_type", low, dtype=as_dtype(f"u{bits}"))
    made = _call("reshape", made, shape=(*x.spec.shape, own // bits))
    return made if dtype is made.spec.dtype else _call("bitcast_convert_type", made, dtype=dtype)


# --- rounding ---------------------------------------------------------------------------------------------------------

#: bits that f64 can do without before it becomes a float of 16 bits or fewer, and those that f64 has no place for
_LOST: Final = (1 << 38) - 1
_LOST_OF_INTEGERS: Final = (1 << 11) - 1
_EXACT: Final = 1 << 53


def _rounding(given: DType, made: DType) -> Callable[..., Any] | None:
    """A conversion that rounds once; None for those that do.

    f8e8m0fnu is left to `xlapy.backends.subnormals`, and numbers with more bits than f32 are infinite as f16.
    """
    if given.real_part.name == "f64":
        return _round_once if made.name in ("f16", "bf16") else None
    return _round_once if given.integer and given.bits >= 32 and made.name == "bf16" else None


def _round_once(x: Any, *, dtype: DType) -> Any:
    """By way of fewer bits, the last one set if others were lost: such a number rounds as the whole one does."""
    if x.spec.dtype.kind == "complex":
        x = _call("real", x)
    if x.spec.dtype.bits == 64 and x.spec.dtype.integer:
        x = _for_f64(x)
    wide = _call("convert_element_type", x, dtype=as_dtype("f64"))
    bits = _call("bitcast_convert_type", wide, dtype=as_dtype("u64"))
    odd = _call("bitcast_convert_type", _to_odd(bits, _LOST), dtype=as_dtype("f64"))
    return _call("convert_element_type", odd, dtype=dtype)


def _to_odd(bits: Any, lost: int) -> Any:
    low = _number(bits, lost)
    carried = _call("add", _call("and", bits, low), low)
    return _call("and", _call("or", bits, carried), _call("not", low))


def _for_f64(x: Any) -> Any:
    """Integers of 64 bits, those beyond the 53 that f64 has rounded to odd."""
    bits = _call("bitcast_convert_type", x, dtype=as_dtype("u64"))
    signed = x.spec.dtype.kind == "int"
    reach = _call("add", bits, _number(bits, _EXACT)) if signed else bits
    few = _number(bits, 2 * _EXACT if signed else _EXACT)
    exact = _call("compare", reach, few, comparison_direction="LE", compare_type="UNSIGNED")
    return _call("select", exact, x, _to_odd(x, _LOST_OF_INTEGERS))


_COMPOSED: Final[Mapping[str, Callable[..., Any]]] = {
    "sin": _sin, "cos": _cos, "sinh": _sinh, "cosh": _cosh, "expm1": _expm1, "zeta": _in_f32(_zeta),
    "polygamma": _in_f32(_polygamma),
}  # fmt: skip
#: the kind of elements for which they are
_KINDS: Final = {
    **dict.fromkeys(("sin", "cos", "sinh", "cosh", "expm1"), "complex"),
    **dict.fromkeys(("zeta", "polygamma"), "float"),
    "bitcast_convert_type": "any",
    "convert_element_type": "wide",
}
