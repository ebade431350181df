"""Simulated devices that run one program together: a thread for each, of which one runs at a time.

A process runs until it has to wait for another one or is done, and the next one that can go on follows. So what
happens, and in which order, depends on the program alone; and when nobody can go on it is known at once.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from xlapy.errors import BackendError
from xlapy.source import locate
from xlapy.trace.mode import annotate
from xlapy.trace.process_grid import Place, Process, entered

if TYPE_CHECKING:
    from xlapy.trace.computation import Instruction

__all__ = ["HostQueues", "Lockstep", "SimulatedProcess"]

#: where processes meet or leave values for each other: an operation at an instruction, or of a channel
_Spot: TypeAlias = tuple[Any, ...]


@final
class HostQueues:
    """What the host and the devices leave for each other: first in, first out, by device and name."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int, str], deque[Any]] = defaultdict(deque)
        self._lock = threading.Lock()

    def put(self, device: int, queue: str, value: Any) -> None:
        """Leave a value."""
        with self._lock:
            self._queues[device, queue].append(value)

    def take(self, device: int, queue: str) -> Any:
        """The oldest value.

        Raises
        ------
        IndexError
            If there is none.
        """
        with self._lock:
            return self._queues[device, queue].popleft()


class _Aborted(BaseException):
    """Ends a process because another one failed."""


@final
class SimulatedProcess(Process):
    """One device's run of a program, beside the others of its `Lockstep`."""

    def __init__(self, group: Lockstep, index: int) -> None:
        self.replica, self.partition = divmod(index, group.num_partitions)
        self.num_replicas = group.num_replicas
        self.num_partitions = group.num_partitions
        self.index = index
        self.result: Any = None
        self.is_done = False
        #: what it waits for; None while it can run
        self.waits_for: tuple[Instruction, str] | None = None
        #: what it got when the waiting was over
        self.received: Any = None
        #: held while it must not run
        self.turn = threading.Lock()
        self.turn.acquire()
        self._group = group

    def check_running(self) -> None:
        """End if the run was interrupted."""
        self._group.check_running()

    def exchange(
        self, site: Instruction, channel: int, group: Sequence[Place], value: Any
    ) -> Sequence[Any]:
        """Wait for the others of the group."""
        return self._group.exchange(self, site, channel, tuple(group), value)

    def send(self, site: Instruction, channel: int, target: Place, value: Any) -> None:
        """Leave the value in a queue."""
        self._group.send(self, site, channel, target, value)

    def receive(self, site: Instruction, channel: int, source: Place) -> Any:
        """Wait for a value in a queue."""
        return self._group.receive(self, site, channel, source)

    def host_receive(self, site: Instruction, queue: str) -> Any:
        """The value, which the host must have left already."""
        device = self._group.first_device + self.index
        try:
            return self._group.queues.take(device, queue)
        except IndexError:
            error = BackendError(
                f"the host must have left a value in queue {queue!r} of device {device}; got an empty one [X1]"
            )
            specs = [v.spec for v in site.operands]
            raise annotate(error, site.op.name, specs, site.source) from None

    def host_send(self, site: Instruction, queue: str, value: Any) -> None:
        """Leave the value for the host."""
        self._group.queues.put(self._group.first_device + self.index, queue, value)

    def __str__(self) -> str:
        if self.num_partitions == 1:
            return f"replica {self.replica}"
        if self.num_replicas == 1:
            return f"partition {self.partition}"
        return f"replica {self.replica} partition {self.partition}"


