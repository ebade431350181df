"""Passes that make a computation smaller and change no value: dead code, common subexpressions, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.specs import TensorSpec
from xlapy.tensor import Tensor
from xlapy.trace.builder import XlaBuilder, recording
from xlapy.trace.computation import Computation, Instruction, Value, subcomputations
from xlapy.trace.op import lookup
from xlapy.trace.replay import replay

__all__ = [
    "eliminate_common",
    "eliminate_dead",
    "expand",
    "fold_constants",
    "has_side_effect",
    "simplify",
]

# Folding a large result would put a large constant into the program for little work saved.
_FOLD_LIMIT = 1 << 10


def has_side_effect(instruction: Instruction) -> bool:
    """Whether an instruction must be kept though nothing reads its results.

    What takes or gives a token is seen outside, unless it only hands tokens on.
    """
    params = instruction.params
    if params.get("has_side_effect"):
        return True
    name = instruction.op.name
    is_call = False
    for computation in subcomputations(params):
        for inner in computation.instructions:
            if has_side_effect(inner):
                return True
        # Tokens go through loops, conditionals and calls; what a library does with them is not known.
        is_call = name != "custom_call"
    if is_call or name in _HAND_ON:
        return False
    for value in (*instruction.operands, *instruction.results):
        if type(value.spec) is not TensorSpec and "token" in value.spec.mlir:
            return True
    return False


# Operations that may take and give tokens, and do nothing else with them.
_HAND_ON: Final = frozenset({
    "add_dependency", "after_all", "async_done", "async_update", "copy", "create_token", "domain",
    "get_tuple_element", "optimization_barrier", "recv_done", "send_done", "tuple",
})  # fmt: skip


def eliminate_dead(computation: Computation) -> Computation:
    """Drop the instructions that no result depends on."""
    live = set(computation.results)
    kept: list[Instruction] = []
    for instruction in reversed(computation.instructions):
        for value in instruction.results:
            if value in live:
                break
        else:
            if not has_side_effect(instruction):
                continue
        kept.append(instruction)
        live.update(instruction.operands)
    if len(kept) == len(computation.instructions):
        return computation
    kept.reverse()
    return _with(computation, kept, computation.results)


def _with(
    computation: Computation, instructions: list[Instruction], results: Sequence[Value]
) -> Computation:
    return Computation(
        computation.parameters, instructions, results, computation.name, computation.parameter_names
    )


def _key(value: Any) -> Any:
    """A hashable stand-in for a parameter."""
    if isinstance(value, np.ndarray):
        return (value.dtype, value.shape, value.tobytes())
    return value


def eliminate_common(computation: Computation) -> Computation:
    """Let equal instructions on equal operands be one."""
    names: dict[Value, Value] = {}
    seen: dict[Any, tuple[Value, ...]] = {}
    kept: list[Instruction] = []
    for instruction in computation.instructions:
        operands = tuple([names.get(v, v) for v in instruction.operands])
        if not has_side_effect(instruction) and instruction.op.name not in _EACH_TIME:
            key = (
                instruction.op,
                operands,
                tuple((k, _key(v)) for k, v in instruction.params.items()),
            )
            try:
                first = seen.setdefault(key, instruction.results)
            except TypeError:  # a parameter that cannot be compared
                first = instruction.results
            if first is not instruction.results:
                names.update(zip(instruction.results, first, strict=True))
                continue
        if operands != instruction.operands:
            instruction = instruction.with_operands(operands)
        kept.append(instruction)
    if len(kept) == len(computation.instructions):
        return computation
    return _with(computation, kept, [names.get(v, v) for v in computation.results])


# Each call of these is a draw or an effect of its own.
_EACH_TIME = frozenset({"rng_uniform", "rng_normal", "rng_get_and_update_state", "custom_call"})


def fold_constants(computation: Computation) -> Computation:
    """Compute what depends on constants alone, with the operations' own kernels, where results are small."""
    known: dict[Value, np.ndarray[Any, Any]] = {}
    kept: list[Instruction] = []
    constant = lookup("constant")
    changed = False
    for instruction in computation.instructions:
        params = instruction.params
        if instruction.op is constant:
            known[instruction.results[0]] = params["value"]
        elif (
            instruction.operands
            and all(v in known for v in instruction.operands)
            and len(instruction.results) == 1
            and _foldable(instruction)
        ):
            value = instruction.results[0]
            arrays = [known[v] for v in instruction.operands]
            with np.errstate(all="ignore"):
                found = np.asarray(instruction.op.kernel(*arrays, out=value.spec, **params))
            known[value] = found
            instruction = Instruction(constant, (), {"value": found}, (value,), instruction.source)
            changed = True
        kept.append(instruction)
    return _with(computation, kept, computation.results) if changed else computation


