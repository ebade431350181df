"""How near two results have to come: by what rounding does to the program at hand.

A program is run by its kernels several times, with every rounding error there is made a little larger at random. How
far the results then lie apart says how well they are determined; what a compiler gives must lie as near, to a small
factor. Where nothing rounds, results must be equal. A result that is not determined at all, for a tie that rounding
breaks, is not compared; `fuzzing.setting.Setting.counts` says how much was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation, Instruction, Value

from .evaluation import Step, values_of
from .known_differences import SUMMED, is_complex, is_inexact, undetermined, wide
from .values import Array

#: how often a program is run with errors
SAMPLES = 6
#: how many times as far as the samples lie apart a result may lie off
FACTOR = 4.0

#: operations whose results are exact, or some of the operands
EXACT = frozenset({
    "neg", "ceil", "floor", "round_nearest_afz", "round_nearest_even", "not", "population_count", "clz", "is_finite",
    "sign", "conj", "is_inf", "is_pos_inf", "is_neg_inf", "real", "imag", "max", "min", "complex", "mulhi",
    "next_after", "and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical", "compare",
    "select", "clamp", "bitcast_convert_type", "reduce_precision", "copy", "stop_gradient", "optimization_barrier",
    "tuple", "get_tuple_element", "constant", "iota", "reshape", "broadcast_in_dim", "transpose", "rev", "slice", "pad",
    "concatenate", "dynamic_slice", "dynamic_update_slice", "gather", "sort", "top_k", "bitcast", "domain",
    "set_dimension_size", "get_dimension_size", "dynamic_reshape", "dynamic_iota", "dynamic_broadcast_in_dim",
    "dynamic_pad", "real_dynamic_slice", "dynamic_gather", "python_callback", "rem", "rng_bit_generator",
    # On one device these move nothing; to reduce is to begin with the identity there.
    "all_gather", "all_to_all", "collective_broadcast", "collective_permute", "ragged_all_to_all", "replica_id",
    "partition_id", "add_dependency", "after_all", "create_token",
})  # fmt: skip
#: operations that are exact if their operands are integers and small enough
RING = frozenset({
    "add", "sub", "mul", "square", "dot_general", "reduce", "reduce_window", "convolution", "scatter", "scan",
    "select_and_scatter", "abs", "dynamic_conv", "ragged_dot", "scaled_dot",
})  # fmt: skip
#: correctly rounded where nothing is fused with them: half a unit in the last place
ROUNDED = frozenset({"add", "sub", "mul", "div", "sqrt", "square", "abs", "convert_element_type"})
#: computations in them are run with errors themselves, so that their results need no more
CALLING = frozenset({"while", "case", "call", "composite_call", "fusion", "map", "async_start"})
#: units in the last place by which other functions may be off, by operation
ULPS = {
    "lgamma": 16, "digamma": 16, "polygamma": 64, "zeta": 64, "erf_inv": 8, "bessel_i1e": 16, "erfc": 8,
    "tan": 6, "pow": 6, "sinh": 32, "cosh": 32, "asinh": 4, "acosh": 4, "atanh": 4, "logistic": 4, "fft": 4,
}  # fmt: skip
DEFAULT_ULPS = 3
#: in double precision, where XLA's polynomials for log(1 + x) end early, and e^(x - log(2)) hangs on the last bit of x
DOUBLE_ULPS = {"log1p": 48, "atanh": 48, "sinh": 128, "cosh": 128}
COMPLEX_ULPS = {"sin": 32, "cos": 32}
COMPLEX_DOUBLE_ULPS = {"log": 48, "sin": 128, "cos": 128}
#: functions that XLA computes to the last bits of their argument rather than of their result: from x^2 and 1 - x^2,
#: complex ones near poles, and complex powers as e^(y log(x))
BY_ARGUMENT = frozenset({"erfc", "erf_inv"})
COMPLEX_BY_ARGUMENT = frozenset({"tan", "tanh", "pow", "logistic"})
#: functions that are computed as sums of terms that are not small where the result is
ABSOLUTE = frozenset({"lgamma", "digamma", "bessel_i1e", "polygamma", "zeta"})


def part(dtype: DType) -> DType:
    """The type of the real part."""
    return dtype.real_part if dtype.kind == "complex" else dtype


def spacing(array: Array, dtype: DType) -> Array:
    """The unit in the last place at each element, of its absolute value if it is complex; in float64."""
    info = ml_dtypes.finfo(part(dtype).numpy)
    magnitude = np.abs(wide(array))
    magnitude = np.where(np.isfinite(magnitude), magnitude, 0.0)
    exponent = np.frexp(np.maximum(magnitude, float(info.smallest_normal)))[1] - 1
    return np.asarray(np.ldexp(1.0, exponent - int(info.nmant)))


def nudged(
    array: Array, dtype: DType, ulps: float, rng: np.random.Generator, *, absolute: bool = False,
    bias: float = 0.0, signs: bool = False,
) -> Array:  # fmt: skip
    """The elements off by up to so many units in the last place (of 1 at least, if `absolute`); zeros stay else.

    With a bias they are all off by as much, in its direction; if `signs` are open zeros have that of the bias, or any.
    """
    if not array.size:
        return array
    exact = wide(array)
    steps = spacing(array, dtype) * ulps
    if absolute:
        steps = np.maximum(steps, spacing(np.ones((), array.dtype), dtype) * ulps)

    def errors() -> Array:
        # Less than half a unit would be lost in the rounding.
        if bias:
            return bias * steps
        return np.asarray(rng.choice([-1.0, -0.7, 0.7, 1.0], array.shape)) * steps

    moved: Any = exact + errors()
    if array.dtype.kind == "c":
        moved = moved + 1j * errors()
    kept = np.isfinite(exact) & ((exact != 0) | absolute)
    if signs and array.dtype.kind != "c":
        sign: Any = bias or rng.choice([-1.0, 1.0], array.shape)
        exact = np.where(exact == 0, np.copysign(0.0, sign), exact)
    with np.errstate(all="ignore"):
        return np.asarray(np.where(kept, moved, exact)).astype(array.dtype)


def _is_small(arrays: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether all numbers are integers that products and sums of keep exact."""
    for array in (*arrays, *outs):
        if np.asarray(array).dtype.kind in "biu":
            continue
        dtype = as_dtype(np.asarray(array).dtype)
        if not dtype.inexact:
            continue
        limit = 2.0 ** int(ml_dtypes.finfo(part(dtype).numpy).nmant)
        values = wide(np.asarray(array))
        parts = (values.real, values.imag) if dtype.kind == "complex" else (values,)
        for p in parts:
            if not np.all(np.isfinite(p)) or np.any(p != np.rint(p)) or np.any(np.abs(p) > limit):
                return False
    return True


