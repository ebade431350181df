"""Programs of every kind, small, with the arguments that they are compiled for: what HLO is read from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xlapy
from xlapy import Tensor

Array = np.ndarray[Any, Any]

#: XLA sums in another order than numpy, eight or sixteen lanes at a time, and its exp, tanh and the like are exact to a
#: few units of the last place only. The longest sums here have some hundred terms of f32, whose unit is 6e-8: what is
#: seen is at most 3e-6 of the largest value of a result.
SUMS = 1e-5
#: Values that were rounded to bf16 on the way, where a difference in f32 may round to the neighbour: one unit, 2**-8.
BF16 = 2.0**-8
#: The same of f16.
F16 = 2.0**-11
#: XLA's lgamma cancels near 1 and 2, and a remainder or an inverse multiplies what its operand differs by.
ILL_CONDITIONED = 5e-5


@dataclass(frozen=True)
class Program:
    """A function and the arguments that it is compiled for.

    Attributes
    ----------
    function : callable
    arguments : sequence
        Numpy arrays in containers.
    tolerance : float
        Relative to the largest value of a result; 0 is bit-equality.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    tolerance: float = SUMS


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Numbers around 0."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def whole(*shape: int, low: int = 0, high: int = 10, seed: int = 0, dtype: Any = np.int32) -> Array:
    """Integers in a range."""
    return np.random.default_rng(seed).integers(low, high, size=shape).astype(dtype)


def leaves(x: Any) -> list[Array]:
    """The arrays in a container of tensors."""
    return [np.asarray(v.numpy() if isinstance(v, Tensor) else v) for v in xlapy.tree.flatten(x)[0]]
