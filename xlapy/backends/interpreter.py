"""The reference backend: each operation's numpy kernel, one instruction after the other.

It is the definition of what the operations mean, and imports no compiler.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.backends.base import Backend, CompileOptions, Executable
from xlapy.backends.evaluator import evaluator
from xlapy.backends.lockstep import HostQueues, Lockstep
from xlapy.errors import BackendError, shown
from xlapy.specs import TensorSpec
from xlapy.tensor import Placement, Tensor
from xlapy.trace.builder import host_array
from xlapy.trace.computation import Computation, subcomputations
from xlapy.trace.process_grid import is_communicating
from xlapy.trace.simplify import eliminate_dead

__all__ = ["Interpreter"]

Array = np.ndarray[Any, Any]


#: arrays that were deleted: they stay readable to whoever else holds them, but tensors refuse them
_deleted: dict[int, weakref.ref[Array]] = {}


def _require_alive(payloads: Sequence[Any]) -> None:
    for payload in payloads:
        if id(payload) in _deleted:
            spec = TensorSpec(payload.shape, payload.dtype)
            raise BackendError(
                f"an array must not be used after it was donated or deleted; got {spec} [X1]\n"
                "  pass a copy, or leave it out of donate_argnames"
            )


def _communicates(computation: Computation) -> bool:
    """Whether a kernel in a computation, or in one that it holds, has to do with other processes or the host."""
    found = computation.cache.get("communicates")
    if found is None:
        found = computation.cache["communicates"] = any(
            is_communicating(i.op.kernel) or any(map(_communicates, subcomputations(i.params)))
            for i in computation.instructions
        )
    answer: bool = found
    return answer


@final
class _Program(Executable):
    def __init__(
        self,
        computation: Computation,
        placement: Placement,
        options: CompileOptions,
        queues: HostQueues,
        device: int,
    ) -> None:
        self._computation = computation
        self._run = evaluator(computation)
        self.placed = tuple(placement.of(s) for s in computation.result_specs)
        self._dtypes = [
            s.dtype.numpy if type(s) is TensorSpec else None for s in computation.result_specs
        ]
        self._grid = (options.num_replicas, options.num_partitions)
        self._queues = queues
        self._device = device
        if self._grid != (1, 1):
            self.execute = self._execute_on_all  # type: ignore[method-assign]
        elif _communicates(computation):
            self.execute = self._execute_in_process  # type: ignore[method-assign]

    def execute(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """Run the kernels."""
        if _deleted:
            _require_alive(payloads)
        with np.errstate(all="ignore"):
            found = self._run(*payloads)
        return [r if d is None else _frozen(r, d) for r, d in zip(found, self._dtypes, strict=True)]

    def _execute_in_process(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """Run the kernels on one device, some of which ask for it."""
        (found,) = self._lockstep().run(lambda i: _Program.execute(self, payloads))
        return found  # type: ignore[no-any-return]

    def _execute_on_all(self, payloads: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Run the kernels once for each device, on its own payloads."""

        def run(i: int) -> Sequence[Any]:
            return _Program.execute(self, [p[i] for p in payloads])

        if _communicates(self._computation):
            found = self._lockstep().run(run)
        else:
            found = [run(i) for i in range(self._grid[0] * self._grid[1])]
        return [list(column) for column in zip(*found, strict=True)]

    def _lockstep(self) -> Lockstep:
        return Lockstep(*self._grid, self._queues, self._device)

    @property
    def optimized_hlo_text(self) -> str:
        """The computation: nothing is optimised here."""
        return repr(self._computation)


def _frozen(array: Any, dtype: np.dtype[Any]) -> Array:
    """A result as an array of its own type that nobody writes to; kernels may give views and scalars."""
    result = np.asarray(array, dtype).view()  # an array of its own, which may be deleted alone
    result.flags.writeable = False
    return result


