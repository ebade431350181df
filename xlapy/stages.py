"""The stages of a compiled function, to look at: recorded, then compiled."""

from __future__ import annotations

from typing import Any, final

from xlapy import tree
from xlapy.backends.base import Executable as Program
from xlapy.backends.constant_traps import without_traps
from xlapy.backends.eager import put
from xlapy.errors import BackendError, DTypeError
from xlapy.signatures import Signature, spec_of_leaf
from xlapy.tensor import Placement, Tensor
from xlapy.trace.computation import Computation
from xlapy.trace.process_grid import settled
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.stablehlo import to_stablehlo


@final
class Lowered:
    """A recorded function: its program, to look at or to compile.

    Attributes
    ----------
    computation : Computation
    """

    def __init__(
        self,
        function: Any,
        signature: Signature,
        entry: Any,
        placement: Placement,
        grid: Any = None,
        instance: Any = None,
    ) -> None:
        self._function = function
        self._instance = instance
        self._signature = signature
        self._entry = entry
        self._placement = placement
        self._grid = grid
        self.computation = entry.computation
        if grid is not None:
            self.computation = settled(entry.computation, grid.num_replicas, grid.num_partitions)

    @property
    def stablehlo_text(self) -> str:
        """The program as StableHLO."""
        return self._text_of(eliminate_dead(self.computation))

    @property
    def hlo_text(self) -> str:
        """The program as HLO, before optimisation."""
        from xlapy import _jaxlib

        # What translates it computes operations on constants, and ends the process where these divide by zero.
        given = self._text_of(without_traps(eliminate_dead(self.computation)))
        text: str = _jaxlib.to_hlo(_jaxlib.parse(given))
        return text

    def _text_of(self, computation: Computation) -> str:
        attributes = "" if self._grid is None else self._grid.module_attributes
        return to_stablehlo(computation, module_attributes=attributes)

    def compile(self) -> Executable:
        """Compile the program.

        Returns
        -------
        Executable
        """
        program = self._function._compile(self._entry, self._placement)
        return Executable(self, program)

    def __repr__(self) -> str:
        return repr(self.computation)


@final
class Executable:
    """A compiled program: call it with arguments of the signature that it was lowered for."""

    def __init__(self, lowered: Lowered, program: Program) -> None:
        self._lowered = lowered
        self._program = program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        lowered = self._lowered
        function = lowered._function
        signature = function._sign(args, kwargs, lowered._instance)
        tensors, placement = function._concrete(signature, lowered._placement.backend)
        expected = [spec_of_leaf(x) for x in lowered._signature.leaves]
        actual = [t.placed.spec for t in tensors]
        if signature.structure != lowered._signature.structure or expected != actual:
            raise DTypeError(
                f"{function._name}: arguments must be of the lowered signature {expected}; got {actual} [X1]"
            )
        if placement is not lowered._placement:
            if function._backend is None and any(type(x) is Tensor for x in signature.leaves):
                raise BackendError(
                    f"{function._name}: arguments must lie where the program was compiled for,"
                    f" {lowered._placement}; got {placement} [X1]\n  move them with x.to(...)"
                )
            tensors = [put(t.numpy(), lowered._placement) for t in tensors]
        entry = lowered._entry
        if entry.scalars:
            further = entry.scalars.values(
                signature.leaves, function._name, lambda: function._paths(signature)
            )
            tensors += [put(a, lowered._placement) for a in further]
        if entry.donated:
            entry.require_unshared(tensors, function._name, lambda: function._paths(signature))
        payloads = self._program.execute([t.payload for t in (*tensors, *entry.captured)])
        if entry.donated:
            entry.consume(tensors, signature.leaves)
        results = [Tensor(p, r) for p, r in zip(self._program.placed, payloads, strict=True)]
        return tree.unflatten(lowered._entry.out_structure, results)

    @property
    def optimized_hlo_text(self) -> str:
        """The program after XLA's optimisation."""
        return self._program.optimized_hlo_text

    def cost_analysis(self) -> dict[str, Any]:
        """XLA's estimates: ``flops``, ``bytes accessed`` and so on."""
        return self._program.cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        """The bytes that arguments, results, temporaries and code take."""
        return self._program.memory_analysis()
