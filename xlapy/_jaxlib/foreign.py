"""Custom calls: jaxlib's own LAPACK kernels, and handlers that others wrote against XLA's FFI."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from jaxlib import xla_client as xc

from xlapy.errors import BackendError, shown


@functools.cache
def register_lapack() -> frozenset[str]:
    """Make LAPACK's custom calls known to the CPU clients; the names that there are.

    Loads scipy's LAPACK (up to 240 ms), so it is called by the first program that needs it. A
    program that was compiled before and is loaded from disk needs it all the same.
    """
    from jaxlib import lapack
    from jaxlib.cpu import _lapack

    known = xc.custom_call_targets("cpu")
    names = []
    for name, capsule, api_version in lapack.registrations()["cpu"]:
        names.append(name)
        # jax may have registered them already, and a second registration is an error.
        if name not in known:
            xc.register_custom_call_target(name, capsule, "cpu", api_version=api_version)
    _lapack.initialize()
    return frozenset(names)


def custom_call_targets(platform: str) -> frozenset[str]:
    """The names that a ``custom_call`` can have on a platform, ``"cpu"`` or ``"CUDA"``."""
    return frozenset(xc.custom_call_targets(platform))


def register_target(name: str, handler: Any, platform: str = "cpu", api_version: int = 1) -> None:
    """Make a custom call known by its name, for the life of the process.

    Parameters
    ----------
    name : str
    handler : PyCapsule or ctypes function or dict
        A handler of XLA's typed FFI; as a dict, one for each of its stages.
    platform : str
        ``"cpu"``, ``"CUDA"`` or ``"ROCM"``.
    api_version : int
        1 for the typed FFI, 0 for the older untyped one.

    Raises
    ------
    BackendError
        If the name is taken by another handler.
    """
    if isinstance(handler, _FUNCTION):
        handler = _capsule(ctypes.cast(handler, ctypes.c_void_p).value or 0)
    try:
        xc.register_custom_call_target(name, handler, platform, api_version=api_version)
    except (RuntimeError, TypeError, ValueError) as error:
        raise BackendError(
            f"a custom call must be registered once, with a PyCapsule; got {shown(name)}: {error} [X1]"
        ) from None


# What ctypes gives for a function of a library; its class has no public name.
_FUNCTION: Any = type(ctypes.pythonapi.Py_IncRef).__mro__[1]
_CAPSULE_NAME = b"xla._CUSTOM_CALL_TARGET"


def _capsule(pointer: int) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(pointer, _CAPSULE_NAME, None)
