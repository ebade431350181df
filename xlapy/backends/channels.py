"""Channels for XLA, which keeps by a channel's number what it knows of it, such as how the data lie in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from xlapy.backends.region_limits import MEETINGS
from xlapy.trace.computation import Computation, Instruction, subcomputations, with_params

__all__ = ["with_own_channels"]


def with_own_channels(computation: Computation) -> Computation:
    """The computation with a channel for each collective that has one: all devices run the same instructions.

    Where two have the same, XLA would take their arrays for arrays of one rank and refuse them.
    """
    given = list(_channels(computation, set()))
    if len(set(given)) == len(given):
        return computation
    numbers = itertools.count(1)

    def renumber(instruction: Instruction) -> Mapping[str, Any]:
        params = instruction.params
        if instruction.op.name in MEETINGS and params["channel_id"] > 0:
            return {**params, "channel_id": next(numbers)}
        return params

    return with_params(computation, renumber)


def _channels(computation: Computation, seen: set[Computation]) -> Iterator[int]:
    """The channels of the collectives."""
    if computation in seen:
        return
    seen.add(computation)
    for instruction in computation.instructions:
        if instruction.op.name in MEETINGS and instruction.params["channel_id"] > 0:
            yield instruction.params["channel_id"]
        for inner in subcomputations(instruction.params):
            yield from _channels(inner, seen)
