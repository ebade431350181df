"""`replicate`: one function run on several devices at once, each on its own part of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from xlapy.backends.base import Backend, CompileOptions, Executable
from xlapy.backends.eager import compile_checked
from xlapy.compilation import CompiledFunction
from xlapy.errors import DTypeError, ShapeError, TracingError, XlapyError
from xlapy.ops import indexing, joining, shaping
from xlapy.specs import Spec, TensorSpec, as_int, require
from xlapy.tensor import Placement
from xlapy.trace.builder import XlaBuilder, require_function
from xlapy.trace.computation import Computation

__all__ = ["replicate"]


def replicate(
    f: Callable[..., Any], *, num_replicas: int = 1, num_partitions: int = 1, backend: Any = None
) -> CompiledFunction:
    """Run a function on several devices at once, each with its own part of the arguments.

    It is recorded once, for one device; `xlapy.ops.replica_id` and `xlapy.ops.partition_id` tell the devices apart, and
    collectives such as `xlapy.ops.all_reduce` let them exchange data.

    Parameters
    ----------
    f : callable
        Of tensors in nested containers, returning the same: what each device runs.
    num_replicas, num_partitions : int
        The process grid: the program runs on ``n = num_replicas * num_partitions`` devices, the first ones of the
        backend.
    backend : str or Backend, optional
        Where to run; by default where the arguments lie.

    Returns
    -------
    CompiledFunction
        Its arguments and results are those of f with a leading axis of size n: part i belongs to replica
        ``i // num_partitions`` and partition ``i % num_partitions``. Tensors that f closes over are the same on each
        device. It returns before the devices are done, unless f calls Python functions.

    Raises
    ------
    ConstraintError
        If there is not at least one replica and one partition.
    BackendError
        When called, if the backend has fewer devices; ``XLAPY_NUM_CPU_DEVICES`` says how many the CPU has.
    ShapeError
        When called, if an argument lacks the leading axis.
    TracingError
        When called within a function that is being compiled or transformed.

    Notes
    -----
    Derivatives go inside: ``replicate(grad(f))``.

    Examples
    --------
    >>> import xlapy
    >>> double = xlapy.replicate(lambda x: x + x, num_replicas=2, backend="interpreter")
    >>> double(xlapy.asarray([[1.0, 2.0], [3.0, 4.0]], device="interpreter"))
    Tensor([[2., 4.],
            [6., 8.]], f32[2,2])
    """
    require_function(f, "replicate: f")
    grid = Grid(_count(num_replicas, "num_replicas"), _count(num_partitions, "num_partitions"))
    return CompiledFunction(f, backend=backend, grid=grid)


def _count(given: Any, what: str) -> int:
    """A positive number, which may be one of numpy's."""
    try:
        count = as_int(given)
    except XlapyError:
        count = 0
    require(count > 0, "X1", f"replicate: {what} must be a positive integer", given)
    return count


@final
class Grid(NamedTuple):
    """The replicas and partitions that run a program together."""

    num_replicas: int
    num_partitions: int

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.num_replicas * self.num_partitions

    @property
    def module_attributes(self) -> str:
        """What a StableHLO module says of it."""
        return (
            f"mhlo.num_replicas = {self.num_replicas} : i32,"
            f" mhlo.num_partitions = {self.num_partitions} : i32"
        )

    def refuse_within(self, outer: str, name: str) -> None:
        """Refuse a call within a trace: a program runs on the devices that it was compiled for."""
        raise TracingError(
            f"{name}: a replicated function must not be called within another one; got a call within {outer!r} [X1]\n"
            "  write replicate(grad(f)), not grad(replicate(f)), and call a compiled function inside f"
        )

    def part(self, spec: Spec, path: str, name: str) -> Spec:
        """The spec of one device's part of an argument."""
        if type(spec) is not TensorSpec:
            raise DTypeError(
                f"{name}: an argument of a replicated function must be an array; got {spec} for {path} [X1]"
            )
        if not spec.shape or spec.shape[0] != self.size:
            raise ShapeError(
                f"{name}: each argument must have a leading axis of size {self.size}, one part for each device of"
                f" {self.num_replicas} replicas x {self.num_partitions} partitions; got {spec} for {path} [X1]"
            )
        return TensorSpec(spec.shape[1:], spec.dtype)

    def devices(self, placement: Placement) -> Sequence[Any]:
        """The devices that the program runs on.

        Raises
        ------
        BackendError
            If there are not enough.
        """
        backend: Backend = placement.backend
        return backend.group(self.size)

    def compile(
        self, computation: Computation, captured: int, placement: Placement, name: str
    ) -> Executable:
        """The program that takes stacked arguments, and tensors that are the same on each device."""
        for spec in computation.result_specs:
            if type(spec) is not TensorSpec or not spec.is_static:
                raise DTypeError(
                    f"{name}: a replicated function must return arrays of known shape; got {spec} [X1]"
                )
        options = CompileOptions(num_replicas=self.num_replicas, num_partitions=self.num_partitions)
        backend: Backend = placement.backend
        program = compile_checked(computation, backend.placement, options)
        return _StackedProgram(program, computation, captured, placement, self.devices(placement))