@dataclass
class Noise:
    """What errors are put into a program: the step for `values_of`.

    Attributes
    ----------
    rng : numpy.random.Generator
    fused : bool
        Whether operations may be fused, so that intermediate results are more exact than their types, or less.
    bias : float
        1 or -1 for errors that all have this sign.
    exact : mapping
        The values without errors, where they are known.
    """

    rng: np.random.Generator
    fused: bool = True
    bias: float = 0.0
    exact: Mapping[Value, Any] | None = None

    def __call__(
        self, instruction: Instruction, kernel: Callable[..., tuple[Any, ...]], operands: list[Any]
    ) -> Sequence[Any]:
        return [
            self._opened(instruction, operands, out)
            for out in self._off_by_rounding(instruction, kernel, operands)
        ]

    def _opened(self, instruction: Instruction, operands: list[Any], out: Any) -> Any:
        """With anything in the places that are known to be open."""
        mask = undetermined(instruction, operands, out)
        if mask is None:
            return out
        array = np.asarray(out)
        if not is_inexact(array):
            return np.where(
                mask, ~array if array.dtype.kind == "b" else array + array.dtype.type(1), array
            )
        anything = np.array([np.nan, np.inf, 0.0])[
            0 if self.bias > 0 else 1 if self.bias < 0 else 2
        ]
        return np.where(mask, np.asarray(anything).astype(array.dtype), array).astype(array.dtype)

    def _off_by_rounding(
        self, instruction: Instruction, kernel: Callable[..., tuple[Any, ...]], operands: list[Any]
    ) -> Sequence[Any]:
        name = instruction.op.name
        if name == "bitcast_convert_type":
            return [self._bits(instruction, operands[0], kernel(*operands)[0])]
        if name == "set_dimension_size":
            return [self._filled(instruction, operands[0], kernel(*operands)[0])]
        if name in EXACT and not (name == "sign" and is_complex(instruction)):
            return kernel(*operands)
        if name in SUMMED and not _integers_only(instruction):
            if name in RING:
                outs = kernel(*operands)
                if _is_small(operands, outs):
                    return [
                        self._off(x, v, 0.0, signs=True)
                        for x, v in zip(outs, instruction.results, strict=True)
                    ]
            given = [
                self._off(x, v, 1.0) for x, v in zip(operands, instruction.operands, strict=True)
            ]
            outs = kernel(*given)
        elif name in (COMPLEX_BY_ARGUMENT if is_complex(instruction) else BY_ARGUMENT):
            given = zip(operands, instruction.operands, strict=True)
            outs = kernel(*[self._off(x, v, 1.0) for x, v in given])
        else:
            outs = kernel(*operands)
        if name in CALLING or (name in RING and _is_small(operands, outs)):
            return outs
        ulps = _ulps(instruction)
        if name in ROUNDED:
            if not self.fused and not is_complex(instruction):
                return outs
            ulps = 1.0
        absolute = name in ABSOLUTE or (name == "atan2" and is_complex(instruction))
        signs = name in SUMMED
        found = [
            self._off(x, v, ulps, absolute, signs)
            for x, v in zip(outs, instruction.results, strict=True)
        ]
        if name == "convert_element_type":
            # What was converted exactly may be converted back.
            return [np.where(_is_kept(operands[0], outs[0]), outs[0], found[0])]
        return found

    def _bits(self, instruction: Instruction, given: Any, made: Any) -> Any:
        """The bits of what is not exact are all open."""
        exact = self.exact.get(instruction.operands[0]) if self.exact is not None else None
        x, array = np.asarray(given), np.asarray(made)
        if exact is None or not is_inexact(x):
            return made
        raw = f"V{x.itemsize}"
        open_ = np.isnan(wide(x)) | np.asarray(x.view(raw) != np.asarray(exact).view(raw))
        if array.ndim < x.ndim:
            open_ = open_.any(axis=-1)
        elif array.ndim > x.ndim:
            open_ = np.broadcast_to(open_[..., None], array.shape)
        every = np.array(array, order="C")
        if array.dtype.kind == "b":
            flipped = ~every
        else:
            bits = as_dtype(array.dtype).bits
            mask = np.uint8((1 << bits) - 1 if bits < 8 else 255)
            flipped = (
                (every.reshape(-1).view(np.uint8) ^ mask).view(array.dtype).reshape(array.shape)
            )
        return np.where(open_, flipped, array)

    def _filled(self, instruction: Instruction, given: Any, made: Any) -> Any:
        """What takes the places of elements that were not held is open."""
        held, array, d = np.asarray(given), np.array(made), instruction.params["dimension"]
        if array.shape[d] > held.shape[d]:
            beyond = array[(slice(None),) * d + (slice(held.shape[d], None),)]
            if is_inexact(array):
                anything = np.nan if self.bias > 0 else np.inf if self.bias < 0 else 0.0
            else:
                anything = float(self.bias > 0)
            beyond[...] = np.asarray(anything).astype(array.dtype)
        return array

    def _off(
        self, array: Any, value: Value, ulps: float, absolute: bool = False, signs: bool = False
    ) -> Any:
        spec = value.spec
        if type(spec) is not TensorSpec or not spec.dtype.inexact:
            return array
        return nudged(
            np.asarray(array),
            spec.dtype,
            ulps,
            self.rng,
            absolute=absolute,
            bias=self.bias,
            signs=signs,
        )


