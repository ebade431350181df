"""What the functions of this package pass around, opaque to everyone else."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from xlapy.errors import BackendError, UnsupportedOpError, callback_failure, shown, shown_exception

Client: TypeAlias = Any
Device: TypeAlias = Any
Executable: TypeAlias = Any
Buffer: TypeAlias = Any
Placement: TypeAlias = Any
Module: TypeAlias = Any
Array: TypeAlias = np.ndarray[Any, Any]
#: a shape and a numpy dtype, native byte order
Signature: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]

_NO_TARGET: Final = re.compile(
    r"No (?:registered implementation for (?:un)?typed custom call to|FFI handler registered for) (\S+)"
)
# What jaxlib says of a Python function that raises an exception.
_CALLBACK: Final = "CpuCallback error calling callback"
_TRACEBACK: Final = "Traceback (most recent call last):"
#: the last exceptions of Python functions that programs called, of which jaxlib hands on the text
raised: Final[deque[Exception]] = deque(maxlen=8)


def listed(signatures: Sequence[Signature]) -> str:
    """Signatures for a message."""
    return "(" + ", ".join(f"{d.name}[{','.join(map(str, s))}]" for s, d in signatures) + ")"


def fail(error: Exception, what: str) -> NoReturn:
    """Raise a `BackendError` for one of jaxlib's, without XLA's own stack traces; `what` must hold."""
    text = str(error).split("=== Source Location Trace")[0].strip()
    missing = _NO_TARGET.search(text)
    if missing:
        raise UnsupportedOpError(
            f"custom_call: XLA must have a handler of the target; got {shown(missing[1])}; give it one with"
            " ops.register_custom_call(name, handler=...) [X5]"
        ) from None
    if _CALLBACK in text:
        shows = _raised(text)
        cause = _cause(shows)
        raise callback_failure(cause or shows) from cause
    raise BackendError(f"{what}; got {text} [X5]") from None


def _raised(text: str) -> str:
    """The exception in a text that ends with Python's traceback of it."""
    lines = text.rpartition(_TRACEBACK)[2].split("\n")
    first = next((i for i, line in enumerate(lines) if line and not line.startswith(" ")), 0)
    return "\n".join(lines[first:])


def _cause(text: str) -> Exception | None:
    """The exception that Python shows like this."""
    for error in reversed(raised):
        if shown_exception(error) == text.rstrip(": "):
            return error
    return None