@final
class _StackedProgram(Executable):
    """A program over several devices whose arguments and results lie on one, stacked."""

    def __init__(
        self,
        program: Executable,
        computation: Computation,
        captured: int,
        placement: Placement,
        devices: Sequence[Any],
    ) -> None:
        backend: Backend = placement.backend
        count = len(devices)
        here = backend.devices[0] if placement.device is None else placement.device
        given = computation.parameter_specs[: len(computation.parameters) - captured]
        self._program = program
        self._arguments = len(given)
        #: for each device: whether it is another one than that of the arguments and results
        self._away = [None if d is here else d for d in devices]
        self._here = here
        self._copy = backend.copy
        self._split = _compiled(_splitting(given, count), placement)
        self._stack = _compiled(_stacking(computation.result_specs, count), placement)
        self._captured: tuple[list[Any], list[Any]] = ([], [])
        self.placed = tuple(placement.of(_stacked(s, count)) for s in computation.result_specs)

    def execute(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """Take the arguments apart, run the program on all devices, and stack its results."""
        arguments = self._arguments
        away = self._away
        count = len(away)
        copy = self._copy
        parts = self._split(payloads[:arguments])
        columns: list[Any] = [
            [
                part if device is None else copy(part, device)
                for part, device in zip(parts[start : start + count], away, strict=True)
            ]
            for start in range(0, arguments * count, count)
        ]
        columns.extend(self._everywhere(payloads[arguments:]))
        if count == 1:
            found: Any = [[r] for r in self._program.execute([c[0] for c in columns])]
        else:
            found = self._program.execute(columns)
        here = self._here
        return self._stack(
            [
                part if device is None else copy(part, here)
                for column in found
                for part, device in zip(column, away, strict=True)
            ]
        )

    def _everywhere(self, payloads: Sequence[Any]) -> list[list[Any]]:
        """Captured tensors on each device; they are the same ones at each call."""
        known, columns = self._captured
        if len(known) != len(payloads) or any(
            a is not b for a, b in zip(known, payloads, strict=True)
        ):
            columns = [[p if d is None else self._copy(p, d) for d in self._away] for p in payloads]
            self._captured = (list(payloads), columns)
        return columns

    @property
    def optimized_hlo_text(self) -> str:
        """The program of one device."""
        return self._program.optimized_hlo_text

    def cost_analysis(self) -> dict[str, Any]:
        """The compiler's estimates for one device."""
        return self._program.cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        """The bytes that one device's part takes."""
        return self._program.memory_analysis()


def _stacked(spec: Any, count: int) -> TensorSpec:
    return TensorSpec((count, *spec.shape), spec.dtype)


def _compiled(
    computation: Computation, placement: Placement
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if not computation.parameters:
        return lambda payloads: []
    options = CompileOptions(device=placement.device)
    return compile_checked(computation, placement, options).execute


def _splitting(specs: Sequence[Any], count: int) -> Computation:
    """From stacked arrays to the parts of the first one, then of the second, and so on."""
    builder = XlaBuilder("split")
    parts: list[Any] = []
    for number, spec in enumerate(specs):
        x = builder.parameter(number, _stacked(spec, count))
        for i in range(count):
            start, limit = (i, *[0] * spec.rank), (i + 1, *spec.shape)
            row = indexing.slice(x, start, limit, (1,) * len(start))
            parts.append(shaping.reshape(row, spec.shape))
    return builder.finish([builder.value(x) for x in parts])


def _stacking(specs: Sequence[Any], count: int) -> Computation:
    """The way back."""
    builder = XlaBuilder("stack")
    wholes: list[Any] = []
    for number, spec in enumerate(specs):
        rows = [
            shaping.reshape(builder.parameter(number * count + i, spec), (1, *spec.shape))
            for i in range(count)
        ]
        wholes.append(joining.concatenate(rows, 0))
    return builder.finish([builder.value(x) for x in wholes])
