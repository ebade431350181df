"""A computation split in two: what runs forward, and what goes back from what the first part kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.errors import NotDifferentiableError
from xlapy.specs import TensorSpec
from xlapy.trace.autodiff import has_tangent, linearize
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import bind, using
from xlapy.trace.op import lookup
from xlapy.trace.replay import inline, replay
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.zeros import zeros_of

from .rules import body_name

__all__ = ["Backward", "Split", "is_repeatable", "require_repeatable", "scatter_back", "varying_results", "zeros_for"]


def varying_results(computation: Computation, is_active: Sequence[bool]) -> list[bool]:
    """Which results vary continuously with the active parameters."""
    active = {v for v, a in zip(computation.parameters, is_active, strict=True) if a and has_tangent(v.spec)}
    for instruction in computation.instructions:
        if instruction.op.ad.kind != "zero" and not active.isdisjoint(instruction.operands):
            active.update(v for v in instruction.results if has_tangent(v.spec))
    return [v in active for v in computation.results]


@final
class Backward:
    """The way back.

    Attributes
    ----------
    computation : Computation
        From the residuals and then the given cotangents to the cotangents that were found.
    residuals : list of Value
        Of the forward part: some of its parameters, and values that it has to give.
    found : list of bool
        For each needed parameter whether it has a cotangent; the others' are zero.
    """

    __slots__ = ("computation", "found", "residuals")

    def __init__(self, computation: Computation, residuals: list[Value], found: list[bool]) -> None:
        self.computation = computation
        self.residuals = residuals
        self.found = found


# What costs next to nothing to make again, and would take memory to keep.
_CHEAP: Final = frozenset(("constant", "iota", "broadcast_in_dim", "reshape", "transpose"))


@final
class Split:
    """A computation recorded so that one can go back through it.

    Parameters
    ----------
    computation : Computation
    needed : sequence of bool
        Which parameters' cotangents are wanted.
    known : mapping, optional
        Parameters that always have one value, by position.
    """

    def __init__(
        self, computation: Computation, needed: Sequence[bool], known: Mapping[int, np.ndarray[Any, Any]] | None = None
    ) -> None:
        builder = self._builder = XlaBuilder(computation.name)
        arguments = [builder.parameter(i, s) for i, s in enumerate(computation.parameter_specs)]
        self.parameters: list[Value] = [x.payload for x in arguments]
        with using(builder):
            for i, value in (known or {}).items():
                arguments[i] = bind(lookup("constant"), value=value)
            outputs = [builder.value(o) for o in inline(computation, arguments)]
            inputs = [v for v, n in zip(self.parameters, needed, strict=True) if n]
            self._linear = linearize(builder, 0, inputs, outputs)
        self._forward = list(builder.instructions)
        self._producers = {v: i for i in self._forward for v in i.results}
        active = {v for step in self._linear.steps for v in step[0].results if has_tangent(v.spec)}.union(inputs)
        self.outputs = outputs
        #: which results vary with the needed parameters
        self.varying = [v in active and has_tangent(v.spec) for v in outputs]
        self._cotangents: dict[int, Any] = {}

    def backward(self, given: Sequence[bool], steady: Sequence[Value] = ()) -> Backward:
        """The way back from cotangents of some of the results.

        Parameters
        ----------
        given : sequence of bool
            Which results come with a cotangent.
        steady : sequence of Value
            Parameters that are the same each time the computation runs: what is made of them alone is made again
            rather than kept.
        """
        builder = self._builder
        for i, g in enumerate(given):
            if g and i not in self._cotangents:
                self._cotangents[i] = builder.parameter(len(builder.parameters), self.outputs[i].spec)
        cotangents = [self._cotangents[i] if g else None for i, g in enumerate(given)]
        start = len(builder.instructions)
        with using(builder):
            pulled = self._linear.pull_back(cotangents)
            wanted = [builder.value(c) for c in pulled if c is not None]
        instructions = builder.instructions[start:]
        del builder.instructions[start:]
        given_values = [c.payload for c in cotangents if c is not None]
        again, residuals = self._cut(instructions, wanted, {*given_values}, steady)
        parameters = [*residuals, *given_values]
        found = Computation(parameters, [*again, *instructions], wanted, f"vjp_{builder.name}")
        found = eliminate_dead(found)
        # Going back may need less than was cut off.
        used = {v for i in found.instructions for v in i.operands}.union(found.results)
        residuals = [v for v in residuals if v in used]
        found = Computation([*residuals, *given_values], found.instructions, found.results, found.name)
        return Backward(add_in_place(found), residuals, [c is not None for c in pulled])

    def _cut(
        self, instructions: Sequence[Instruction], wanted: Sequence[Value], given: set[Value], steady: Sequence[Value]
    ) -> tuple[list[Instruction], list[Value]]:
        """The forward instructions to run again on the way back, and the values to keep."""
        made = {v for i in instructions for v in i.results}
        unchanging = self._made_of(steady)
        again: dict[Instruction, None] = {}
        residuals: dict[Value, None] = {}
        live = {v for i in instructions for v in i.operands}.union(wanted)
        pending = [v for v in live if v not in made and v not in given]
        seen: set[Value] = set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            producer = self._producers.get(value)
            if producer is not None and (producer.op.name in _CHEAP or value in unchanging):
                again[producer] = None
                pending.extend(producer.operands)
            else:
                residuals[value] = None
        order = {v: n for n, v in enumerate([*self.parameters, *[v for i in self._forward for v in i.results]])}
        return [i for i in self._forward if i in again], sorted(residuals, key=order.__getitem__)

    def _made_of(self, steady: Sequence[Value]) -> set[Value]:
        found = set(steady)
        if steady:
            for instruction in self._forward:
                if found.issuperset(instruction.operands) and is_repeatable(instruction):
                    found.update(instruction.results)
        return found

    def forward(self, kept: Sequence[Value]) -> Computation:
        """What runs forward: from the parameters to the results and then the values to keep."""
        made = Computation(self.parameters, self._forward, [*self.outputs, *kept], self._builder.name)
        return eliminate_dead(made)


def zeros_for(values: Sequence[Any], specs: Sequence[Any]) -> list[Any]:
    """Tangents or cotangents with zeros in place of None."""
    return [zeros_of(s) if v is None else v for v, s in zip(values, specs, strict=True)]


def scatter_back(flags: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    """The values at the places whose flag is set, and None elsewhere."""
    given = iter(values)
    return [next(given) if f else None for f in flags]


# Each run of these gives something else, or is seen outside.
_ONCE: Final = frozenset(
    ("rng", "rng_uniform", "rng_normal", "rng_get_and_update_state", "infeed", "outfeed", "send", "recv")
)


def is_repeatable(instruction: Instruction) -> bool:
    """Whether running an instruction twice gives the same twice, and is seen nowhere else."""
    from xlapy.trace.computation import subcomputations

    if instruction.op.name in _ONCE or instruction.params.get("has_side_effect"):
        return False
    if any(type(v.spec) is not TensorSpec and "token" in v.spec.mlir for v in instruction.results):
        return False
    return all(is_repeatable(i) for c in subcomputations(instruction.params) for i in c.instructions)


def require_repeatable(computation: Computation, what: str) -> None:
    """Refuse a computation that must not run a second time."""
    for instruction in computation.instructions:
        if not is_repeatable(instruction):
            raise NotDifferentiableError(
                f"{what} runs again on the way back, so it must not hold {instruction.op.name} [X4]"
            )


# --- adding in place ----------------------------------------------------------------------------------------------


def add_in_place(computation: Computation) -> Computation:
    """Let cotangents that are zero but for a part be added to that part alone.

    The way back through ``x[i]`` makes zeros of the shape of x, puts a part in, and adds that to what it has. Here the
    part is added where it belongs, so that a loop over the rows of x takes time in proportion to x, not to its square.
    """
    producers = {v: i for i in computation.instructions for v in i.results}
    uses: dict[Value, int] = {}
    for instruction in computation.instructions:
        for value in instruction.operands:
            uses[value] = uses.get(value, 0) + 1
    for value in computation.results:
        uses[value] = uses.get(value, 0) + 1

    def part_of(value: Value) -> Instruction | None:
        producer = producers.get(value)
        if producer is None or uses[value] != 1:
            return None
        rule = _IN_PLACE.get(producer.op.name)
        return producer if rule is not None and rule[0](producer, producers) else None

    found: dict[Instruction, tuple[Instruction, Value]] = {}
    for instruction in computation.instructions:
        if instruction.op.name == "add":
            left, right = instruction.operands
            for part, whole in ((right, left), (left, right)):
                producer = part_of(part)
                if producer is not None:
                    found[instruction] = producer, whole
                    break
    if not found:
        return computation
    skipped = {producer for producer, _ in found.values()}
    builder = XlaBuilder(computation.name)
    arguments = [builder.parameter(i, s) for i, s in enumerate(computation.parameter_specs)]
    environment = dict(zip(computation.parameters, arguments, strict=True))

    def apply(instruction: Instruction, operands: list[Any]) -> Sequence[Any]:
        if instruction in skipped:
            outs: Any = (None,)
        else:
            with builder.at_source(instruction.source):
                if instruction in found:
                    producer, whole = found[instruction]
                    given = [environment.get(v) for v in producer.operands]
                    outs = _IN_PLACE[producer.op.name][1](environment[whole], given, producer.params)
                else:
                    outs = bind(instruction.op, *operands, **instruction.params)
        outs = outs if type(outs) is tuple else (outs,)
        environment.update(zip(instruction.results, outs, strict=True))
        return outs

    with using(builder):
        results = replay(computation, arguments, apply)
        return eliminate_dead(builder.finish([builder.value(r) for r in results]))


def _is_zero(value: Value, producers: Mapping[Value, Instruction]) -> bool:
    producer = producers.get(value)
    if producer is None:
        return False
    if producer.op.name == "broadcast_in_dim":
        return _is_zero(producer.operands[0], producers)
    if producer.op.name != "constant":
        return False
    array = producer.params["value"]
    flat = array[(0,) * array.ndim] if array.size and not any(array.strides) else array
    return bool(np.all(flat == 0))


def _is_update_of_zeros(instruction: Instruction, producers: Mapping[Value, Instruction]) -> bool:
    return _is_zero(instruction.operands[0], producers)


def _add_update(whole: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """whole + dynamic_update_slice(0, part, *starts)."""
    _, part, *starts = operands
    before = bind(lookup("dynamic_slice"), whole, *starts, slice_sizes=part.spec.shape)
    return bind(lookup("dynamic_update_slice"), whole, bind(lookup("add"), before, part), *starts)


def _is_scatter_into_zeros(instruction: Instruction, producers: Mapping[Value, Instruction]) -> bool:
    body = next((v for v in instruction.params.values() if type(v) is Computation), None)
    return (
        len(instruction.operands) == 3
        and body is not None
        and body_name(body) == "add"
        and _is_zero(instruction.operands[0], producers)
    )


def _add_scatter(whole: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """whole + scatter(0, indices, updates), where the scatter adds."""
    _, indices, updates = operands
    out = bind(lookup("scatter"), whole, indices, updates, **params)
    return out[0] if type(out) is tuple else out


_IN_PLACE: Final[dict[str, tuple[Callable[..., bool], Callable[..., Any]]]] = {
    "dynamic_update_slice": (_is_update_of_zeros, _add_update),
    "scatter": (_is_scatter_into_zeros, _add_scatter),
}
