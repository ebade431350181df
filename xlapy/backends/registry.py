"""Backends by name, opened at their first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

from xlapy.backends.base import Backend
from xlapy.backends.entry_points import offered_backends
from xlapy.errors import BackendError, shown

__all__ = [
    "backend_of",
    "current_backend",
    "devices",
    "get_backend",
    "register_backend",
    "use_backend",
]

_ENVIRONMENT: Final = "XLAPY_BACKEND"
_DEFAULT: Final = "pjrt:cpu"


def _interpreter() -> Backend:
    backend: Backend = import_module("xlapy.backends.interpreter").Interpreter()
    return backend


def _pjrt(platform: str) -> Backend:
    backend: Backend = import_module("xlapy.backends.pjrt").Pjrt(platform)
    return backend


_factories: Final[dict[str, Callable[[], Backend]]] = {"interpreter": _interpreter}
_origins: Final[dict[str, str]] = {"interpreter": "xlapy.backends.interpreter"}
for _platform in ("cpu", "cuda", "rocm", "tpu", "metal"):
    _factories[f"pjrt:{_platform}"] = lambda platform=_platform: _pjrt(platform)  # type: ignore[misc]
    _origins[f"pjrt:{_platform}"] = "xlapy.backends.pjrt"
_open: Final[dict[str, Backend]] = {}
_lock: Final = threading.RLock()
_current: ContextVar[Backend | None] = ContextVar("xlapy_backend", default=None)
_default: Backend | None = None
_entry_points_read = False


def register_backend(name: str, factory: Callable[[], Backend]) -> None:
    """Make a backend known; it is opened when first used.

    Parameters
    ----------
    name : str
        What it will be selected by.
    factory : callable
        Gives the `Backend`.

    Raises
    ------
    BackendError
        If the name is taken.

    Examples
    --------
    >>> import xlapy
    >>> from xlapy.backends.interpreter import Interpreter
    >>> xlapy.register_backend("my-interpreter", Interpreter)
    >>> with xlapy.use_backend("my-interpreter"):
    ...     print(xlapy.ones(2) + 1)
    [2. 2.]
    """
    if not isinstance(name, str) or not callable(factory):
        raise BackendError(
            f"a backend must be registered by a name and a function; got {shown(name)} and {shown(factory)} [X1]"
        )
    origin = getattr(factory, "__module__", "?")
    with _lock:
        if name in _factories:
            raise BackendError(
                f"backend names must be unique; got {shown(name)} from {origin} and from {_origins[name]} [X1]"
            )
        _factories[name] = factory
        _origins[name] = origin


def _read_entry_points() -> None:
    global _entry_points_read
    if _entry_points_read:
        return
    _entry_points_read = True
    for name, load in offered_backends():
        register_backend(name, load)


def get_backend(name: str | Backend | None = None) -> Backend:
    """An open backend.

    Parameters
    ----------
    name : str or Backend, optional
        Such as ``"pjrt:cpu"`` or ``"interpreter"``; a path to a PJRT plugin after ``"pjrt:"`` works as well.
        None is the current one.

    Returns
    -------
    Backend

    Raises
    ------
    BackendError
        If there is no backend of that name, or it cannot be opened.
    """
    if name is None:
        return current_backend()
    if isinstance(name, Backend):
        return name
    if not isinstance(name, str):
        raise BackendError(f"backend must be a name or a Backend; got {shown(name)} [X1]")
    found = _open.get(name)
    if found is not None:
        return found
    with _lock:
        if name not in _open:
            _read_entry_points()
            if name in _factories:
                made = _factories[name]()
                if not isinstance(made, Backend):
                    raise BackendError(
                        f"what makes backend {name!r} must give a Backend; got {type(made).__name__} [X1]"
                    )
                _open[name] = made
            elif name.startswith("pjrt:") and len(name) > 5:
                _open[name] = _pjrt(name[5:])
            else:
                raise BackendError(
                    f"backend must be one of {', '.join(sorted(_factories))}; got {shown(name)} [X1]"
                )
        return _open[name]


def backend_of(device: Any) -> Backend | None:
    """The backend that a device belongs to, of those that are open; the current one first."""
    for backend in (current_backend(), *_open.values()):
        # Whatever else it is, it may have a `==` of its own.
        if any(d is device or (type(d) is type(device) and d == device) for d in backend.devices):
            return backend
    return None


def current_backend() -> Backend:
    """The backend on which new tensors are made here."""
    found = _current.get()
    if found is not None:
        return found
    global _default
    if _default is None:
        _default = get_backend(os.environ.get(_ENVIRONMENT) or _DEFAULT)
    return _default


@contextmanager
def use_backend(name: str | Backend) -> Iterator[Backend]:
    """Make new tensors, and so run what is computed from them, on a backend within the block.

    Parameters
    ----------
    name : str or Backend

    Yields
    ------
    Backend

    Examples
    --------
    >>> import xlapy
    >>> with xlapy.use_backend("interpreter"):
    ...     xlapy.ones(2).backend.name
    'interpreter'
    """
    backend = get_backend(name)
    token = _current.set(backend)
    try:
        yield backend
    finally:
        _current.reset(token)


def devices(backend: str | Backend | None = None) -> list[Any]:
    """The devices of a backend, the current one by default.

    Parameters
    ----------
    backend : str or Backend, optional

    Returns
    -------
    list
        The first one is the default.

    Examples
    --------
    >>> import xlapy
    >>> len(xlapy.devices("interpreter"))
    1
    """
    return list(get_backend(backend).devices)
