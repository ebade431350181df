"""Fft: discrete Fourier transforms over the last one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_ints,
    as_word,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64_ARRAY, Enum
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register

from .rules import linear, zeros_of

__all__ = ["fft", "fft_op"]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

TYPES: Final = ("FFT", "IFFT", "RFFT", "IRFFT")
_COMPLEX: Final = {"f32": "c64", "f64": "c128"}


def half(n: int) -> int:
    """How many of n frequencies a real signal leaves open."""
    return n // 2 + 1 if n else 0


def infer_fft(x: TensorSpec, *, fft_type: str, fft_length: Ints) -> TensorSpec:
    """C1 to C5."""
    require_array(x, "I1")
    require(fft_type in TYPES, "I2", f"fft_type must be one of {', '.join(TYPES)}", fft_type)
    count = len(fft_length)
    require(1 <= count <= 3, "C3", "fft_length must have one to three entries", fft_length)
    require_shape(x.rank >= count, "C1", f"the operand must have {count} dimensions at least", x)
    kinds = ("f32", "f64") if fft_type == "RFFT" else ("c64", "c128")
    require_dtype(
        x.dtype.name in kinds,
        "C2",
        f"the operand of {fft_type} must be {kinds[0]} or {kinds[1]}",
        x,
    )
    last = x.shape[x.rank - count :]
    require_shape(
        all(x.rank - count + i not in x.dynamic and n is not DYNAMIC for i, n in enumerate(last)),
        "X1",
        "the transformed dimensions must have known sizes",
        x,
    )
    wanted = fft_length
    label = "X2"  # XLA computes nonsense then
    if fft_type == "IRFFT":
        wanted, label = (*fft_length[:-1], half(fft_length[-1])), "C5"
    elif fft_type == "RFFT":
        label = "C4"
    require_shape(
        last == wanted and all(n >= 0 for n in fft_length),
        label,
        f"the last dimensions must be {wanted} for {fft_type} of length {fft_length}",
        x,
    )
    if fft_type == "RFFT":
        shape = (*x.shape[:-1], half(fft_length[-1]))
        return TensorSpec(shape, _COMPLEX[x.dtype.name], x.dynamic)
    if fft_type == "IRFFT":
        return TensorSpec((*x.shape[:-1], fft_length[-1]), x.dtype.real_part, x.dynamic)
    return x


def kernel_fft(x: Array, *, fft_type: str, fft_length: Ints, out: TensorSpec) -> Array:
    """FFT: sum over n of x[n] * exp(-2 pi i k n / N); IFFT: its inverse; RFFT, IRFFT: those of real signals."""
    axes = tuple(range(x.ndim - len(fft_length), x.ndim))
    if 0 in fft_length or 0 in x.shape:
        last = {"RFFT": half(fft_length[-1]), "IRFFT": fft_length[-1]}
        return np.zeros((*x.shape[:-1], last.get(fft_type, x.shape[-1])), out.dtype.numpy)
    functions: dict[str, Any] = {
        "FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn,
    }  # fmt: skip
    found: Array = functions[fft_type](x, fft_length, axes)
    return found


# --- derivative -----------------------------------------------------------------------------------


def transpose_fft(g: Any, x: Any, *, fft_type: str, fft_length: Ints) -> Any:
    """The matrices of FFT and IFFT are symmetric; those of real signals leave out mirrored frequencies."""
    if fft_type in ("FFT", "IFFT"):
        return bind(fft_op, g, fft_type=fft_type, fft_length=fft_length)
    n = fft_length[-1]
    if fft_type == "RFFT":
        # The frequencies left out have no cotangent, and the signal no imaginary part.
        spec = g.spec
        zero = (0,) * spec.rank
        whole = bind(
            lookup("pad"),
            g,
            zeros_of(TensorSpec((), spec.dtype)),
            edge_padding_low=zero,
            edge_padding_high=(*zero[1:], n - half(n)),
            interior_padding=zero,
        )
        return bind(lookup("real"), bind(fft_op, whole, fft_type="FFT", fft_length=fft_length))
    # A frequency that has a mirror image counts twice: not the first, and not the middle one.
    found = bind(fft_op, g, fft_type="RFFT", fft_length=fft_length)
    spec = found.spec
    size = math.prod(fft_length)
    counts = np.full(half(n), 2.0 / size if size else 0.0)
    counts[:1] /= 2
    if n % 2 == 0:
        counts[-1:] = counts[:1]
    weights = bind(
        lookup("constant"),
        value=np.broadcast_to(counts.astype(spec.dtype.numpy), spec.shape),
    )
    return bind(lookup("mul"), bind(lookup("conj"), found), weights)


fft_op: Op = register(Op(
    name="fft",
    section="Fft",
    infer=infer_fft,
    hlo=Hlo("stablehlo.fft", {"fft_type": Enum("fft_type"), "fft_length": I64_ARRAY}),
    kernel=kernel_fft,
    ad=linear(transpose_fft),
    batch=lambda op, args, is_batched, size, **params: bind(op, *args, **params),
))  # fmt: skip


def fft(operand: Any, fft_type: str, fft_length: int | Sequence[int] | None = None) -> Tensor:
    """The discrete Fourier transform of the last dimensions.

    Parameters
    ----------
    operand : array
        Of kind complex; for ``"RFFT"`` of f32 or f64.
    fft_type : str
        ``"FFT"``, its inverse ``"IFFT"``, ``"RFFT"``, which gives the first half of the frequencies of a real signal,
        or ``"IRFFT"``, which takes them.
    fft_length : int or sequence of int, optional
        The sizes of the signal along the transformed dimensions, one to three; by default that of the last dimension,
        for ``"IRFFT"`` an even size.

    Returns
    -------
    Tensor
        Of the same shape, but the last dimension is ``fft_length[-1] // 2 + 1`` after ``"RFFT"``, and
        ``fft_length[-1]`` after ``"IRFFT"``.

    Raises
    ------
    ConstraintError
        [I2] For another `fft_type`; [C3] unless there are one to three lengths.
    DTypeError
        [I1], [C2] If the operand has another element type.
    ShapeError
        [C1], [C4], [C5], [X2] If the operand's dimensions are not those that `fft_length` says.

    Notes
    -----
    Section Fft of the operation semantics; ``stablehlo.fft``. The inverses divide by the number of elements. ``IRFFT``
    does not read imaginary parts that a real signal can not have.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.fft(ops.constant([1.0, 0.0, 0.0, 0.0]), "RFFT")
    Tensor([1.+0.j, 1.+0.j, 1.+0.j], c64[3])
    """
    x = lift(operand)
    kind = as_word(fft_type)
    if fft_length is None:
        require_array(x.spec, "I1")
        require_shape(x.ndim >= 1, "C1", "the operand must have a dimension", x.spec)
        n = x.shape[-1]
        lengths: Ints = (max(0, 2 * (n - 1)),) if kind == "IRFFT" else (n,)
    else:
        lengths = as_ints(fft_length, "fft_length", "C3")
    result: Tensor = bind(fft_op, x, fft_type=kind, fft_length=lengths)
    return result
