"""Cases of fft."""

from __future__ import annotations

from typing import Any

from cases import ErrorCase, OpCase, until

Ints = tuple[int, ...]


def fft(spec: str, kind: str, *lengths: int, **own: Any) -> OpCase:
    """A transform of the last dimensions."""
    own = {"tol": 1e-11, **own}
    if spec.startswith(("c64", "f32")):
        own["xfail"] = until("0.12", {"reference": "computes in 64 bits only, and aborts"})
    elif kind == "IRFFT" and lengths[-1] < 2:
        own["xfail"] = {"reference": "aborts of a signal of one element, or none"}
    elif kind == "IRFFT" and lengths[-1] % 2:
        own["xfail"] = {"reference": "mirrors the frequencies of an odd size wrongly"}
    params = {"fft_type": kind, "fft_length": lengths}
    return OpCase("fft", [spec], params, name=f"{kind}_{spec}_{lengths}", **own)


CASES: list[OpCase] = [
    *[
        case
        for kind in ("FFT", "IFFT")
        for case in (
            fft("c128[8]", kind, 8),
            fft("c128[3,5]", kind, 5),
            fft("c128[2,3,4]", kind, 3, 4),
            fft("c128[2,3,2,5]", kind, 3, 2, 5),
            fft("c128[1]", kind, 1),
            fft("c64[12]", kind, 12, tol=1e-5, order=1),
            fft("c128[0]", kind, 0, order=0),
            fft("c128[0,4]", kind, 4, order=0),
        )
    ],
    fft("f64[8]", "RFFT", 8),
    fft("f64[3,5]", "RFFT", 5),
    fft("f64[2,3,4]", "RFFT", 3, 4),
    fft("f64[2,3,2,5]", "RFFT", 3, 2, 5),
    fft("f64[1]", "RFFT", 1),
    fft("f64[2]", "RFFT", 2),
    fft("f32[12]", "RFFT", 12, tol=1e-5, order=1),
    fft("f64[2,0]", "RFFT", 0, order=0),
    fft("f64[0,4]", "RFFT", 4, order=0),
    fft("c128[5]", "IRFFT", 8),
    fft("c128[3,3]", "IRFFT", 5),
    fft("c128[2,3,3]", "IRFFT", 3, 4),
    fft("c128[2,4,2,3]", "IRFFT", 4, 2, 5),
    fft("c128[1]", "IRFFT", 1),
    fft("c128[2]", "IRFFT", 2),
    fft("c64[7]", "IRFFT", 12, tol=1e-5, order=1),
    fft("c128[0]", "IRFFT", 0, order=0),
    fft("c128[0,3]", "IRFFT", 4, order=0),
]


def error(label: str, spec: str, kind: str, *lengths: int, match: str = "") -> ErrorCase:
    """A wrong transform."""
    return ErrorCase("fft", [spec], {"fft_type": kind, "fft_length": lengths}, label, match)


ERRORS: list[ErrorCase] = [
    error("I1", "token[]", "FFT", 4),
    error("I2", "c64[4]", "DCT", 4),
    error("C1", "c64[4]", "FFT", 1, 4),
    error("C2", "f32[4]", "FFT", 4),
    error("C2", "c64[4]", "RFFT", 4),
    error("C2", "f16[4]", "RFFT", 4),
    error("C2", "f32[3]", "IRFFT", 4),
    error("C3", "c64[4]", "FFT"),
    error("C3", "c64[1,1,1,4]", "FFT", 1, 1, 1, 4),
    error("C4", "f32[4]", "RFFT", 5),
    error("C5", "c64[4]", "IRFFT", 4),
    error("C5", "c64[2,3]", "IRFFT", 3, 4),
    error("X1", "c64[<=4]", "FFT", 4),
    error("X1", "c64[?]", "FFT", 4),
    error("X2", "c64[4]", "FFT", 3, match="length"),
]