def _ulps(instruction: Instruction) -> float:
    """By how many units in the last place a function may be off."""
    name, spec = instruction.op.name, instruction.results[0].spec
    tables = [ULPS]
    if type(spec) is TensorSpec and spec.dtype.inexact:
        if part(spec.dtype).bits == 64:
            tables.insert(0, DOUBLE_ULPS)
        if spec.dtype.kind == "complex":
            tables.insert(0, COMPLEX_ULPS)
            if spec.dtype.bits == 128:
                tables.insert(0, COMPLEX_DOUBLE_ULPS)
    return next((t[name] for t in tables if name in t), DEFAULT_ULPS)


def _integers_only(instruction: Instruction) -> bool:
    return not any(
        type(v.spec) is TensorSpec and v.spec.dtype.inexact
        for v in (*instruction.operands, *instruction.results)
    )


def _is_kept(given: Any, made: Any) -> Array:
    """Where a conversion lost nothing."""
    x, y = np.asarray(given), np.asarray(made)
    if y.dtype.kind == "c" or x.dtype.kind == "c":
        return np.asarray(x.astype(np.complex128) == y.astype(np.complex128))
    if x.dtype.itemsize == 8 and x.dtype.kind in "iu":
        return np.asarray((y.astype(np.float64) == x) & (np.abs(y.astype(np.float64)) < 2.0**53))
    return np.asarray(x.astype(np.float64) == y.astype(np.float64))


