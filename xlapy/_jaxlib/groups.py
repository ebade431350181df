"""Programs over several devices: run so that the devices never wait for each other in vain.

Devices that meet in a collective wait for each other without end, and XLA may end the process after a while. So all
devices have to get their programs in one order, and nothing may keep one of them from the next meeting: neither an
argument that could not be computed, nor a Python function that fails, nor too few threads (see `cpu_client`).
"""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np
from jaxlib import xla_client as xc

from xlapy._jaxlib.arrays import (
    assemble,
    block_until_ready,
    buffers_stay,
    check_alive,
    part,
    placement,
)
from xlapy._jaxlib.executables import check_results, make_callback, thread
from xlapy._jaxlib.types import (
    Array,
    Buffer,
    Client,
    Device,
    Executable,
    Signature,
    fail,
)
from xlapy.errors import BackendError

_PartsOfAll = Sequence[Sequence[Buffer]]

#: held while a program waits for the one before it and is started, and while its Python functions run
_turn: Final = threading.Lock()
#: the client that ran a program over several devices last, and what tells when that is done
_latest: tuple[weakref.ref[Any], Any] | None = None
#: the clients that may have arguments to come that can not be computed
_doubtful: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def doubt_arguments(client: Client) -> None:
    """Have programs over several devices wait for their arguments, for those of one may fail from now on.

    A device for which an argument could not be computed does not come to the meetings.
    """
    _doubtful.add(client)


@final
class GuardedCallbacks:
    """Python functions that devices call, whose errors wait until every device is done.

    Attributes
    ----------
    functions : list of callable
        For `compile`.
    """

    def __init__(self, functions: Sequence[tuple[Callable[..., Any], Sequence[Signature]]]) -> None:
        self.functions = [self._guard(f, results) for f, results in functions]
        self._errors: list[BaseException] = []

    def _guard(
        self, function: Callable[..., Any], results: Sequence[Signature]
    ) -> Callable[..., tuple[Array, ...]]:
        checked = make_callback(function, results)
        instead = tuple(np.zeros(shape, dtype) for shape, dtype in results)

        def call(*arrays: Array | None) -> tuple[Array, ...]:
            try:
                return checked(*arrays)
            except BaseException as error:
                # Without a result this device would not come to the next meeting.
                self._errors.append(error)
                return instead

        return call

    def forget_errors(self) -> None:
        """Leave out what an interrupted run has left."""
        self._errors.clear()

    def raise_error(self) -> None:
        """Raise the first error of a run that is done."""
        if self._errors:
            error = self._errors[0]
            self._errors.clear()
            raise BackendError(
                f"a host callback must not fail; got {type(error).__name__}: {error} [X1]"
            ) from error


def make_group_runner(
    executable: Executable,
    results: Sequence[Signature],
    devices: Sequence[Device],
    callbacks: GuardedCallbacks | None = None,
) -> Callable[[_PartsOfAll], list[list[Buffer]]]:
    """The function that runs a program on several devices, each with arguments and results of its own.

    It takes for each parameter the buffer on each device, in the order of `devices`, and gives the
    same for each result. It returns before the computation is done, unless there are callbacks. The
    number, specs and devices of the buffers are the caller's to check.

    Parameters
    ----------
    executable : Executable
    results : sequence of Signature
        The specs of the results on one device.
    devices : sequence of Device
    callbacks : GuardedCallbacks, optional

    Raises
    ------
    BackendError
        If the results are not what was compiled: they would be read as garbage.
    """
    on = list(devices)
    where = placement(on)
    check_results(executable, results)
    handlers = [_handler(shape, dtype, on) for shape, dtype in results]
    client = weakref.ref(on[0].client)
    is_cpu = on[0].platform == "cpu"

    def run(parameters: _PartsOfAll) -> list[list[Buffer]]:
        global _latest
        # It has one of XLA's threads, or a device that would be waited for.
        if thread.in_callback:
            raise BackendError(
                "a host callback must not run a program over several devices, for which they may not be free; got such"
                " a call [X1]"
            )
        given = [b for parts in parameters for b in parts]
        if is_cpu and client() in _doubtful:
            block_until_ready(given)
        try:
            with _turn:
                # Devices take the programs of one client in order, those of two in orders that may differ.
                if _latest is not None and _latest[0]() is not client():
                    _wait(_latest[1])
                if callbacks is not None:
                    callbacks.forget_errors()
                with buffers_stay if callbacks is None else contextlib.nullcontext():
                    check_alive(*given)
                    buffers = [assemble(parts, parts[0].aval.shape, where) for parts in parameters]
                    done = executable.execute_sharded(buffers, with_tokens=True)
                token = done.consume_token()
                _latest = client, token
                found = done.consume_with_handlers(handlers)
                if callbacks is not None:
                    token.block_until_ready()
                    callbacks.raise_error()
        except (xc.XlaRuntimeError, ValueError) as error:
            check_alive(*given)
            fail(error, "a computation must run to its end")
        return found

    return run


def _wait(token: Any) -> None:
    # Its error is raised where that program's results are read.
    with contextlib.suppress(xc.XlaRuntimeError):
        token.block_until_ready()


def _handler(
    shape: tuple[int, ...], dtype: np.dtype[Any], devices: list[Device]
) -> Callable[[list[Any]], list[Buffer]]:
    def take(parts: list[Any]) -> list[Buffer]:
        return [part(p, shape, dtype, d) for p, d in zip(parts, devices, strict=True)]

    return take
