"""What compilers take as the computation of a reduction, a sort or the like, and for which elements.

XLA emits such computations into the loops of fused kernels. With a loop, a sort or a call of a library in one it
aborts the process, on every platform that was tried; what is listed here it compiles. Across devices it reduces by few
operations only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from xlapy.backends.base import Capabilities
from xlapy.backends.mixed_precision import converted, in_one_precision, retyped
from xlapy.backends.shared_operands import apart
from xlapy.backends.varying_sizes import on_whole_arrays
from xlapy.dtypes import DType, as_dtype
from xlapy.errors import UnsupportedOpError
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation, Instruction, subcomputations
from xlapy.trace.mode import annotate, bind
from xlapy.trace.op import Op

__all__ = [
    "ACROSS_DEVICES",
    "FEWEST_BITS",
    "MEETINGS",
    "REDUCTIONS",
    "SCALAR_REGIONS",
    "is_scalar_program",
    "refused_within",
    "replacement",
]

#: operations by which devices exchange arrays
MEETINGS: Final = frozenset(
    {
        "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "ragged_all_to_all",
        "reduce_scatter",
    }
)  # fmt: skip
_CALLS: Final = frozenset({"case", "call", "composite_call"})

#: operations whose computations become part of a kernel, and what these may hold that has computations itself
SCALAR_REGIONS: Final[Mapping[str, frozenset[str]]] = {
    "reduce": _CALLS,
    "reduce_window": _CALLS,
    "select_and_scatter": _CALLS,
    "scatter": _CALLS,
    "sort": _CALLS,
    "map": frozenset({"case"}),
}

_NUMBERS: Final = frozenset({"bool", "int", "uint", "float", "complex"})
_INTEGERS: Final = frozenset({"bool", "int", "uint"})
_TRUTH_VALUES: Final = dict.fromkeys(("and", "or"), frozenset({"bool"}))

#: by platform, what XLA reduces by across devices and the kinds of elements for which it does
REDUCTIONS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "*": {
        **dict.fromkeys(("add", "mul"), _NUMBERS),
        **dict.fromkeys(("max", "min"), _INTEGERS | {"float"}),
        **_TRUTH_VALUES,
    },
    # The maximum of floats loses nan there.
    "cpu": {
        **dict.fromkeys(("add", "mul"), _NUMBERS),
        **dict.fromkeys(("max", "min"), _INTEGERS),
        **_TRUTH_VALUES,
    },
}

#: operations that reduce across devices
ACROSS_DEVICES: Final = frozenset({"all_reduce", "reduce_scatter"})

#: by platform, operations that are there only for elements of so many bits; with fewer the process may be aborted
FEWEST_BITS: Final[Mapping[str, Mapping[str, int]]] = {
    "cpu": {
        **dict.fromkeys(("concatenate", "convolution", "sort"), 4),
        # Devices copy a byte for each element, beyond the end of memory that holds several in one.
        **dict.fromkeys(
            ("all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"), 8
        ),
        "top_k": 8,
        # It wants all inputs in one layout, which says how an element is packed.
        "reduce of several": 4,
    }
}
#: by the kind of an element, the fewest bits that devices reduce
_REDUCED_BITS: Final = {"int": 8, "uint": 8, "float": 16}

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


def replacement(instruction: Instruction, capabilities: Capabilities) -> Callable[..., Any] | None:
    """What computes the same of operations that a backend has, where it lacks one as it stands in an instruction."""
    op = instruction.op
    regions = capabilities.scalar_regions
    if regions and op.name in MEETINGS:
        _require_known_sizes(instruction)
    bits = _fewest_bits(instruction, capabilities.fewest_bits)
    narrow = bits is not None
    lacks = (
        narrow
        or op.name in capabilities.missing_ops
        or (op.name in regions and refused_within(instruction, regions) is not None)
        or (
            op.name in ACROSS_DEVICES
            and bool(capabilities.reductions)
            and not _is_reduction(instruction, capabilities.reductions)
        )
    )
    if not lacks:
        if _is_joint(instruction) and not capabilities.joint_reductions:
            return partial(_one_by_one, op)
        if not capabilities.mixed_precision:
            instead = in_one_precision(instruction)
            if instead is not None:
                return instead
        if capabilities.overwrites_inputs and op.name == "scatter":
            return apart(instruction)
        if op.name == "scan" and not capabilities.associative_scans:
            return _in_order(instruction)
        return None if capabilities.varying_sizes else on_whole_arrays(instruction)
    if bits is not None and op.hlo.decomposition is None:
        return partial(_in_bytes, op, bits)
    return op.hlo.decomposition


def _in_order(instruction: Instruction) -> Callable[..., Any] | None:
    """A scan from the first to the last where it may be done in any order; None where it may not."""
    if not instruction.params["is_associative"]:
        return None
    return lambda *xs, **params: bind(instruction.op, *xs, **{**params, "is_associative": None})


def _require_known_sizes(instruction: Instruction) -> None:
    """XLA exchanges no arrays of varying size."""
    specs = [v.spec for v in instruction.operands]
    if any(type(s) is TensorSpec and not s.is_static for s in specs):
        name = instruction.op.name
        error = UnsupportedOpError(
            f"{name}: the sizes must be known where devices exchange arrays; got ({', '.join(map(str, specs))}) [X5]\n"
            "  exchange the whole arrays and their sizes (get_dimension_size), or use the interpreter"
        )
        raise annotate(error, "", specs, instruction.source)


def _is_joint(instruction: Instruction) -> bool:
    """Whether it reduces several arrays at once over a channel."""
    several = instruction.op.name == "all_reduce" and len(instruction.operands) > 1
    return several and bool(instruction.params["channel_id"])


def _one_by_one(op: Op, *xs: Any, **params: Any) -> Any:
    return tuple([y for x in xs for y in bind(op, x, **params)])


def _fewest_bits(instruction: Instruction, fewest_bits: Mapping[str, int]) -> int | None:
    """The fewest bits of an element that an operation is there for, if one of its operands has fewer."""
    name = instruction.op.name
    several = name == "reduce" and len(instruction.operands) > 2
    bits = fewest_bits.get("reduce of several" if several else name)
    narrow = bits is not None and any(
        type(v.spec) is TensorSpec and _wide_below(bits, v.spec.dtype) is not v.spec.dtype
        for v in instruction.operands
    )
    return bits if narrow else None


def _in_bytes(op: Op, bits: int, *xs: Any, **params: Any) -> Any:
    """An operation that moves or multiplies elements, the narrow ones by way of integers of eight bits.

    Sums and products of these end with the same bits.
    """
    wide = [converted(x, _wide_below(bits, x.spec.dtype)) for x in xs]
    if "preferred_element_type" in params:
        wanted = params["preferred_element_type"]
        made = bind(op, *wide, **{**params, "preferred_element_type": _wide_below(8, wanted)})
        return converted(made, wanted)
    for key in op.hlo.regions:
        body = retyped(params[key], partial(_wide_below, bits), results=True)
        params = {**params, key: body}
    moved = bind(op, *wide, **params)
    if type(moved) is not tuple:
        return converted(moved, xs[0].spec.dtype)
    return tuple([converted(m, x.spec.dtype) for m, x in zip(moved, xs)])  # init values follow


def _wide_below(bits: int, dtype: DType) -> DType:
    """The type by way of which an element goes that has fewer bits; truth values take a byte in XLA."""
    if dtype.bits >= bits or dtype.kind == "bool":
        return dtype
    return as_dtype("s8" if dtype.kind == "int" else "u8")


def _is_reduction(instruction: Instruction, reductions: Mapping[str, frozenset[str]]) -> bool:
    """Whether the computation is one operation that a collective may reduce by."""
    body: Computation = instruction.params["computation"]
    if len(body.instructions) != 1:
        return False
    (inner,) = body.instructions
    spec = body.parameters[0].spec
    return (
        inner.results == body.results
        and set(inner.operands) == set(body.parameters)
        and type(spec) is TensorSpec
        and spec.dtype.kind in reductions.get(inner.op.name, ())
        and spec.dtype.bits >= _REDUCED_BITS.get(spec.dtype.kind, 0)
    )
