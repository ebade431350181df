"""What calling an operation means now: run it, or record it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from xlapy.errors import XlapyError, shown
from xlapy.source import Location, caller, locate

if TYPE_CHECKING:
    from xlapy.trace.builder import XlaBuilder
    from xlapy.trace.op import Op

__all__ = ["annotate", "bind", "current_builder", "set_eager", "using"]

_current: ContextVar[XlaBuilder | None] = ContextVar("xlapy_mode", default=None)
#: the builder that records operations now; None means that they run at once
current_builder: Callable[[], XlaBuilder | None] = _current.get

_eager: Callable[[Op, Sequence[Any], dict[str, Any]], Any]


def set_eager(execute: Callable[[Op, Sequence[Any], dict[str, Any]], Any]) -> None:
    """Say how an operation runs outside every trace; called once, by the backends."""
    global _eager
    _eager = execute


@contextmanager
def using(builder: XlaBuilder | None) -> Iterator[None]:
    """Record operations in `builder` (None: run them) within the block, in this thread or task."""
    token = _current.set(builder)
    try:
        yield
    finally:
        _current.reset(token)


def bind(op: Op, *operands: Any, **params: Any) -> Any:
    """Call an operation: the one way from the public functions to a mode.

    Parameters
    ----------
    op : Op
    *operands
        Tensors; Python scalars take the element type of the first tensor.
    **params
        The static parameters, named as the StableHLO attributes, hashable and already normalised.

    Returns
    -------
    Tensor or tuple of Tensor
    """
    builder = current_builder()
    if builder is None:
        return _eager(op, operands, params)
    return builder.record(op, operands, params)


def annotate(
    error: XlapyError, op_name: str, specs: Sequence[Any] | None, where: Any = None
) -> XlapyError:
    """Complete an error's message with the operation, its operands and the user's line, once."""
    if error.annotated:
        return error
    message = str(error.args[0]) if error.args else ""
    if op_name and not message.startswith(f"{op_name}: "):
        message = f"{op_name}: {message}"
    if specs is not None:
        found = [shown(s) if isinstance(s, int) else str(s) for s in specs]
        message += f"\n  operands: {', '.join(found) or 'none'}"
    location: Location | None = locate(where if where is not None else caller(2))
    if location is not None:
        message += f"\n  at {location}"
    error.args = (message, *error.args[1:])
    error.annotated = True
    return error
