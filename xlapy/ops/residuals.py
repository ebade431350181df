"""A computation split in two: what runs forward, and what goes back from what the first part kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.errors import NotDifferentiableError
from xlapy.trace.autodiff import has_tangent, linearize
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import bind, using
from xlapy.trace.op import lookup
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.zeros import zeros_of

from .row_updates import work_in_place
from .trip_count import is_repeatable

__all__ = [
    "Backward",
    "Split",
    "require_repeatable",
    "scatter_back",
    "varying_results",
    "zeros_for",
]


def varying_results(computation: Computation, is_active: Sequence[bool]) -> list[bool]:
    """Which results vary continuously with the active parameters."""
    active = {
        v
        for v, a in zip(computation.parameters, is_active, strict=True)
        if a and has_tangent(v.spec)
    }
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
        self,
        computation: Computation,
        needed: Sequence[bool],
        known: Mapping[int, np.ndarray[Any, Any]] | None = None,
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
        active = {
            v for step in self._linear.steps for v in step[0].results if has_tangent(v.spec)
        }.union(inputs)
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
                self._cotangents[i] = builder.parameter(
                    len(builder.parameters), self.outputs[i].spec
                )
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
        found = Computation(
            [*residuals, *given_values], found.instructions, found.results, found.name
        )
        return Backward(work_in_place(found), residuals, [c is not None for c in pulled])

    def _cut(
        self,
        instructions: Sequence[Instruction],
        wanted: Sequence[Value],
        given: set[Value],
        steady: Sequence[Value],
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
        order = {
            v: n
            for n, v in enumerate(
                [*self.parameters, *[v for i in self._forward for v in i.results]]
            )
        }
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
        made = Computation(
            self.parameters, self._forward, [*self.outputs, *kept], self._builder.name
        )
        return eliminate_dead(made)


def zeros_for(values: Sequence[Any], specs: Sequence[Any]) -> list[Any]:
    """Tangents or cotangents with zeros in place of None."""
    return [zeros_of(s) if v is None else v for v, s in zip(values, specs, strict=True)]


def scatter_back(flags: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    """The values at the places whose flag is set, and None elsewhere."""
    given = iter(values)
    return [next(given) if f else None for f in flags]


def require_repeatable(computation: Computation, what: str) -> None:
    """Refuse a computation that must not run a second time."""
    for instruction in computation.instructions:
        if not is_repeatable(instruction):
            raise NotDifferentiableError(
                f"{what} must be repeatable, for it runs again on the way back; got {instruction.op.name} in it [X4]"
            )
