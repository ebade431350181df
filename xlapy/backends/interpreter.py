"""The reference backend: each operation's numpy kernel, one instruction after the other.

It is the definition of what the operations mean, and imports no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from xlapy.backends.base import Backend, CompileOptions, Executable
from xlapy.errors import BackendError
from xlapy.specs import TensorSpec
from xlapy.tensor import Placement
from xlapy.trace.computation import Computation, Instruction
from xlapy.trace.process_grid import is_communicating
from xlapy.trace.replay import last_uses, replay
from xlapy.trace.simplify import eliminate_dead

__all__ = ["Evaluator", "Interpreter", "evaluator"]

Array = np.ndarray[Any, Any]


def evaluator(computation: Computation) -> Evaluator:
    """A computation as a function of arrays: what kernels get for the computations among their parameters."""
    found = computation.cache.get("evaluator")
    if found is None:
        found = computation.cache["evaluator"] = Evaluator(computation)
    made: Evaluator = found
    return made


@final
class Evaluator:
    """A computation as a function of arrays, giving a tuple of them.

    Attributes
    ----------
    computation : Computation
        For kernels that are faster when it is one that they know.
    """

    __slots__ = ("_run", "computation")

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self._run = _make_evaluator(computation)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Run the kernels."""
        return self._run(*arrays)


def _make_evaluator(computation: Computation) -> Callable[..., tuple[Any, ...]]:
    # For each instruction: the kernel, its `out`, its parameters with computations made callable.
    steps = {
        i: (i.op.kernel, _out(i), _kernel_params(i), _gives_tuple(i))
        for i in computation.instructions
    }
    free = last_uses(computation)

    def apply(instruction: Instruction, operands: list[Any]) -> Sequence[Any]:
        kernel, out, params, several = steps[instruction]
        result = kernel(*operands, out=out, **params)
        return result if several else (result,)

    def run(*arrays: Any) -> tuple[Any, ...]:
        return tuple(replay(computation, arrays, apply, free))

    return run


def _gives_tuple(instruction: Instruction) -> bool:
    found = instruction.op.infer(*[v.spec for v in instruction.operands], **instruction.params)
    return type(found) is tuple


def _out(instruction: Instruction) -> Any:
    specs = tuple(v.spec for v in instruction.results)
    return specs if _gives_tuple(instruction) else specs[0]


def _kernel_params(instruction: Instruction) -> dict[str, Any]:
    params = {k: _callable(v) for k, v in instruction.params.items()}
    if is_communicating(instruction.op.kernel):
        params["site"] = instruction
    return params


def _callable(value: Any) -> Any:
    if type(value) is Computation:
        return evaluator(value)
    if type(value) is tuple and value and type(value[0]) is Computation:
        return tuple(evaluator(v) for v in value)
    return value


@final
class _Program(Executable):
    def __init__(self, computation: Computation, placement: Placement) -> None:
        self._computation = computation
        self._run = evaluator(computation)
        self.placed = tuple(placement.of(s) for s in computation.result_specs)
        self._dtypes = [
            s.dtype.numpy if type(s) is TensorSpec else None for s in computation.result_specs
        ]

    def execute(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """Run the kernels."""
        with np.errstate(all="ignore"):
            found = self._run(*payloads)
        return [r if d is None else _frozen(r, d) for r, d in zip(found, self._dtypes, strict=True)]

    @property
    def optimized_hlo_text(self) -> str:
        """The computation: nothing is optimised here."""
        return repr(self._computation)


def _frozen(array: Any, dtype: np.dtype[Any]) -> Array:
    """A result as an array of its own type that nobody writes to; kernels may give views and scalars."""
    result = np.asarray(array, dtype)
    if result.flags.writeable:
        result = result.view()
        result.flags.writeable = False
    return result


@final
class Interpreter(Backend):
    """Runs computations with numpy."""

    def __init__(self) -> None:
        self.name = "interpreter"
        self.placement = Placement(self)

    @property
    def devices(self) -> Sequence[Any]:
        """One: the host."""
        return ("interpreter:0",)

    def put(self, array: Array, spec: TensorSpec, device: Any = None) -> Array:
        """A read-only copy."""
        return _frozen(np.array(array, spec.dtype.numpy, order="C"), spec.dtype.numpy)

    def get(self, payload: Any) -> Array:
        """The array itself."""
        if not isinstance(payload, np.ndarray):
            raise BackendError(f"only arrays can be read; got {type(payload).__name__} [X1]")
        return payload

    def compile(self, computation: Computation, options: CompileOptions) -> Executable:
        """Prepare the kernels."""
        return _Program(eliminate_dead(computation), self.placement_of(options.device))
