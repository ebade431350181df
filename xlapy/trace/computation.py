"""What a program is: values, instructions, computations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from xlapy.errors import TracingError
from xlapy.source import Source
from xlapy.specs import Spec

if TYPE_CHECKING:
    from xlapy.trace.op import Op

__all__ = ["Computation", "Instruction", "Scope", "Value", "subcomputations", "with_params"]


#: How deep computations may lie in each other: passes call themselves, and XLA's stack is at its end before 240.
DEEPEST: Final = 100


@final
class Scope:
    """The extent of one trace: its values are good while it is open, in it and in the traces nested in it."""

    __slots__ = ("builder", "depth", "name", "open", "parent")

    def __init__(self, name: str, parent: Scope | None = None, builder: Any = None) -> None:
        self.name = name
        self.parent = parent
        self.open = True
        self.builder = builder
        self.depth: int = 1 if parent is None else parent.depth + 1
        if self.depth > DEEPEST:
            raise too_deep(self.depth)


def too_deep(depth: int, label: str = "X1") -> TracingError:
    """What is said of computations that lie too deep in each other."""
    return TracingError(
        f"computations must not lie more than {DEEPEST} deep in each other; got {depth} [{label}]"
    )


@final
class Value:
    """The result of an instruction, or a parameter: a spec and an identity."""

    __slots__ = ("scope", "spec")

    def __init__(self, spec: Spec, scope: Scope | None = None) -> None:
        self.spec = spec
        self.scope = scope

    def __repr__(self) -> str:
        return f"Value({self.spec})"


@final
class Instruction:
    """One operation on values."""

    __slots__ = ("op", "operands", "params", "results", "source")

    def __init__(
        self,
        op: Op,
        operands: tuple[Value, ...],
        params: Mapping[str, Any],
        results: tuple[Value, ...],
        source: Source = None,
    ) -> None:
        self.op = op
        self.operands = operands
        self.params = params
        self.results = results
        self.source = source

    def with_operands(
        self, operands: tuple[Value, ...], params: Mapping[str, Any] | None = None
    ) -> Instruction:
        """The instruction of the same results and source line, on other operands.

        Parameters
        ----------
        operands : tuple of Value
        params : mapping, optional
            Its parameters; by default those that it has.
        """
        kept = self.params if params is None else params
        return Instruction(self.op, operands, kept, self.results, self.source)

    def __repr__(self) -> str:
        ins = ", ".join(str(v.spec) for v in self.operands)
        outs = ", ".join(str(v.spec) for v in self.results)
        return f"Instruction({self.op.name}: {ins} -> {outs})"


@final
class Computation:
    """A program: flat, typed, in single assignment.

    Attributes
    ----------
    name : str
    parameters : tuple of Value
    instructions : list of Instruction
        In an order in which every value is defined before it is used.
    results : tuple of Value
    parameter_names : tuple of str
        For printing; empty strings where there is no name.
    """

    __slots__ = (
        "__weakref__",
        "cache",
        "instructions",
        "name",
        "parameter_names",
        "parameters",
        "results",
    )

    def __init__(
        self,
        parameters: Sequence[Value],
        instructions: list[Instruction],
        results: Sequence[Value],
        name: str = "main",
        parameter_names: Sequence[str] = (),
    ) -> None:
        self.parameters = tuple(parameters)
        self.instructions = instructions
        self.results = tuple(results)
        self.name = name
        self.parameter_names = tuple(parameter_names) or ("",) * len(self.parameters)
        #: what backends derive from the computation once and keep with it, by their own keys
        self.cache: dict[Any, Any] = {}

    @property
    def parameter_specs(self) -> tuple[Spec, ...]:
        """The spec of each parameter."""
        return tuple(v.spec for v in self.parameters)

    @property
    def result_specs(self) -> tuple[Spec, ...]:
        """The spec of each result."""
        return tuple(v.spec for v in self.results)

    def __repr__(self) -> str:
        from xlapy.trace.printer import format_computation

        return format_computation(self)


def subcomputations(params: Mapping[str, Any]) -> Iterator[Computation]:
    """The computations among an instruction's parameters."""
    for value in params.values():
        if type(value) is Computation:
            yield value
        elif type(value) is tuple and value and type(value[0]) is Computation:
            yield from value


def with_params(
    computation: Computation, change: Callable[[Instruction], Mapping[str, Any]]
) -> Computation:
    """The computation with other parameters of its instructions, in nested computations too.

    Parameters
    ----------
    computation : Computation
    change : callable
        From an instruction to its parameters, which must not change its results; the same object where nothing
        changes. It is called once for each instruction.

    Returns
    -------
    Computation
        The same object if nothing changed.
    """
    return _with_params(computation, change, {})


def _with_params(
    computation: Computation,
    change: Callable[[Instruction], Mapping[str, Any]],
    done: dict[Computation, Computation],
) -> Computation:
    found = done.get(computation)
    if found is not None:
        return found
    instructions = []
    changed = False
    for instruction in computation.instructions:
        params = change(instruction)
        if params:
            params = _with_changed(params, change, done)
        if params is not instruction.params:
            changed = True
            instruction = instruction.with_operands(instruction.operands, params)
        instructions.append(instruction)
    found = computation
    if changed:
        found = Computation(
            computation.parameters,
            instructions,
            computation.results,
            computation.name,
            computation.parameter_names,
        )
    done[computation] = found
    return found


def _with_changed(
    params: Mapping[str, Any],
    change: Callable[[Instruction], Mapping[str, Any]],
    done: dict[Computation, Computation],
) -> Mapping[str, Any]:
    """The parameters with the computations among them changed."""
    changed = {}
    for key, value in params.items():
        new = value
        if type(value) is Computation:
            new = _with_params(value, change, done)
        elif type(value) is tuple and value and type(value[0]) is Computation:
            several = tuple([_with_params(v, change, done) for v in value])
            if any(a is not b for a, b in zip(several, value, strict=True)):
                new = several
        if new is not value:
            changed[key] = new
    return {**params, **changed} if changed else params
