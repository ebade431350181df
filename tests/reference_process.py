"""StableHLO's reference interpreter in a process of its own, for it ends its process on what it does not know.

The process is started at the first program, and anew by the program after one that it did not survive.
"""

from __future__ import annotations

import atexit
import functools
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import IO, Any, final

import numpy as np

Array = np.ndarray[Any, Any]
#: seconds; a case takes milliseconds
LIMIT = 120.0


class EvaluationError(Exception):
    """The interpreter gave no results: it refused the program, died of it, or took too long."""


@final
class ReferenceInterpreter:
    """Runs programs one after another in a child process."""

    def __init__(self, limit: float = LIMIT) -> None:
        self._limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._log: IO[bytes] | None = None

    def evaluate(self, program: str, arrays: Sequence[Array], passes: str = "") -> list[Array]:
        """The results of a module's ``main``.

        Parameters
        ----------
        program : str
            The text of a StableHLO module.
        arrays : sequence of numpy.ndarray
        passes : str
            MLIR passes that are run on the module first.

        Raises
        ------
        EvaluationError
        """
        return self._ask(program, passes, list(arrays), None)

    def evaluate_grid(
        self,
        program: str,
        arrays: Sequence[Sequence[Array]],
        num_partitions: int = 1,
        passes: str = "",
    ) -> list[list[Array]]:
        """The results of a module's ``main`` on each of several devices, which may communicate.

        Parameters
        ----------
        program : str
        arrays : sequence of sequences of numpy.ndarray
            Of each device, the partitions of a replica beside each other.
        num_partitions : int
            Of each replica.
        passes : str

        Raises
        ------
        EvaluationError
        """
        return self._ask(program, passes, [list(a) for a in arrays], num_partitions)

    def _ask(self, *request: Any) -> Any:
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._connection is not None
        try:
            self._connection.send(request)
            if not self._connection.poll(self._limit):
                self.close()
                raise EvaluationError(f"the reference interpreter took more than {self._limit} s")
            error, results = self._connection.recv()
        except (EOFError, ConnectionError):
            code, log = self._process.wait(), self._read_log()
            self.close()
            end = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise EvaluationError(f"the reference interpreter died ({end}): {log}") from None
        if error:
            raise EvaluationError(error)
        return results

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as the process
            # -P: the directory of the tests is no place to import from; it has a `numpy` of its own.
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
        self._connection = Connection(ours.detach())

    def _read_log(self) -> str:
        assert self._log is not None
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()[-2000:]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for resource in (self._connection, self._log):
            if resource is not None:
                resource.close()
        self._connection = self._log = None


@functools.cache
def reference_interpreter() -> ReferenceInterpreter:
    """The one of this test process."""
    made = ReferenceInterpreter()
    atexit.register(made.close)
    return made


def _serve(connection: Connection[Any, Any]) -> None:
    """What the child does until the other end is closed."""
    from xlapy import _jaxlib
    from xlapy.errors import XlapyError

    while True:
        try:
            program, passes, arrays, num_partitions = connection.recv()
        except EOFError:
            return
        try:
            module = _jaxlib.parse(program)
            if passes:
                module = _jaxlib.run_passes(module, passes)
            found: Any
            if num_partitions is None:
                found = _jaxlib.evaluate(module, arrays)
            else:
                found = _jaxlib.evaluate_grid(module, arrays, num_partitions)
            connection.send(("", found))
        except XlapyError as error:
            connection.send((str(error), ()))


if __name__ == "__main__":
    import resource

    # It is expected to die of some programs; no memory image of it is wanted then.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _serve(Connection(int(sys.argv[1])))
