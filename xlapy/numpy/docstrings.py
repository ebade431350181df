"""The sections of docstrings that many functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = [
    "ARRAY",
    "ARRAY_AS_FLOAT",
    "ARRAY_TO_TRUTH",
    "MATCHED",
    "MATCHED_AS_FLOAT",
    "MATCHED_TO_TRUTH",
    "REDUCED",
    "document",
]

_RETURNS: Final = "\n\nReturns\n-------\nTensor"
_MEET: Final = "Parameters\n----------\nx, y : array-like\n    They are broadcast, and meet on one element type"

#: of one array
ARRAY: Final = f"Parameters\n----------\nx : array-like{_RETURNS}\n    Of the shape of `x`."
#: of one array, which becomes one of floats
ARRAY_AS_FLOAT: Final = (
    "Parameters\n----------\nx : array-like\n    Integers and truth values become floats first."
    f"{_RETURNS}\n    Of the shape of `x`."
)
#: of one array, each element giving a truth value
ARRAY_TO_TRUTH: Final = (
    f"Parameters\n----------\nx : array-like{_RETURNS}\n    Of truth values, in the shape of `x`."
)
#: of two arrays that meet
MATCHED: Final = f"{_MEET}.{_RETURNS}"
#: of two arrays that meet on a float
MATCHED_AS_FLOAT: Final = f"{_MEET}, a float for integers and truth values.{_RETURNS}"
#: of two arrays, each pair of elements giving a truth value
MATCHED_TO_TRUTH: Final = f"{_MEET}.{_RETURNS}\n    Of truth values."
#: of one array over axes
REDUCED: Final = (
    "Parameters\n----------\nx : array-like\naxis : int or sequence of int, optional\n    By default all."
    f"\nkeepdims : bool\n    Whether the axes stay, with size 1.{_RETURNS}"
)


def document(sections: str, *functions: Callable[..., Any]) -> None:
    """Put the sections Parameters and Returns of a docstring before its examples."""
    for function in functions:
        head, marker, examples = (function.__doc__ or "").partition("Examples\n")
        indent = head[head.rindex("\n") + 1 :]
        lines = sections.replace("\n", "\n" + indent)
        function.__doc__ = f"{head}{lines}\n\n{indent}{marker}{examples}"
