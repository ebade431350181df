"""Where windows lie on an array: what pooling operations share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np

from xlapy.specs import DYNAMIC, TensorSpec, as_ints, require
from xlapy.trace.codecs import I64_ARRAY, I64_MATRIX
from xlapy.trace.computation import Computation, Value
from xlapy.trace.stablehlo import Writer

from .convolution import window_count
from .joining import kernel_pad

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

#: the parameters of a window that is not dilated, as attributes
WINDOW_CODECS: Final = {
    "window_dimensions": I64_ARRAY,
    "window_strides": I64_ARRAY,
    "padding": I64_MATRIX,
}


@final
class Window(NamedTuple):
    """A window that moves over an array, in every dimension.

    Attributes
    ----------
    sizes, strides, base_dilations, window_dilations : tuple of int
    padding : tuple of pairs of int
        How far the window reaches beyond each end; negative where it stays back from it.
    """

    sizes: Ints
    strides: Ints
    base_dilations: Ints
    window_dilations: Ints
    padding: Pairs

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Window:
        """From the parameters of an operation; dilations may be missing."""
        ones = (1,) * len(params["window_dimensions"])
        return cls(
            params["window_dimensions"],
            params["window_strides"],
            params.get("base_dilations", ones),
            params.get("window_dilations", ones),
            params["padding"],
        )

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of reduce_window."""
        return {
            "window_dimensions": self.sizes,
            "window_strides": self.strides,
            "base_dilations": self.base_dilations,
            "window_dilations": self.window_dilations,
            "padding": self.padding,
        }

    @property
    def interior(self) -> Ints:
        """The padding between elements that dilates the array."""
        return tuple(d - 1 for d in self.base_dilations)

    @property
    def low(self) -> Ints:
        """The padding before the first elements."""
        return tuple(p[0] for p in self.padding)

    @property
    def high(self) -> Ints:
        """The padding behind the last elements."""
        return tuple(p[1] for p in self.padding)

    def counts(self, shape: Sequence[int]) -> Ints:
        """How many places the window has on an array (C15); unknown along sizes that are."""
        return tuple(
            n if n is DYNAMIC else window_count(n, *each)
            for n, *each in zip(
                shape,
                self.sizes,
                self.strides,
                self.padding,
                self.base_dilations,
                self.window_dilations,
                strict=True,
            )
        )

    def offsets(self) -> Iterator[Ints]:
        """Each element of the window, the last dimension fastest."""
        return itertools.product(*map(range, self.sizes))

    def slices(self, offset: Ints, counts: Ints) -> tuple[Any, ...]:
        """Where the element at an offset lies in the padded array, for all places of the window."""
        places = tuple(
            slice(k * d, k * d + (m - 1) * s + 1 if m else k * d, s)
            for k, d, s, m in zip(offset, self.window_dilations, self.strides, counts, strict=True)
        )
        return (*places, ...)  # a view even if there is no dimension

    def padded(self, x: Array, fill: Any) -> Array:
        """The array with its padding and holes filled."""
        if not any((*self.low, *self.high, *self.interior)):
            return x
        return kernel_pad(
            x,
            fill,
            edge_padding_low=self.low,
            edge_padding_high=self.high,
            interior_padding=self.interior,
            out=TensorSpec(x.shape, x.dtype),
        )

    @property
    def has_padding(self) -> bool:
        """Whether a window may hold anything else than elements of the array."""
        return any(i > 0 for i in (*self.low, *self.high, *self.interior))

    def is_element(self, shape: Sequence[int]) -> Array:
        """For each place in the padded array whether an element lies there."""
        return self.padded(np.ones(tuple(shape), np.bool_), False)

    def widened(self) -> Window:
        """The window of size 1 along a new dimension in front."""
        return Window(
            (1, *self.sizes), (1, *self.strides), (1, *self.base_dilations),
            (1, *self.window_dilations), ((0, 0), *self.padding),
        )  # fmt: skip