@final
class Lockstep:
    """Runs a function once for each process of a grid, the processes seeing each other.

    Parameters
    ----------
    num_replicas, num_partitions : int
    queues : HostQueues
    first_device : int
        The number of the device that the first process runs on.
    """

    def __init__(
        self, num_replicas: int, num_partitions: int, queues: HostQueues, first_device: int = 0
    ) -> None:
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        self.queues = queues
        self.first_device = first_device
        count = num_replicas * num_partitions
        self.processes: Final = [SimulatedProcess(self, i) for i in range(count)]
        self._meetings: dict[_Spot, dict[Place, Any]] = {}
        self._mail: dict[_Spot, deque[Any]] = defaultdict(deque)
        self._receivers: dict[_Spot, SimulatedProcess] = {}
        self._current = 0
        self._error: BaseException | None = None

    # --- running --------------------------------------------------------------------------------

    def run(self, function: Callable[[int], Any]) -> list[Any]:
        """What the function gives for the number of each process.

        Raises
        ------
        BackendError
            If processes wait for what can never come.
        Exception
            The first that a process raised; the other processes are ended then.
        """
        if len(self.processes) == 1:
            # In the caller's thread: there is nobody to wait for.
            with entered(self.processes[0]):
                return [function(0)]
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(self._run_one, p, function),
                name=f"xlapy {p}",
                daemon=True,
            )
            for p in self.processes
        ]
        started = 0
        is_begun = False
        try:
            for thread in threads:
                thread.start()
                started += 1
            self.processes[0].turn.release()
            is_begun = True
            for thread in threads:
                # A signal that comes just before the waiting begins does not end it.
                while thread.is_alive():
                    thread.join(0.5)
        except BaseException as error:  # an interrupt, or no more threads
            # Each process ends when it is its turn; nobody waits for the one that runs now. It
            # ends where it meets another one, or in the next round of a loop.
            if self._error is None:
                self._error = error
            for process in self.processes[started:]:
                process.is_done = True
            if not is_begun:
                self._pass_on()
            raise
        if self._error is not None:
            raise self._error
        return [p.result for p in self.processes]

    def check_running(self) -> None:
        """End the process that asks if the run was interrupted."""
        if self._error is not None:
            raise _Aborted

    def _run_one(self, process: SimulatedProcess, function: Callable[[int], Any]) -> None:
        process.turn.acquire()
        try:
            if self._error is None:
                with entered(process):
                    process.result = function(process.index)
        except _Aborted:
            pass
        except BaseException as error:
            if self._error is None:
                error.add_note(f"in {process}")
                self._error = error
        finally:
            process.is_done = True
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the next process go on that can; after an error each in turn, to end."""
        count = len(self.processes)
        for _ in range(2):
            for step in range(1, count + 1):
                process = self.processes[(self._current + step) % count]
                if process.is_done or (process.waits_for is not None and self._error is None):
                    continue
                self._current = process.index
                process.turn.release()
                return
            if all(p.is_done for p in self.processes):
                return
            self._error = self._deadlock()

    def _wait(self, process: SimulatedProcess, site: Instruction, what: str) -> Any:
        """Let others run until one has brought what a process waits for."""
        process.waits_for = (site, what)
        if len(self.processes) == 1:
            raise self._deadlock()
        self._pass_on()
        process.turn.acquire()
        self.check_running()
        found, process.received = process.received, None
        return found

    def _deadlock(self) -> BackendError:
        """The error that says where each process stands."""
        lines, separator = [], ",\n  "
        for process in self.processes:
            if process.waits_for is None:
                lines.append(f"{process} has finished")
            else:
                site, what = process.waits_for
                lines.append(f"{process} waits at {site.op.name}{_place(site)} for {what}")
        error = BackendError(
            f"processes must not wait for what never comes; got\n  {separator.join(lines)} [X1]"
        )
        error.annotated = True
        return error

    # --- what processes do --------------------------------------------------------------------------

    def exchange(
        self,
        process: SimulatedProcess,
        site: Instruction,
        channel: int,
        group: tuple[Place, ...],
        value: Any,
    ) -> Sequence[Any]:
        """The values of a group; the last one to come gives them to the others."""
        spot = (*_spot(site, channel), group)
        meeting = self._meetings.setdefault(spot, {})
        meeting[process.place] = value
        if len(meeting) < len(group):
            members = ", ".join(map(str, (self._at(p) for p in group)))
            found: Sequence[Any] = self._wait(process, site, f"the group of {members}")
            return found
        del self._meetings[spot]
        values = tuple([meeting[p] for p in group])
        for place in group:
            if place != process.place:
                self._give(self._at(place), values)
        return values

    def send(
        self, process: SimulatedProcess, site: Instruction, channel: int, target: Place, value: Any
    ) -> None:
        """Into the hands of the process that waits for it, or into a queue."""
        spot = (channel, process.place, target)
        receiver = self._receivers.pop(spot, None)
        if receiver is None:
            self._mail[spot].append(value)
        else:
            self._give(receiver, value)

    def receive(
        self, process: SimulatedProcess, site: Instruction, channel: int, source: Place
    ) -> Any:
        """What was sent over the channel; waits where nothing was yet."""
        spot = (channel, source, process.place)
        if self._mail[spot]:
            return self._mail[spot].popleft()
        self._receivers[spot] = process
        return self._wait(process, site, f"what {self._at(source)} sends over channel {channel}")

    def _at(self, place: Place) -> SimulatedProcess:
        return self.processes[place[0] * self.num_partitions + place[1]]

    def _give(self, process: SimulatedProcess, value: Any) -> None:
        process.received = value
        process.waits_for = None


def _spot(site: Instruction, channel: int) -> _Spot:
    return (site.op, channel) if channel > 0 else (site.op, site)


def _place(site: Instruction) -> str:
    location = locate(site.source)
    return "" if location is None else f" ({os.path.basename(location.file)}:{location.line})"