@final
class Interpreter(Backend):
    """Runs computations with numpy.

    Parameters
    ----------
    num_devices : int, optional
        How many devices are listed; default ``XLAPY_NUM_INTERPRETER_DEVICES``, else 1. They are simulated, so a
        program may run over more of them than are listed.

    Raises
    ------
    BackendError
        If there would be no device.
    """

    def __init__(self, num_devices: int | None = None) -> None:
        self.name = "interpreter"
        self.placement = Placement(self)
        self._devices: Final = tuple(
            f"interpreter:{i}" for i in range(_count(num_devices, "XLAPY_NUM_INTERPRETER_DEVICES"))
        )
        self._queues: Final = HostQueues()

    @property
    def devices(self) -> Sequence[Any]:
        """Their names, such as ``"interpreter:0"``; the first one is the default."""
        return self._devices

    def placement_of(self, device: Any = None, sharding: Any = None) -> Placement:
        """The one `Placement` of a device or sharding."""
        # Named or not, the default device is one place.
        return super().placement_of(None if device == self._devices[0] else device, sharding)

    def group(self, count: int, first: Any = None) -> Sequence[Any]:
        """The same device each time, for what is simulated may be more than is listed."""
        return list(super().group(1, first)) * count

    def copy(self, payload: Any, device: Any) -> Any:
        """A view: nobody writes to it, and every device can read it."""
        if payload is None:
            return None
        _require_alive((payload,))
        return payload.view()

    def put(self, array: Array, spec: TensorSpec, device: Any = None) -> Array:
        """A read-only copy."""
        return _frozen(np.array(array, spec.dtype.numpy, order="C"), spec.dtype.numpy)

    def get(self, payload: Any) -> Array:
        """The array itself."""
        if not isinstance(payload, np.ndarray):
            kind = "a token" if payload is None else type(payload).__name__
            raise BackendError(f"what is read must be an array; got {kind} [X1]")
        if _deleted:
            _require_alive((payload,))
        return payload

    def block_until_ready(self, *payloads: Any) -> None:
        """Nothing to wait for."""
        _require_alive(payloads)

    def delete(self, payload: Any) -> None:
        """Let no tensor use an array any more."""
        if payload is not None:
            known = id(payload)
            _deleted[known] = weakref.ref(payload, lambda _: _deleted.pop(known, None))

    def compile(self, computation: Computation, options: CompileOptions) -> Executable:
        """Prepare the kernels.

        Raises
        ------
        BackendError
            If there is no such device.
        """
        name = self._devices[0] if options.device is None else options.device
        if name not in self._devices:
            raise BackendError(
                f"device must be one of {', '.join(self._devices)}; got {shown(name)} [X1]"
            )
        return _Program(
            eliminate_dead(computation),
            self.placement_of(options.device),
            options,
            self._queues,
            self._devices.index(name),
        )

    # --- the host's side --------------------------------------------------------------------------

    def transfer_to_infeed(self, value: Any, device_index: int = 0) -> None:
        """Leave a value for the next infeed of a device.

        Parameters
        ----------
        value : array-like or tuple of them
            What the infeed gives: one array, or a tuple, which may be nested.
        device_index : int
            For a program over several devices, the replica's number times the number of partitions, plus the
            partition's number.

        Examples
        --------
        >>> from xlapy.backends.interpreter import Interpreter
        >>> backend = Interpreter()
        >>> backend.transfer_to_infeed([1.0, 2.0])
        """
        self.put_in_queue("infeed", value, device_index)

    def transfer_from_outfeed(self, device_index: int = 0) -> Any:
        """The oldest value that outfeeds of a device left: an array, or a tuple as the outfeed's operands are.

        Raises
        ------
        BackendError
            If there is none.
        """
        return self.take_from_queue("outfeed", device_index)

    def put_in_queue(self, queue: str, value: Any, device_index: int = 0) -> None:
        """Leave a value in one of the queues by which a device hears from the host; see `transfer_to_infeed`."""
        self._queues.put(device_index, queue, _host_value(value))

    def take_from_queue(self, queue: str, device_index: int = 0) -> Any:
        """The oldest value in one of a device's queues; see `transfer_from_outfeed`."""
        try:
            return self._queues.take(device_index, queue)
        except IndexError:
            raise BackendError(
                f"a program must have left a value in queue {queue!r} of device {device_index}; got an"
                " empty one [X1]"
            ) from None


def _count(given: int | None, variable: str) -> int:
    text = os.environ.get(variable, "") or "1"
    count = given if given is not None else int(text) if text.isdecimal() else 0
    if count < 1:
        raise BackendError(
            f"the number of devices must be at least 1; got {text if given is None else given!r} [X1]"
        )
    return count


def _host_value(value: Any) -> Any:
    """A value as arrays that nobody writes to."""
    if isinstance(value, tuple):
        return tuple(map(_host_value, value))
    array = value.numpy() if type(value) is Tensor else host_array(value)
    return _frozen(np.array(array, order="C"), array.dtype)
