"""What the functions of this package pass around, opaque to everyone else."""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

import numpy as np

from xlapy.errors import BackendError

Client: TypeAlias = Any
Device: TypeAlias = Any
Executable: TypeAlias = Any
Buffer: TypeAlias = Any
Placement: TypeAlias = Any
Module: TypeAlias = Any
Array: TypeAlias = np.ndarray[Any, Any]
#: a shape and a numpy dtype, native byte order
Signature: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]


def fail(error: Exception, what: str) -> NoReturn:
    """Raise a `BackendError` for one of jaxlib's, without XLA's own stack traces; `what` must hold."""
    text = str(error).split("=== Source Location Trace")[0].strip()
    raise BackendError(f"{what}; got {text} [X5]") from None
