"""What compilers take as the computation of a reduction, a sort or the like.

XLA emits such computations into the loops of fused kernels. With a loop, a sort or a call of a library in one it
aborts the process, on every platform that was tried; what is listed here it compiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation, Instruction, subcomputations

__all__ = ["SCALAR_REGIONS", "is_scalar_program", "refused_within"]

_CALLS: Final = frozenset({"case", "call", "composite_call"})

#: operations whose computations become part of a kernel, and what these may hold that has computations itself
SCALAR_REGIONS: Final[Mapping[str, frozenset[str]]] = {
    "reduce": _CALLS,
    "reduce_window": _CALLS,
    "select_and_scatter": _CALLS,
    "scatter": _CALLS,
    "sort": _CALLS,
    "map": frozenset({"case"}),
    "all_reduce": frozenset(),
    "reduce_scatter": frozenset(),
}

#: operations that may be applied to arrays there
_ON_ARRAYS: Final = frozenset(
    {"constant", "iota", "reshape", "broadcast_in_dim", "transpose", "slice", "concatenate", "rev"}
)

#: operations that may not be applied even to scalars
_NEVER: Final = frozenset(
    {
        "custom_call", "python_callback", "dynamic_update_slice", "dynamic_slice", "scatter",
        "gather", "top_k", "rng_uniform", "rng_normal", "rng_get_and_update_state", "infeed",
        "outfeed", "send", "recv", "all_gather", "all_to_all", "collective_permute",
        "collective_broadcast", "optimization_barrier",
    }
)  # fmt: skip


def is_scalar_program(computation: Computation, calls: frozenset[str]) -> bool:
    """Whether a computation is plain arithmetic on scalars; `calls` may be in it if what they call is."""
    key = ("scalar program", calls)
    found = computation.cache.get(key)
    if found is None:
        found = computation.cache[key] = all(_is_plain(i, calls) for i in computation.instructions)
    answer: bool = found
    return answer


def _is_plain(instruction: Instruction, calls: frozenset[str]) -> bool:
    name = instruction.op.name
    inner = list(subcomputations(instruction.params))
    if inner:
        # Several results would be a tuple.
        one = len(instruction.results) == 1
        return one and name in calls and all(is_scalar_program(c, calls) for c in inner)
    if name in _ON_ARRAYS:
        return True
    return name not in _NEVER and all(
        type(v.spec) is TensorSpec and v.spec.rank == 0
        for v in (*instruction.operands, *instruction.results)
    )


def refused_within(
    instruction: Instruction, scalar_regions: Mapping[str, frozenset[str]]
) -> str | None:
    """The name of an operation in an instruction's computations that a compiler does not take there."""
    calls = scalar_regions.get(instruction.op.name)
    if calls is None:
        return None
    for computation in subcomputations(instruction.params):
        if not is_scalar_program(computation, calls):
            return next(i.op.name for i in computation.instructions if not _is_plain(i, calls))
    return None
