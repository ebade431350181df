"""Quantised element types: integers that stand for floats, ``(q - zero_point) * scale``."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import Final, final

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import UnsupportedOpError, XlapyError
from xlapy.specs import require

__all__ = ["QuantizedType", "parse_quantized"]

_STORAGE: Final = re.compile(r"([iu])(2|4|8|16|32)(?:<(-?\d+):(-?\d+)>)?$")
_LEVEL: Final = re.compile(r"([^:]+)(?::(-?\d+))?$")


@final
@dataclass(frozen=True, slots=True)
class QuantizedType:
    """What the elements of a quantised tensor stand for.

    Attributes
    ----------
    storage, expressed : DType
        The integers that are held, and the floats they stand for.
    minimum, maximum : int
        The least and greatest integer.
    scales, zero_points : tuple
        One each for the whole tensor, or one for each index along `axis`.
    axis : int, optional
        The dimension that the scales are along.
    """

    storage: DType
    expressed: DType
    minimum: int
    maximum: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None

    def __str__(self) -> str:
        """One text for one type: MLIR compares types by it."""
        kind = "i" if self.storage.kind == "int" else "u"
        held = f"{kind}{self.storage.bits}<{self.minimum}:{self.maximum}>:{self.expressed.mlir}"
        levels = [f"{s!r}:{z}" for s, z in zip(self.scales, self.zero_points, strict=True)]
        if self.axis is None:
            return f"quant.uniform<{held}, {levels[0]}>"
        return f"quant.uniform<{held}:{self.axis}, {{{', '.join(levels)}}}>"


@functools.lru_cache(maxsize=1024)
def parse_quantized(text: str) -> QuantizedType:
    """The type that ``quant.uniform<i8:f32, 0.1:-30>`` stands for, in any spelling of the ``quant`` dialect.

    Raises
    ------
    UnsupportedOpError
        For types of that dialect other than of one scale for the tensor or for each index along one dimension.
    """
    body = re.sub(r"\s", "", text)
    if not body.startswith("quant.uniform<") or ":{" in body:
        raise UnsupportedOpError(
            "quantised types must be uniform, with one scale for the tensor or for each index along one dimension;"
            f" got !{text} [X6]"
        )
    head, _, levels = body[len("quant.uniform<") : -1].partition(",")
    # The bounds are the only colons in angle brackets.
    parts = re.findall(r"[^:<]+(?:<[^>]*>)?", head)
    held = _STORAGE.match(parts[0])
    try:
        if held is None or len(parts) not in (2, 3):
            raise ValueError
        kind, bits, low, high = held.groups()
        storage = as_dtype(("s" if kind == "i" else "u") + bits)
        expressed = as_dtype(parts[1])
        axis = int(parts[2]) if len(parts) == 3 else None
        if (axis is None) == levels.startswith("{") or expressed.kind != "float":
            raise ValueError
        found = [_LEVEL.match(level) for level in levels.strip("{}").split(",")]
        scales = tuple([float(m.group(1)) for m in found if m])
        zero_points = tuple([int(m.group(2) or 0) for m in found if m])
        if len(scales) != len(found):
            raise ValueError
    except (ValueError, XlapyError):
        raise UnsupportedOpError(
            f"a quantised type must be of integers of 2, 4, 8, 16 or 32 bits and of floats; got !{text} [X6]"
        ) from None
    least, most = (-(1 << storage.bits - 1), (1 << storage.bits - 1) - 1)
    if kind == "u":
        least, most = 0, (1 << storage.bits) - 1
    minimum, maximum = (int(low), int(high)) if low is not None else (least, most)
    require(
        least <= minimum < maximum <= most,
        "C3",
        "the bounds of a quantised type must be values of its integers",
        f"!{text}",
    )
    require(
        all(math.isfinite(s) and s > 0 for s in scales),
        "C6",
        "the scales of a quantised type must be positive and finite",
        f"!{text}",
    )
    require(
        all(minimum <= z <= maximum for z in zero_points),
        "C8",
        "the zero points of a quantised type must lie within its bounds",
        f"!{text}",
    )
    return QuantizedType(storage, expressed, minimum, maximum, scales, zero_points, axis)
