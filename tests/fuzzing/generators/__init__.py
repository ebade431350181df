"""What random programs are made of, one module for each group of operations.

A generator for a new operation is one function with the decorator `generates` in one of these modules.
"""

from __future__ import annotations

from . import (
    arithmetic,
    contraction,
    control_flow,
    indexed,
    indexing,
    linear_algebra,
    movement,
    one_device,
    reduction,
    transformations,
    varying_sizes,
    windows,
)
from .table import GENERATORS, WITHOUT, Generator

__all__ = [
    "GENERATORS",
    "WITHOUT",
    "Generator",
    "arithmetic",
    "contraction",
    "control_flow",
    "indexed",
    "indexing",
    "linear_algebra",
    "movement",
    "one_device",
    "reduction",
    "transformations",
    "varying_sizes",
    "windows",
]
