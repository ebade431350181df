"""Programs of unknown origin, read in a process of their own.

jaxlib's readers end the process on some malformed programs; see `xlapy._jaxlib.reading`. Starting the process takes as
long as importing jaxlib, once (some 0.15 s); after that a program costs a few milliseconds more than reading it here.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import Final

from xlapy._jaxlib.reading import HEADER, READY, Refused, read

__all__ = ["Ended", "line_of_instruction", "read_isolated"]

#: how long the process waits for another program, in seconds
_IDLE: Final = 300.0
_SCRIPT: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reading.py")
#: it finds modules where this process does, and no others
_PROGRAM: Final = """
import runpy, sys
script, sys.path[:] = sys.argv[1], sys.argv[3:]
sys.argv[:] = sys.argv[1:3]
runpy.run_path(script, run_name="__main__")
"""


class Ended(Exception):
    """Why reading a program ended the process."""


class _Unavailable(Exception):
    """There can be no process."""


class _Process:
    """The one process that reads for this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, form: bytes, data: bytes, limit: float) -> tuple[bytes, bytes]:
        """Its answer; from another one if it had ended meanwhile.

        Raises
        ------
        _Unavailable
            If none can be started.
        OSError
            If it ends each time.
        """
        with self._lock:
            for last in (False, True):
                process = self._running()
                try:
                    return _exchange(process, form, data, limit)
                except OSError:
                    self._end()
                    if last:
                        raise
                except BaseException:  # an interrupt leaves half an answer in the pipe
                    self._end()
                    raise
        raise AssertionError

    def _running(self) -> subprocess.Popen[bytes]:
        process = self._process
        # After a fork the pipes are the parent's.
        if process is not None and self._owner == os.getpid() and process.poll() is None:
            return process
        self._end()
        name = os.path.basename(sys.executable or "")
        # In a frozen or an embedding program the executable is that program.
        if not name.startswith("python") or hasattr(sys, "frozen") or not hasattr(os, "fork"):
            raise _Unavailable
        # One thread, so that it may fork.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["TF_CPP_MIN_LOG_LEVEL"] = "2"
        program = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _PROGRAM, _SCRIPT, str(_IDLE)]
        try:
            self._process = subprocess.Popen(
                [*program, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
            self._owner = os.getpid()
            _exchange(self._process, READY, b"", 0.0)
        except OSError:
            self._end()
            raise _Unavailable from None
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if self._owner == os.getpid():
            process.kill()
            process.wait()
        else:  # it is the parent's to wait for
            process.returncode = 0

    def forked(self) -> None:
        """Begin anew in a child, where no other thread will let go of the lock."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()


def _exchange(
    process: subprocess.Popen[bytes], form: bytes, data: bytes, limit: float
) -> tuple[bytes, bytes]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HEADER.pack(form, limit, len(data)) + data)
    process.stdin.flush()
    head = process.stdout.read(HEADER.size)
    if len(head) < HEADER.size:
        raise BrokenPipeError("the process ended")
    found, _, size = HEADER.unpack(head)
    answer = process.stdout.read(size)
    if len(answer) < size:
        raise BrokenPipeError("the process ended")
    return found, answer


_process: Final = _Process()
atexit.register(_process.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forked)


def read_isolated(form: bytes, data: bytes) -> bytes:
    """As `reading.read`, and never the end of this process.

    Where no process can be started, it is read in this one.

    Raises
    ------
    Refused
        What the reader says against the program.
    Ended
        If reading it ends the process, or takes very long.
    """
    # Reading takes about a second for a megabyte.
    limit = 30.0 + len(data) / 20e3
    try:
        found, answer = _process.ask(form, data, limit)
    except _Unavailable:
        return read(form, data)
    except OSError as error:
        found, answer = b"E", str(error).encode()
    if found == b"R":
        return answer
    if found == b"N":
        raise Refused([(place, text) for place, text in json.loads(answer)])
    raise Ended(answer.decode(errors="replace"))


def line_of_instruction(text: str) -> int:
    """The line of the first instruction with which HLO text cannot be read; 0 if that cannot be found."""
    try:
        _, answer = _process.ask(b"L", text.encode(), 10.0)
    except (_Unavailable, OSError):
        return 0
    return int(answer)
