"""Programs over several devices: run so that the devices never wait for each other in vain.

Devices that meet in a collective wait for each other without end, and XLA may end the process after a while. So all
devices have to get their programs in one order, and nothing may keep one of them from the next meeting: neither an
argument that could not be computed, nor a Python function that fails, nor too few threads (see `cpu_client`).
"""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jaxlib import xla_client as xc

from xlapy._jaxlib.arrays import (
    assemble,
    buffers_stay,
    check_alive,
    part,
    placement,
)
from xlapy._jaxlib.callbacks import GuardedCallbacks, require_time, thread, turn, wait_for
from xlapy._jaxlib.executables import check_results
from xlapy._jaxlib.types import (
    Buffer,
    Client,
    Device,
    Executable,
    Signature,
    fail,
)
from xlapy.errors import BackendError

_PartsOfAll = Sequence[Sequence[Buffer]]

#: the client that ran a program over several devices last, and what tells when that is done
_latest: tuple[weakref.ref[Any], Any] | None = None
#: the clients that may have arguments to come that can not be computed
_doubtful: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def doubt_arguments(client: Client) -> None:
    """Have programs over several devices wait for their arguments, which from now on may be results of one that fails.

    A device for which an argument could not be computed does not come to the meetings.
    """
    _doubtful.add(client)


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
        try:
            check_alive(*given)
            buffers = [assemble(parts, parts[0].aval.shape, where) for parts in parameters]
            if is_cpu and client() in _doubtful:
                # These are its own: 0.10.2 does not survive a wait for what another thread deletes.
                xc.batched_block_until_ready(buffers)
            with turn:
                # Devices take the programs of one client in order, those of two in orders that may differ.
                if _latest is not None and _latest[0]() is not client():
                    wait_for(_latest[1])
                if callbacks is not None:
                    require_time()
                    callbacks.forget_errors()
                with buffers_stay if callbacks is None else contextlib.nullcontext():
                    check_alive(*given)
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


def _handler(
    shape: tuple[int, ...], dtype: np.dtype[Any], devices: list[Device]
) -> Callable[[list[Any]], list[Buffer]]:
    def take(parts: list[Any]) -> list[Buffer]:
        return [part(p, shape, dtype, d) for p, d in zip(parts, devices, strict=True)]

    return take