# --- denormals ----------------------------------------------------------------------------------------------------


#: the types whose subnormal numbers XLA takes for zeros on the CPU; the others it computes in wider ones
_FLUSHED = frozenset({"f32", "f64", "bf16"})


def flushed(array: Any) -> Any:
    """Numbers below the normal ones as zeros, as XLA computes on the CPU."""
    if isinstance(array, tuple):
        return tuple(flushed(a) for a in array)
    if array is None:
        return None
    found = np.asarray(array)
    try:
        dtype = as_dtype(found.dtype)
    except Exception:
        return array
    if not dtype.inexact or part(dtype).name not in _FLUSHED:
        return array
    tiny = ml_dtypes.finfo(part(dtype).numpy).smallest_normal
    if dtype.kind == "complex":
        real, imag = flushed(found.real), flushed(found.imag)
        made = np.empty_like(found)
        made.real, made.imag = real, imag
        return made
    small = np.abs(found) < tiny
    return np.where(small, np.copysign(np.zeros((), found.dtype), found), found).astype(found.dtype)


_MOVES = frozenset({
    "bitcast_convert_type", "copy", "stop_gradient", "reshape", "broadcast_in_dim", "transpose", "rev", "slice", "pad",
    "concatenate", "dynamic_slice", "dynamic_update_slice", "gather", "select", "constant", "real", "imag", "complex",
})  # fmt: skip


def flush_step(
    instruction: Instruction, kernel: Callable[..., tuple[Any, ...]], operands: list[Any]
) -> Sequence[Any]:
    """Every operation that computes takes denormals for zeros, and gives zeros for them."""
    if instruction.op.name in _MOVES:
        return kernel(*operands)
    return [flushed(o) for o in kernel(*[flushed(o) for o in operands])]