def require_window(
    params: Mapping[str, Any], rank: int, labels: Mapping[str, tuple[str, str]]
) -> Window:
    """Every parameter has an entry for each dimension, and all but the padding are positive.

    `labels` has for each parameter the labels of its length and of its sign; the padding's second one is not used.
    """
    for name, (length, positive) in labels.items():
        values = params[name]
        require(
            type(values) is tuple and len(values) == rank,
            length,
            f"{name} must have {rank} entries",
            values,
        )
        if name == "padding":
            pairs = all(
                type(p) is tuple and len(p) == 2 and all(type(e) is int for e in p) for p in values
            )
            require(pairs, length, f"padding must be {rank} pairs of integers", values)
        else:
            require(
                all(type(v) is int and v > 0 for v in values),
                positive,
                f"{name} must be positive",
                values,
            )
    window = Window.of(params)
    require(
        all(abs(n) < 1 << 31 for p in window.padding for n in p)
        and math.prod(window.sizes) < 1 << 31,
        "X1",
        "windows and padding must be smaller than 2**31",
        (window.sizes, window.padding),
    )
    return window


def with_defaults(params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What is left out in a text: strides and dilations of 1, no padding."""
    rank = len(params["window_dimensions"])
    for name in names:
        if not params[name]:
            params[name] = ((0, 0),) * rank if name == "padding" else (1,) * rank
    return params


def as_window(
    shape: Sequence[int],
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilations: Any = None,
    window_dilations: Any = None,
) -> Window:
    """A window from what a user gave: single numbers count for every dimension, and padding may be a word."""
    rank = len(shape)

    def each(values: Any, name: str) -> Ints:
        if values is None:
            return (1,) * rank
        found = as_ints(values, name, "X1")
        return found * rank if isinstance(values, int) else found

    sizes, strides = (
        each(window_dimensions, "window_dimensions"),
        each(window_strides, "window_strides"),
    )
    base, holes = each(base_dilations, "base_dilations"), each(window_dilations, "window_dilations")
    if isinstance(padding, str):
        pairs = _pairs_of(padding, shape, sizes, strides, base, holes)
    elif isinstance(padding, int):
        pairs = ((padding, padding),) * rank
    else:
        pairs = tuple(_pair(p) for p in padding)
    return Window(sizes, strides, base, holes, pairs)


def _pair(entry: Any) -> tuple[int, int]:
    pair = as_ints(entry, "padding", "X1")
    require(len(pair) == 2, "X1", "padding must be pairs of numbers", entry)
    return pair[0], pair[1]


def _pairs_of(
    word: str, shape: Sequence[int], sizes: Ints, strides: Ints, base: Ints, holes: Ints
) -> Pairs:
    """kValid: none. kSame: so many places as elements, divided by the stride; the odd one at the end."""
    name = word.upper().removeprefix("K")
    require(name in ("SAME", "VALID"), "X1", "padding must be 'kSame', 'kValid' or pairs", word)
    if name == "VALID":
        return ((0, 0),) * len(shape)
    pairs = []
    for n, w, s, b, d in zip(shape, sizes, strides, base, holes):
        if n is DYNAMIC and w == s == 1:
            pairs.append((0, 0))
            continue
        length = (n - 1) * b + 1 if n > 0 else 0
        total = 0
        if s > 0:
            total = max(0, (-(-length // s) - 1) * s + (w - 1) * d + 1 - length)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


def write_inline(writer: Writer, instruction: Any, region: str, operands: Sequence[Value]) -> None:
    """Write the computation of a parameter in the instruction's place."""
    body: Computation = instruction.params[region]
    given = [writer.names[v] for v in operands]
    writer.names.update(zip(body.parameters, given, strict=True))
    writer.body(body)
    for value, result in zip(instruction.results, body.results, strict=True):
        writer.names[value] = writer.names[result]
