"""Programs over several devices: run so that the devices never wait for each other in vain.

Devices that meet in a collective wait for each other without end; XLA's processes for the CPU end
the whole process instead, after a while. So all devices have to get their programs in one order,
and a Python function that fails on one of them must not keep it from the next meeting.
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

from xlapy._jaxlib.arrays import assemble, check_alive, part, placement
from xlapy._jaxlib.executables import check_results, make_callback
from xlapy._jaxlib.types import Array, Buffer, Device, Executable, Signature, fail
from xlapy.errors import BackendError

_PartsOfAll = Sequence[Sequence[Buffer]]

#: held while a program is handed to its devices: in each client they have one order of programs
_handing_over: Final = threading.Lock()
#: the client that ran a program over several devices last, and what tells when that is done
_latest: tuple[weakref.ref[Any], Any] | None = None
_in_callback = threading.local()


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
        #: held during a run, so that an error belongs to it
        self.running = threading.Lock()

    def _guard(
        self, function: Callable[..., Any], results: Sequence[Signature]
    ) -> Callable[..., tuple[Array, ...]]:
        checked = make_callback(function, results)
        instead = tuple(np.zeros(shape, dtype) for shape, dtype in results)

        def call(*arrays: Array | None) -> tuple[Array, ...]:
            _in_callback.value = True
            try:
                return checked(*arrays)
            except BaseException as error:
                # Without a result this device would not come to the next meeting.
                self._errors.append(error)
                return instead
            finally:
                _in_callback.value = False

        return call

    def raise_error(self) -> None:
        """Raise the first error since the last time."""
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

    def run(parameters: _PartsOfAll) -> list[list[Buffer]]:
        global _latest
        _refuse_in_callback()
        given = [b for parts in parameters for b in parts]
        try:
            with _handing_over:
                # 0.10.2 does not survive a donated one.
                check_alive(*given)
                buffers = [assemble(parts, parts[0].aval.shape, where) for parts in parameters]
                if _latest is not None and _latest[0]() is not client():
                    _wait(_latest[1])
                # Clients share threads: two of them that wait on meetings may leave none for the rest.
                done = executable.execute_sharded(buffers, with_tokens=True)
                token = done.consume_token()
                _latest = client, token
                found = done.consume_with_handlers(handlers)
            if callbacks is not None:
                token.block_until_ready()
        except (xc.XlaRuntimeError, ValueError) as error:
            check_alive(*given)
            fail(error, "a computation must run to its end")
        return found

    if callbacks is None:
        return run

    def run_guarded(parameters: _PartsOfAll) -> list[list[Buffer]]:
        _refuse_in_callback()
        with callbacks.running:
            found = run(parameters)
            callbacks.raise_error()
        return found

    return run_guarded


def _refuse_in_callback() -> None:
    if getattr(_in_callback, "value", False):
        raise BackendError(
            "a host callback of a program over several devices must not run another one, for which "
            "the devices are not free; got such a call [X1]"
        )


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