# --- comparing ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """A result as it should be.

    Attributes
    ----------
    array : array
        The kernels' result.
    tolerance : array
        How far off it may be, in float64; 0 for equality, infinite where nothing is known.
    others : list of arrays
        What is as good: the results with denormals flushed.
    """

    array: Array
    tolerance: Array
    others: tuple[Array, ...] = ()


@dataclass
class Difference:
    """Where two results differ.

    Attributes
    ----------
    text : str
    where : array of bool
    """

    text: str
    where: Array | None = None


def expectation(array: Array, samples: Sequence[Array], others: Sequence[Array] = ()) -> Expected:
    """From the exact result and those with errors."""
    dtype = as_dtype(array.dtype)
    if not dtype.inexact:
        unsure = np.zeros(array.shape, bool)
        for s in samples:
            unsure |= np.asarray(s != array)
        return Expected(array, np.where(unsure, np.inf, 0.0), tuple(others))
    center = wide(array)
    tolerance = np.zeros(array.shape)
    unsure = np.zeros(array.shape, bool)
    with np.errstate(all="ignore"):
        for s in samples:
            other = wide(s)
            for a, b in _parts(center, other):
                both = np.isfinite(a) & np.isfinite(b)
                unsure |= ~both & ~((a == b) | (np.isnan(a) & np.isnan(b)))
                tolerance = np.maximum(tolerance, np.where(both, np.abs(a - b), 0.0))
    tolerance = np.where(unsure, np.inf, tolerance * FACTOR)
    return Expected(array, tolerance, tuple(others))


def _parts(a: Array, b: Array) -> list[tuple[Array, Array]]:
    if a.dtype.kind == "c":
        return [(a.real, b.real), (a.imag, b.imag)]
    return [(a, b)]


def differing(actual: Array, expected: Expected, *, signs: bool = False) -> Array:
    """Where a result is not as expected.

    Parameters
    ----------
    actual : array
    expected : Expected
    signs : bool
        Whether zeros must have the right sign.
    """
    bad = _off(actual, expected.array, expected.tolerance, signs=signs)
    for other in expected.others:
        if bad.any():
            bad &= _off(actual, other, expected.tolerance, signs=signs)
    return bad


def _off(actual: Array, array: Array, tolerance: Array, *, signs: bool) -> Array:
    if not as_dtype(array.dtype).inexact:
        return np.asarray(actual != array) & ~np.isinf(tolerance)
    a, b = wide(actual), wide(array)
    info = ml_dtypes.finfo(part(as_dtype(array.dtype)).numpy)
    # Below the normal numbers units in the last place say nothing.
    least = np.where(tolerance > 0, float(info.smallest_normal), 0.0)
    # What XLA flushes, if only on the way, may as well be zero.
    flushes = part(as_dtype(array.dtype)).name in _FLUSHED
    nothing = 64 * float(info.smallest_normal) if flushes else 0.0
    bad = np.zeros(array.shape, bool)
    with np.errstate(all="ignore"):
        for x, y in _parts(a, b):
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            if signs:
                same &= np.isnan(x) | (np.signbit(x) == np.signbit(y))
            near = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= np.maximum(tolerance, least))
            fine = same | (near & (tolerance > 0)) | np.isinf(tolerance)
            if not signs:
                fine |= (np.abs(x) < nothing) & (np.abs(y) < nothing)
            bad |= ~fine
        if a.dtype.kind == "c" and not signs:
            # Of a complex number that is not finite nobody says which part is infinite and which no number.
            bad &= np.isfinite(a) | np.isfinite(b)
    return bad


def noise_of(
    number: int, seed: int, *, fused: bool = True, exact: Mapping[Value, Any] | None = None
) -> Noise:
    """The errors of one of several runs: first all upwards, then all downwards, then at random."""
    bias = (1.0, -1.0)[number] if number < 2 else 0.0
    return Noise(np.random.default_rng([seed, number]), fused, bias, exact)


def samples_of(
    computation: Computation, arrays: Sequence[Array], seed: int, *, count: int = SAMPLES
) -> list[dict[Value, Any]]:
    """Every value of a program in several runs with errors."""
    found = []
    exact = values_of(computation, arrays, check=False)
    for i in range(count):
        noise: Step = noise_of(i, seed, exact=exact)
        found.append(values_of(computation, arrays, noise, check=False))
    return found


def has_denormals(values: Sequence[Any]) -> bool:
    """Whether anything would be flushed."""
    for value in values:
        if value is None:
            continue
        if isinstance(value, tuple):
            if has_denormals(value):
                return True
            continue
        array = np.asarray(value)
        if array.dtype.kind in "fcV" and array.size:
            other = np.asarray(flushed(array))
            if array.dtype.kind == "V" or array.dtype.kind in "fc":
                with np.errstate(all="ignore"):
                    if np.any((wide(other) == 0) & (wide(array) != 0)):
                        return True
    return False
