"""The devices that run a program together, as a kernel sees them: who am I, and what do the others have.

StableHLO calls one device's run of the program a process, at a place in a grid of replicas and partitions. A backend
that runs kernels makes a `Process` for each and enters it around the run; kernels that have to do with other
processes or with the host ask `current_process`.
"""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, final

from xlapy.errors import BackendError, XlapyError
from xlapy.specs import Spec
from xlapy.trace.computation import Computation, Instruction, subcomputations, with_params
from xlapy.trace.mode import annotate

__all__ = [
    "AloneProcess",
    "Place",
    "Process",
    "communicating",
    "current_process",
    "entered",
    "is_communicating",
    "settled",
    "settled_by",
]

#: (replica, partition)
Place: TypeAlias = tuple[int, int]
#: ``settle(specs, params, num_replicas, num_partitions)`` gives the parameters
Settle: TypeAlias = Callable[[Sequence[Spec], Mapping[str, Any], int, int], Mapping[str, Any]]
_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])


class Process(abc.ABC):
    """One device's run of a program.

    Attributes
    ----------
    replica, partition : int
        Its place in the grid.
    num_replicas, num_partitions : int
        The size of the grid.
    """

    replica: int
    partition: int
    num_replicas: int
    num_partitions: int

    @property
    def place(self) -> Place:
        """The pair of replica and partition."""
        return self.replica, self.partition

    @abc.abstractmethod
    def check_running(self) -> None:
        """End the process if nobody waits for its result any more; loops that may have no end ask in each round."""

    @abc.abstractmethod
    def exchange(
        self, site: Instruction, channel: int, group: Sequence[Place], value: Any
    ) -> Sequence[Any]:
        """Give a value to each process of a group and get theirs, in the group's order.

        Parameters
        ----------
        site : Instruction
            Where this happens: processes meet at the same instruction, or, where `channel` is positive, at
            instructions of the same channel. An error names its source line.
        channel : int
        group : sequence of Place
            The processes that meet, this one among them; all of them must give the same group.
        value : any
            Not written to afterwards.

        Raises
        ------
        BackendError
            If the others can never come: the deadlock, with the line that each process waits at.
        """

    @abc.abstractmethod
    def send(self, site: Instruction, channel: int, target: Place, value: Any) -> None:
        """Leave a value for another process; waits for nothing."""

    @abc.abstractmethod
    def receive(self, site: Instruction, channel: int, source: Place) -> Any:
        """The value that another process sent, waiting for it; values arrive in the order of sending."""

    @abc.abstractmethod
    def host_receive(self, site: Instruction, queue: str) -> Any:
        """The next value that the host left in one of this device's queues, such as ``"infeed"``."""

    @abc.abstractmethod
    def host_send(self, site: Instruction, queue: str, value: Any) -> None:
        """Leave a value for the host in one of this device's queues, such as ``"outfeed"``."""


@final
class AloneProcess(Process):
    """The only process of a program, away from any backend: it meets itself, and no host is there."""

    def __init__(self) -> None:
        self.replica = self.partition = 0
        self.num_replicas = self.num_partitions = 1

    def check_running(self) -> None:
        """It runs in the caller's thread."""

    def exchange(
        self, site: Instruction, channel: int, group: Sequence[Place], value: Any
    ) -> Sequence[Any]:
        """Its own value."""
        if len(group) != 1:
            raise _nobody(site)
        return [value]

    def send(self, site: Instruction, channel: int, target: Place, value: Any) -> None:
        """There is nobody."""
        raise _nobody(site)

    def receive(self, site: Instruction, channel: int, source: Place) -> Any:
        """There is nobody."""
        raise _nobody(site)

    def host_receive(self, site: Instruction, queue: str) -> Any:
        """There is nobody."""
        raise _nobody(site)

    def host_send(self, site: Instruction, queue: str, value: Any) -> None:
        """There is nobody."""
        raise _nobody(site)


def _nobody(site: Instruction) -> BackendError:
    return BackendError(
        f"communicating operations must run on a backend's device; got a bare {site.op.name} [X1]"
    )


_ALONE: Final = AloneProcess()
_running = threading.local()


def current_process() -> Process:
    """The process that this thread runs."""
    found: Process = getattr(_running, "process", _ALONE)
    return found


@contextlib.contextmanager
def entered(process: Process) -> Iterator[None]:
    """Let this thread run a process until the context ends."""
    before = current_process()
    _running.process = process
    try:
        yield
    finally:
        _running.process = before


def communicating(kernel: _Kernel) -> _Kernel:
    """Mark a kernel that has to do with other processes or the host: it gets its instruction as ``site=``."""
    kernel.communicating = True  # type: ignore[attr-defined]
    return kernel


def is_communicating(kernel: Callable[..., Any]) -> bool:
    """Whether a kernel is marked."""
    return getattr(kernel, "communicating", False)


# --- what depends on the size of the grid ---------------------------------------------------------------------------


def settled_by(settle: Settle) -> Callable[[_Kernel], _Kernel]:
    """Say how the parameters of a kernel's operation depend on the grid that it runs on.

    Parameters
    ----------
    settle : callable
        ``settle(specs, params, num_replicas, num_partitions)`` refuses what does not fit the grid, and gives the
        parameters with nothing left open: the same object if nothing was.
    """

    def mark(kernel: _Kernel) -> _Kernel:
        kernel.settle = settle  # type: ignore[attr-defined]
        return kernel

    return mark


def settled(computation: Computation, num_replicas: int, num_partitions: int) -> Computation:
    """The computation for a grid of a known size, after checking that it fits.

    Parameters
    ----------
    computation : Computation
    num_replicas, num_partitions : int

    Returns
    -------
    Computation
        The same object if nothing in it depends on the grid.

    Raises
    ------
    ConstraintError
        If an operation does not fit the grid.
    """
    if not _depends_on_grid(computation):
        return computation

    def settle(instruction: Instruction) -> Mapping[str, Any]:
        found: Settle | None = getattr(instruction.op.kernel, "settle", None)
        if found is None:
            return instruction.params
        specs = [v.spec for v in instruction.operands]
        try:
            return found(specs, instruction.params, num_replicas, num_partitions)
        except XlapyError as error:
            raise annotate(error, instruction.op.name, specs, instruction.source) from None

    return with_params(computation, settle)


def _depends_on_grid(computation: Computation) -> bool:
    """Whether there is an operation in it that `settled_by` is said of."""
    found: bool | None = computation.cache.get("depends on the grid")
    if found is None:
        found = computation.cache["depends on the grid"] = any(
            hasattr(i.op.kernel, "settle")
            or (i.params and any(map(_depends_on_grid, subcomputations(i.params))))
            for i in computation.instructions
        )
    return found
