"""What is known to be open, or to differ between the kernels and XLA: narrow conditions, each with its reason.

The elements that a condition names are taken for anything (see `fuzzing.rounding`), and so is what is computed of them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Instruction, subcomputations

from .evaluation import Body
from .programs import Program, all_instructions, names_in
from .values import Array

#: sums and the like, whose order is open
SUMMED = frozenset({
    "dot_general", "reduce", "reduce_window", "convolution", "scatter", "select_and_scatter", "fft", "cholesky",
    "triangular_solve", "batch_norm_training", "batch_norm_inference", "batch_norm_grad", "dynamic_conv", "ragged_dot",
    "scaled_dot", "scan",
})  # fmt: skip
_BODIES = ("body", "update_computation", "scatter")
#: in computations of reductions these make the order no matter
_ORDERLESS = frozenset({"max", "min", "and", "or", "xor", "select", "compare", "constant"})


@dataclass(frozen=True)
class KnownDifference:
    """One of them.

    Attributes
    ----------
    operations : set of str
        The operations that it may be of; None for all.
    where : callable
        ``where(instruction, operands, result)``: an array of bool for the elements of a result, or None.
    reason : str
    """

    operations: Set[str] | None
    where: Callable[[Instruction, Sequence[Any], Array], Array | None]
    reason: str


def wide(array: Any) -> Array:
    """In double precision."""
    found = np.asarray(array)
    return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)


def is_inexact(array: Any) -> bool:
    """Whether an array holds floats or complex numbers."""
    if array is None or isinstance(array, tuple):  # a token is None
        return False
    dtype = np.asarray(array).dtype
    return dtype.kind not in "biu" and as_dtype(dtype).inexact


def is_complex(instruction: Instruction) -> bool:
    """Whether an operand is complex."""
    specs = [v.spec for v in instruction.operands]
    return any(type(s) is TensorSpec and s.dtype.kind == "complex" for s in specs)


def _adds(instruction: Instruction) -> bool:
    bodies = [instruction.params[b] for b in _BODIES if b in instruction.params]
    return not bodies or not {n for b in bodies for n in names_in(b)} <= _ORDERLESS


def _lost_sums(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    return ~np.isfinite(wide(result)) if is_inexact(result) and _adds(instruction) else None


#: operations on complex numbers that only move parts
_MOVED = frozenset({
    "real", "imag", "conj", "neg", "select", "reshape", "transpose", "rev", "slice", "pad", "concatenate", "copy",
    "broadcast_in_dim", "gather", "dynamic_slice", "dynamic_update_slice", "complex", "bitcast_convert_type", "tuple",
    "get_tuple_element", "optimization_barrier", "stop_gradient", "sort", "bitcast", "domain",
})  # fmt: skip


def _lost_complex(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    name = instruction.op.name
    if name in _MOVED or not is_complex(instruction) or not is_inexact(result):
        return None
    lost = ~np.isfinite(wide(result))
    if name in ("add", "sub", "abs"):
        return lost
    for x in operands:
        # The square of the absolute value overflows or underflows on the way.
        if np.shape(x) == result.shape and np.asarray(x).dtype.kind == "c":
            info = np.finfo(np.asarray(x).real.dtype)
            size = np.abs(wide(x))
            large, small = np.sqrt(float(info.max)) / 8, 8 * np.sqrt(float(info.smallest_normal))
            lost |= (size > large) | ((size < small) & (size > 0))
    return lost


def _solved(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    if all(np.isfinite(wide(x)).all() for x in operands):
        return None
    return np.ones(result.shape, bool)


def _grouped(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    params = instruction.params
    groups = params.get("batch_group_count", 1), params.get("feature_group_count", 1)
    if groups == (1, 1):
        return None
    if not is_inexact(result) or all(np.isfinite(wide(x)).all() for x in operands[:2]):
        return None
    return np.ones(result.shape, bool)


def _tiny_angle(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    info = ml_dtypes.finfo(as_dtype(result.dtype).real_part.numpy)
    tiny = float(info.smallest_normal)
    small = [np.abs(wide(x)) < tiny for x in operands]
    return np.asarray(small[0] & small[1] & ((wide(operands[0]) != 0) | (wide(operands[1]) != 0)))


def _no_order(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    if not is_inexact(operands[0]):
        return None
    return np.ones(result.shape, bool) if np.isnan(wide(operands[0])).any() else None


def _tiny_gamma(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    name = instruction.op.name
    info = ml_dtypes.finfo(as_dtype(result.dtype).numpy)
    tiny = np.asarray(np.abs(wide(operands[-1])) < float(info.smallest_normal))
    if name != "polygamma":
        return tiny
    order = np.abs(wide(operands[0]))
    return np.asarray((tiny & (order == 0)) | ((order > 0) & (order < float(info.smallest_normal))))


#: functions that XLA computes alike on both sides of a branch cut, whatever the sign of the zero says
_CUT = frozenset({"asin", "acos", "atan", "asinh", "acosh", "atanh"})


def _on_a_cut(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    if not is_complex(instruction):
        return None
    z = wide(operands[0])
    return np.asarray((z.real == 0) | (z.imag == 0))


def _lost_zeta(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    order, q = wide(operands[0]), wide(operands[1])
    info = np.finfo(np.float64 if result.dtype == np.float64 else np.float32)
    # The first term, q^-order, is nothing in this type, or too large for it.
    size = np.abs(np.log(np.where(q == 0, 1.0, np.abs(q))))
    lost = (size * (order + 1) > -np.log(float(info.smallest_normal))) | np.isposinf(order)
    if instruction.op.name == "polygamma":
        lost |= order > (169 if result.dtype == np.float64 else 33)
    return np.asarray(lost)


def _lost_product(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    info = np.finfo(np.float64 if result.dtype == np.float64 else np.float32)
    small = [x[x != 0] for x in (np.abs(wide(o)) for o in operands)]
    least = [float(x.min()) if x.size else 1.0 for x in small]
    # Operand, scale, operand, scale: one of the products that are added up is flushed to zero.
    nothing = min(least[0] * least[1], least[2] * least[3], np.prod(least)) < float(
        info.smallest_normal
    )
    return np.ones(result.shape, bool) if nothing else None


def _tied(instruction: Instruction, operands: Sequence[Any], result: Array) -> Array | None:
    if result.ndim < 2:
        return None
    x, source, init = (np.asarray(o) for o in operands)
    if not x.size or not source.size or np.unique(x.reshape(-1).astype(np.float64)).size == x.size:
        return None
    op, params = instruction.op, dict(instruction.params)
    calls = {k: Body(params.pop(k)) for k in ("select", "scatter")}
    spec: Any = instruction.results[0].spec
    found = np.zeros(result.shape, bool)
    exact = op.kernel(x, source, init, out=spec, **params, **calls)
    for order in itertools.permutations(range(result.ndim)):
        turned = {k: tuple(v[d] for d in order) for k, v in params.items()}
        shape = spec.with_shape(tuple(spec.shape[d] for d in order))
        moved = [np.ascontiguousarray(a.transpose(order)) for a in (x, source)]
        other = op.kernel(*moved, init, out=shape, **turned, **calls)
        found |= np.asarray(other).transpose(np.argsort(order)) != exact
    return found


KNOWN: list[KnownDifference] = [
    KnownDifference(
        SUMMED,
        _lost_sums,
        "whether a sum is infinite or no number depends on its order, as does padding by 0",
    ),
    KnownDifference(
        None,
        _lost_complex,
        "which part of a complex number is infinite and which no number is open, and what overflows on the"
        " way too",
    ),
    KnownDifference(
        {"triangular_solve"},
        _solved,
        "XLA solves by inverses of blocks, so what is no number spreads within them",
    ),
    KnownDifference(
        {"convolution", "dynamic_conv"},
        _grouped,
        "XLA multiplies what is of other groups by zero, so what is no number spreads",
    ),
    KnownDifference(
        {"select_and_scatter"},
        _no_order,
        "which element is selected beside one that is no number depends on their order",
    ),
    KnownDifference(
        {"select_and_scatter"},
        _tied,
        "XLA goes through a window in an order of its own, which shows where elements tie",
    ),
    KnownDifference(
        {"lgamma", "digamma", "polygamma"},
        _tiny_gamma,
        "XLA flushes denormals, and jaxlib takes the digamma of zero for nan before 0.11 and for -inf since",
    ),
    KnownDifference(
        {"scaled_dot"},
        _lost_product,
        "XLA flushes denormals, within what is one operation for the kernels",
    ),
    KnownDifference({"atan2"}, _tiny_angle, "XLA flushes denormals, and divides 0 by 0 then"),
    KnownDifference(_CUT, _on_a_cut, "XLA does not ask zeros for their sign at branch cuts"),
    KnownDifference(
        {"zeta", "polygamma"},
        _lost_zeta,
        "XLA multiplies a factorial that overflows by a power that underflows",
    ),
]


@functools.cache
def _known_of(operation: str) -> list[KnownDifference]:
    return [k for k in KNOWN if k.operations is None or operation in k.operations]


def undetermined(instruction: Instruction, operands: Sequence[Any], result: Any) -> Array | None:
    """Which elements of a result are known to be open; None for none."""
    if result is None or isinstance(result, tuple):
        return None
    array = np.asarray(result)
    found: Array | None = None
    for known in _known_of(instruction.op.name):
        mask = known.where(instruction, operands, array)
        if mask is not None and mask.any():
            found = mask if found is None else found | mask
    return found


#: what has no form in HLO, or none that XLA reads again
NOT_IN_HLO = (
    # Of dynamic operations, without a backend that composes them.
    "can't be translated to XLA HLO",
    # XLA refuses to read the largest number of c64 as it writes it.
    "is out of range for literal's primitive type C64",
    # XLA converts all algorithms of products but one to StableHLO.
    "which jaxlib does not convert to StableHLO",
)

#: what XLA refuses to compile
NOT_COMPILED = (
    # Products that it takes for elementwise ones, such as outer products, have no algorithms on the CPU.
    "Algorithm not supported by the ElementalIrEmitter",
)

#: operations that are read as something else than what was written, with the same values
WRITTEN_OTHERWISE = {
    "fusion": "it is written as what it is made of",
    "bitcast": "it is written as what it is made of",
    "domain": "it is written as nothing",
    "stop_gradient": "it is written as nothing",
    "set_dimension_size": "programs are read with the size as a constant",
    "case": "constants that branches use are read as constants in them",
    "while": "constants that loops use are read as constants in them",
}


def is_written_otherwise(program: Program) -> bool:
    """Whether the text of a program that was read may be another one.

    A computation that several operations have is written once for all of them, and read as one of each.
    """
    bodies = [
        body
        for instruction in all_instructions(program.computation)
        for body in subcomputations(instruction.params)
    ]
    return bool(program.op_names & set(WRITTEN_OTHERWISE)) or len(set(bodies)) < len(bodies)
