"""Where in the user's code a call was made."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from collections.abc import Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = ["Location", "Source", "caller", "entered", "hide_library_frames", "locate"]


class Location(NamedTuple):
    """A place in a file."""

    file: str
    line: int
    function: str
    column: int = 0

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        where = f"{_short(self.file)}:{self.line}"
        if self.function:
            where += f" in {self.function}"
        return f"{where}: {text}" if text else where


#: (code object, offset of the instruction): cheap to take, resolved only when a line is printed
Source: TypeAlias = tuple[CodeType, int] | Location | None

_LIBRARY: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
# One entry per code object ever seen on a call path, so that a frame costs a dict look-up and no string work.
_is_library: dict[CodeType, bool] = {}


def _classify(code: CodeType) -> bool:
    inside = code.co_filename.startswith((_LIBRARY, "<frozen", contextlib.__file__))
    _is_library[code] = inside
    return inside


def caller(depth: int = 1) -> Source:
    """The innermost frame outside the library, as (code, offset).

    Parameters
    ----------
    depth : int
        How many frames to pass over before looking.
    """
    frame: FrameType | None = sys._getframe(depth)
    known = _is_library
    while frame is not None:
        code = frame.f_code
        try:
            inside = known[code]
        except KeyError:
            inside = _classify(code)
        if not inside:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


# These say nothing of what was called.
_NAMELESS: Final = frozenset(
    {"wrapper", "forward", "reflected", "operator", "require", "require_shape", "require_dtype"}
)


def entered(depth: int = 1) -> tuple[Source, str]:
    """As `caller`, and the name of the library's function that was called there; empty where that says nothing.

    For errors: it takes longer.
    """
    frame: FrameType | None = sys._getframe(depth)
    within = name = ""
    while frame is not None:
        code = frame.f_code
        if not _is_library.get(code, _classify(code)):
            if name == "method" or (name.startswith("_") and not name.startswith("__")):
                name = within  # what hands the call on is not what was called
            known = name.isidentifier() and not name.startswith(("_", "infer"))
            return (code, frame.f_lasti), name if known and name not in _NAMELESS else ""
        within, name = name, code.co_name
        frame = frame.f_back
    return None, ""


@functools.lru_cache(maxsize=64)
def _positions(code: CodeType) -> Sequence[Any]:
    """Line and column of each instruction of a code object; many locations are in few functions."""
    return tuple(code.co_positions())


def locate(source: Source) -> Location | None:
    """The file, line and function of a source."""
    if source is None or isinstance(source, Location):
        return source
    code, offset = source
    line, column = code.co_firstlineno, 0
    if offset >= 0:
        start, _, col, _ = _positions(code)[offset // 2]
        line, column = start or line, col or 0
    return Location(code.co_filename, line, code.co_qualname, column)


def _short(file: str) -> str:
    """The path as the user would type it: relative when it lies below the working directory."""
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError):
        return file
    return file if relative.startswith("..") else relative


def hide_library_frames(error: BaseException) -> None:
    """Cut the library's frames out of an exception's traceback, unless XLAPY_TRACEBACK=full."""
    if os.environ.get("XLAPY_TRACEBACK") == "full":
        return
    kept: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if not _is_library.get(code, _classify(code)):
            kept.append(step)
        step = step.tb_next
    chain: TracebackType | None = None
    for item in reversed(kept):
        chain = TracebackType(chain, item.tb_frame, item.tb_lasti, item.tb_lineno)
    error.__traceback__ = chain
