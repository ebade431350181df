"""Python functions that programs call.

XLA may call them on threads of its own, after the call of the program has returned.
"""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np
from jaxlib import xla_client as xc

from xlapy._jaxlib.types import Array, Signature, listed, raised
from xlapy.errors import BackendError, callback_failure


class _Thread(threading.local):
    #: whether it runs a Python function for a program
    in_callback = False


#: of the current thread
thread: Final = _Thread()


def make_callback(
    function: Callable[..., Any], results: Sequence[Signature]
) -> Callable[..., tuple[Array, ...]]:
    """A host callback that checks what `function` returns, which XLA does not.

    Parameters
    ----------
    function : callable
        Takes read-only numpy arrays (None for a token) and returns an array, a sequence of them, or
        None.
    results : sequence of Signature
        The shapes and dtypes that the program expects.

    Returns
    -------
    callable
    """
    expected = tuple(results)

    def call(*arrays: Array | None) -> tuple[Array, ...]:
        before, thread.in_callback = thread.in_callback, True
        try:
            returned = function(*arrays)
        except Exception as error:
            raised.append(error)
            raise
        finally:
            thread.in_callback = before
        if returned is None:
            returned = ()
        elif not isinstance(returned, (tuple, list)):
            returned = (returned,)
        made = tuple(map(np.asarray, returned))
        found = tuple((a.shape, a.dtype) for a in made)
        if found != expected:
            raise TypeError(
                f"a host callback must return what the program expects, {listed(expected)}; got "
                f"{listed(found)}"
            )
        # XLA copies raw memory, whatever the strides.
        return tuple(np.asarray(a, order="C") for a in made)

    return call


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
            raise callback_failure(error) from error


#: held while a program over several devices waits for the one before it and is started, and while its functions run
turn: Final = threading.Lock()
#: what tells when the programs of one device that call functions are done, the last ones that were started
_under_way: Final[deque[Any]] = deque()
#: more than XLA lets be under way on a device
_MOST: Final = 64
_process: Final = os.getpid()
_at_end = False


def require_time() -> None:
    """Refuse to start a program that calls Python functions as the process ends."""
    if _at_end:
        raise BackendError(
            "a program that calls Python functions must not be run as the process ends; got such a call [X1]"
        )


def remember(token: Any) -> None:
    """Have the process end after a program of one device that calls Python functions.

    Parameters
    ----------
    token : object
        XLA's, which tells when it is done.
    """
    _under_way.append(token)
    if len(_under_way) > _MOST and not thread.in_callback:
        wait_for(_under_way.popleft())


def wait_for(token: Any) -> None:
    """Wait for a program. Its error is raised where its results are read."""
    with contextlib.suppress(xc.XlaRuntimeError):
        token.block_until_ready()


@atexit.register
def _end() -> None:
    """Wait for the functions: Python stops threads that come back to it after this, which ends the process badly."""
    global _at_end
    if os.getpid() != _process:
        return  # a fork has none of XLA's threads
    _at_end = True
    with turn:
        while _under_way:
            wait_for(_under_way.popleft())