def _foldable(instruction: Instruction) -> bool:
    spec = instruction.results[0].spec
    return (
        type(spec) is TensorSpec
        and spec.size <= _FOLD_LIMIT
        and spec.is_static
        and instruction.op.ad.kind in ("elementwise", "linear", "bilinear", "zero")
        and not any(
            isinstance(v, Computation | tuple) and _holds_computation(v)
            for v in instruction.params.values()
        )
        and not has_side_effect(instruction)
        and instruction.op.name not in _EACH_TIME
        and instruction.op.section not in _NOT_PURE
    )


def _holds_computation(value: Any) -> bool:
    return type(value) is Computation or (
        type(value) is tuple and any(type(v) is Computation for v in value)
    )


# Results that depend on the device that computes them.
_NOT_PURE = frozenset({
    "AllGather", "AllReduce", "CrossReplicaSum", "AllToAll", "CollectivePermute", "ReduceScatter",
    "CollectiveBroadcast", "RaggedAllToAll", "ReplicaId", "PartitionID", "OptimizationBarrier", "Copy",
})  # fmt: skip


def simplify(computation: Computation) -> Computation:
    """All passes.

    Parameters
    ----------
    computation : Computation

    Returns
    -------
    Computation
        Of the same parameters and results.
    """
    return eliminate_dead(eliminate_common(fold_constants(eliminate_dead(computation))))


def expand(
    computation: Computation,
    replacements: Mapping[str, Callable[..., Any]]
    | Callable[[Instruction], Callable[..., Any] | None],
    *,
    within: Callable[[Instruction], bool] = lambda i: True,
    repeated: bool = True,
) -> Computation:
    """Replace operations by compositions of others, inside nested computations too.

    Parameters
    ----------
    computation : Computation
    replacements : mapping or callable
        From an operation's name (or from the instruction) to ``f(*operands, **params)``.
    within : callable
        Whether to look into the computations that an instruction holds.
    repeated : bool
        Whether what an operation is replaced by may itself need replacing.

    Returns
    -------
    Computation
        The same object if there was nothing to replace.
    """
    if isinstance(replacements, Mapping):
        table = replacements
        return _Expansion(lambda i: table.get(i.op.name), within, repeated).of(computation)
    return _Expansion(replacements, within, repeated).of(computation)


@final
class _Expansion:
    """The state of one call of `expand`."""

    def __init__(
        self,
        find: Callable[[Instruction], Callable[..., Any] | None],
        within: Callable[[Instruction], bool],
        repeated: bool,
    ) -> None:
        self._find = find
        self._within = within
        self._repeated = repeated
        self._done: dict[Computation, Computation] = {}

    def of(self, computation: Computation) -> Computation:
        """A computation with everything replaced."""
        done = self._done.get(computation)
        if done is not None:
            return done
        find = self._find
        inner = {
            id(i): self._params(i.params)
            for i in computation.instructions
            if _has_bodies(i.params) and self._within(i)
        }
        touched = any(
            inner[id(i)] is not i.params for i in computation.instructions if id(i) in inner
        )
        if not touched and all(find(i) is None for i in computation.instructions):
            self._done[computation] = computation
            return computation
        builder = XlaBuilder(computation.name)
        arguments = [
            builder.parameter(n, v.spec, name)
            for n, (v, name) in enumerate(
                zip(computation.parameters, computation.parameter_names, strict=True)
            )
        ]

        def apply(instruction: Instruction, operands: list[Any]) -> Sequence[Any]:
            params = inner.get(id(instruction), instruction.params)
            replacement = find(instruction)
            with builder.at_source(instruction.source):
                if replacement is None:
                    outs = builder.record(instruction.op, operands, dict(params))
                else:
                    outs = replacement(*operands, **params)
            return outs if type(outs) is tuple else (outs,)

        with recording(builder):
            results: list[Tensor] = replay(computation, arguments, apply)
            values = [builder.value(r) for r in results]
        found = builder.finish(values)
        if self._repeated:
            # What a decomposition is made of may itself need replacing.
            found = self.of(found)
        self._done[computation] = found
        return found

    def _params(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        changed = False
        result = dict(params)
        for key, value in params.items():
            if type(value) is Computation:
                result[key] = self.of(value)
            elif type(value) is tuple and any(type(v) is Computation for v in value):
                new = tuple(self.of(v) if type(v) is Computation else v for v in value)
                same = all(a is b for a, b in zip(new, value, strict=True))
                result[key] = value if same else new
            changed = changed or result[key] is not value
        return result if changed else params


def _has_bodies(params: Mapping[str, Any]) -> bool:
    return any(_holds_computation(v) for v in params.values())
