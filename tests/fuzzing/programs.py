"""Random programs from seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy.specs import TensorSpec
from xlapy.trace.builder import XlaBuilder, recording
from xlapy.trace.computation import Computation, Instruction, Value, subcomputations

from .draft import Draft, Unfit
from .evaluation import executed
from .generators import GENERATORS
from .values import Array

_HOLD_COMPUTATIONS = frozenset({
    "while", "fori_loop", "case", "call", "composite_call", "scan", "map", "reduce", "reduce_window", "sort", "scatter",
    "select_and_scatter", "fusion", "cumulative", "set_dimension_size", "all_reduce", "reduce_scatter", "compile",
    "vmap", "jvp", "vjp", "grad",
})  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A computation and arrays to run it on.

    Attributes
    ----------
    computation : Computation
    arrays : list of arrays
        One for each parameter.
    mood : str
        How the values were drawn.
    seed : tuple of int
        What it comes from.
    suspects : tuple of str
        Operations that are to blame for a fault, to be looked at first.
    """

    computation: Computation
    arrays: list[Array]
    mood: str = "tame"
    seed: tuple[int, ...] = ()
    suspects: tuple[str, ...] = ()

    @property
    def op_names(self) -> set[str]:
        """The operations that it has, in computations within as well."""
        return names_in(self.computation)


def names_in(computation: Computation) -> set[str]:
    """The names of the operations of a computation and of those within."""
    found: set[str] = set()
    for instruction in all_instructions(computation):
        found.add(instruction.op.name)
    return found


def all_instructions(computation: Computation) -> list[Instruction]:
    """The instructions of a computation and of those within."""
    found: list[Instruction] = []
    for instruction in computation.instructions:
        found.append(instruction)
        for inner in subcomputations(instruction.params):
            found += all_instructions(inner)
    return found


@dataclass(frozen=True)
class Focus:
    """What programs are made of, where it is not everything.

    Attributes
    ----------
    operations : tuple of str
        The generators to choose from; empty for all.
    dtypes : tuple of str
        The element types that values are drawn with; empty for all.
    """

    operations: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()


EVERYTHING = Focus()
#: how many operations a program may run, those of each turn of a loop as well: it is run a hundred times, with errors,
#: in parts and for the rows of batches, and loops in loops would take minutes
MOST_EXECUTED = 1000


@dataclass
class Palette:
    """The operations that a program may have: a few of them, drawn for it, come more often."""

    names: list[str]
    weights: Array
    scalar: list[str] = field(default_factory=list)
    scalar_weights: Array = field(default_factory=lambda: np.zeros(0))


def palette(rng: np.random.Generator, only: Sequence[str] = ()) -> Palette:
    """Draw one."""
    names = list(only) or list(GENERATORS)
    weights = np.array([GENERATORS[n].weight for n in names])
    if not only:
        favoured = rng.choice(len(names), 8, p=weights / weights.sum())
        weights[favoured] *= 12
    scalar = [n for n in GENERATORS if GENERATORS[n].scalar]
    of_name = dict(zip(names, weights, strict=True))
    scalar_weights = np.array([of_name.get(n, GENERATORS[n].weight) for n in scalar])
    return Palette(names, weights / weights.sum(), scalar, scalar_weights / scalar_weights.sum())


def grow(draft: Draft, count: int) -> None:
    """Record about `count` operations, each with what it needs."""
    found: Palette = draft.palette
    tries = 0
    done = 0
    while done < count and tries < 5 * count + 10:
        tries += 1
        if draft.scalars:
            name = found.scalar[int(draft.rng.choice(len(found.scalar), p=found.scalar_weights))]
        else:
            name = found.names[int(draft.rng.choice(len(found.names), p=found.weights))]
        if draft.depth >= draft.deepest and name in _HOLD_COMPUTATIONS:
            continue
        try:
            GENERATORS[name].function(draft, name)
        except Unfit:
            draft.settle()
            continue
        draft.settle()
        done += 1


def write(seed: Sequence[int], focus: Focus = EVERYTHING, *, size: int | None = None) -> Program:
    """The program of a seed.

    Parameters
    ----------
    seed : sequence of int
    focus : Focus
        What it is made of.
    size : int, optional
        How many operations it has, about.
    """
    attempt = 0
    while True:
        before = executed.count
        program = _written(seed, attempt, focus, size)
        if executed.count - before <= MOST_EXECUTED:
            return program
        attempt += 1


def _written(seed: Sequence[int], attempt: int, focus: Focus, size: int | None) -> Program:
    rng = np.random.default_rng([*seed, attempt] if attempt else list(seed))
    builder = XlaBuilder("fuzz")
    draft = Draft(rng, builder, focus.dtypes)
    draft.palette = palette(rng, focus.operations)
    with recording(builder):
        grow(draft, size if size is not None else draft.integer(1, 9))
        roots = _roots(draft)
        values = [builder.value(r) for r in roots]
    computation = builder.finish(values)
    return Program(computation, list(draft.inputs), draft.mood, tuple(seed))


def _roots(draft: Draft) -> list[Any]:
    """What nothing reads, and now and then something else too."""
    from xlapy.tensor import Tensor

    used = {v for i in draft.builder.instructions for v in i.operands}
    results: list[Value] = [
        v
        for i in draft.builder.instructions
        if i.op.name != "constant"
        for v in i.results
        if type(v.spec) is TensorSpec and v.spec.is_static
    ]
    ends = [v for v in results if v not in used]
    others = [v for v in results if v in used]
    chosen = ends[-6:]
    if others and (not chosen or draft.chance(0.3)):
        chosen.append(draft.choose(others))
    if not chosen:
        made = draft.tensor()
        chosen = [made.payload]
    if draft.chance(0.05):
        chosen.append(chosen[0])
    return [Tensor(v.spec, v) for v in dict.fromkeys(chosen)] + (
        [Tensor(chosen[0].spec, chosen[0])] if draft.chance(0.03) else []
    )
