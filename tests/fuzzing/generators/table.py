"""The table of generators: for each operation a function that records it into a draft with random parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzzing.draft import Draft

Generate = Callable[[Draft, str], Any]


@dataclass(frozen=True)
class Generator:
    """How an operation is drawn.

    Attributes
    ----------
    function : callable
        ``function(draft, name)`` records the operation of that name, on tensors of the draft.
    weight : float
        How often, beside the others.
    scalar : bool
        Whether it can be drawn where there are only scalars.
    """

    function: Generate
    weight: float
    scalar: bool


#: by the name of the operation, or of what is composed of several
GENERATORS: dict[str, Generator] = {}


def generates(
    *names: str, weight: float = 1.0, scalar: bool = False
) -> Callable[[Generate], Generate]:
    """Register a function as the generator of operations."""

    def add(function: Generate) -> Generate:
        for name in names:
            assert name not in GENERATORS, name
            GENERATORS[name] = Generator(function, weight, scalar)
        return function

    return add


#: operations that no program here has, and why
WITHOUT = {
    "async_start": "its state is no array; read from HLO in tests/interchange/test_hlo.py",
    "async_update": "its state is no array; read from HLO in tests/interchange/test_hlo.py",
    "async_done": "its state is no array; read from HLO in tests/interchange/test_hlo.py",
    "rng_get_and_update_state": "no two runs agree",
    "rng_uniform": "no two runs agree",
    "rng_normal": "no two runs agree",
    "custom_call": "what it computes is not known here",
    "infeed": "it waits for the host", "outfeed": "it waits for the host",
    "send": "it waits for the host", "send_done": "it waits for the host",
    "recv": "it waits for the host", "recv_done": "it waits for the host",
}  # fmt: skip
