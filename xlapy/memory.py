"""How much fits the host's memory: what cannot be held is refused before anything is allocated."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable
from typing import Any

from xlapy.errors import BackendError
from xlapy.specs import TensorSpec

__all__ = ["host_memory", "require_memory"]


@functools.cache
def host_memory() -> int:
    """The bytes of memory that this process can have at most."""
    found = [1 << 62]
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not every system says
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            limit = file.read().strip()
    except OSError:
        limit = "max"
    if limit.isdecimal():
        found.append(int(limit))
    return min(n for n in found if n > 0)


def require_memory(what: str, specs: Iterable[Any], count: int = 1) -> None:
    """Refuse arrays that together are larger than the memory: allocating them would end the process, or fail late.

    Parameters
    ----------
    what : str
        What they are, for the message.
    specs : iterable of specs
    count : int
        How many of each there are.

    Raises
    ------
    BackendError

    Examples
    --------
    >>> from xlapy.specs import TensorSpec
    >>> require_memory("an array", [TensorSpec((1000, 1000), "f32")])
    """
    arrays = [s for s in specs if type(s) is TensorSpec and s.is_static]
    needed = count * sum(s.size * s.dtype.numpy.itemsize for s in arrays)
    if needed > host_memory():
        largest = max(arrays, key=lambda s: s.size * s.dtype.bits)
        raise BackendError(
            f"{what} must fit the memory of {_size(host_memory())}; got {largest}, {_size(needed)} [X5]"
        )


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024 or unit == "PiB":
            break
        count /= 1024
    return f"{count:.4g} {unit}"
