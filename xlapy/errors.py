"""The exceptions that xlapy raises, all of one form.

A message is one sentence saying what must hold, the value found, the label of the constraint, the operands, and
the user's line::

    reduce_window: window_dimensions must be positive; got (0, 1) [C5]
      operands: f32[3,2], f32[]
      at model.py:41 in pool: y = xp.ops.reduce_window(x, 0.0, ...)

Labels ``C..`` are those of the StableHLO specification, ``I..`` its input constraints, ``X..`` what only XLA or
this package asks for.
"""

from __future__ import annotations

import re
from typing import Any, Final

from xlapy.source import entered, locate

__all__ = [
    "ArtifactError",
    "BackendError",
    "ConstraintError",
    "DTypeError",
    "NotDifferentiableError",
    "OutOfRangeError",
    "ShapeError",
    "TracingError",
    "UnsupportedOpError",
    "XlapyError",
    "callback_failure",
    "shown",
    "shown_exception",
]


# What a message begins with that says by itself what was called.
_NAMED: Final = re.compile(r"[^\s:]+: ")


def shown(value: object) -> str:
    """A value as messages show it: very large integers by their size, for Python refuses to write them out."""
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"an integer of {value.bit_length()} bits"
    try:
        if isinstance(value, tuple | list) and any(isinstance(v, int) for v in value):
            parts = ", ".join(map(shown, value))
            return f"({parts})" if isinstance(value, tuple) else f"[{parts}]"
        return repr(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


class XlapyError(Exception):
    """The base of every error that xlapy raises on purpose.

    Catch it to handle any of them; each subclass also derives from the built-in class that numpy users expect.
    """

    #: the label of the violated constraint, such as ``"C5"``; empty where there is none
    label: str = ""
    #: whether the operation, operands and line have been added to the message
    annotated: bool = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: the user's line and what was called there, for the errors that nothing else is added to
        self.source, self.called = entered(1)

    def __str__(self) -> str:
        message = super().__str__()
        if self.annotated or "\n  at " in message:
            return message
        if self.called and not _NAMED.match(message):
            message = f"{self.called}: {message}"
        location = locate(self.source)
        return message if location is None else f"{message}\n  at {location}"

    def __reduce__(self) -> tuple[Any, ...]:
        # A line is a code object, which no other process knows.
        return type(self), (str(self),), {"annotated": True, "label": self.label}


class ConstraintError(XlapyError, ValueError):
    """A parameter has a value that the operation does not allow.

    The mistake: ``ops.pad(x, 0.0, edge_padding_low=(1,), ...)`` for an ``x`` of rank 2. Every dimension needs its
    entry, so the length must be the rank. The fix: ``edge_padding_low=(1, 0)``.
    """


class ShapeError(ConstraintError):
    """Shapes do not fit each other or the operation.

    The mistake: ``ops.add(x, y)`` with ``f32[3]`` and ``f32[4]``. HLO never broadcasts by itself. The fix: give
    both one shape, or use the numpy-like ``xlapy.add``, which broadcasts dimensions of size 1.
    """


class OutOfRangeError(ShapeError, IndexError):
    """An index names an element that there is not.

    The mistake: ``x[3]`` with ``f32[3]``. Places count from 0 to 2, or from the back from -1 to -3. The fix:
    ``x[2]`` or ``x[-1]``.
    """


class DTypeError(XlapyError, TypeError):
    """Element types do not fit each other or the operation, or a value is no array at all.

    The mistake: ``ops.add(x, y)`` with ``f32[3]`` and ``s32[3]``. The operations of HLO do not promote. The fix:
    ``ops.convert(y, "f32")``, or the numpy-like ``xlapy.add``, which promotes.
    """


class TracingError(XlapyError, TypeError):
    """A traced value was used where only a concrete one can be, or after its trace had ended.

    The mistake: ``if x > 0:`` inside a function under ``@xlapy.compile``. While the function is recorded x has a
    shape and a type but no value. The fix: ``xlapy.where`` or ``xlapy.cond``; or name the argument in
    ``static_argnames``.
    """


class NotDifferentiableError(XlapyError, TypeError):
    """A derivative was asked for that does not exist or that no rule gives.

    The mistake: ``grad(f)(3)`` with an integer. Integers have no tangent space. The fix: ``grad(f)(3.0)``.
    """


class UnsupportedOpError(XlapyError, NotImplementedError):
    """A backend or a format lacks an operation or element type.

    The mistake: running ``ops.infeed`` on ``pjrt:cpu``, which XLA never finishes. It is refused before anything
    runs. The fix: the backend or the operation that the message names.
    """


class BackendError(XlapyError, RuntimeError):
    """A backend could not be found, opened or used, or operands live on different ones.

    The mistake: ``x + y`` with ``x`` on the interpreter and ``y`` on ``pjrt:cpu``. Data never moves silently. The
    fix: ``x.to("pjrt:cpu") + y``.
    """


class ArtifactError(XlapyError, ValueError):
    """A StableHLO or HLO program can not be read or written.

    The mistake: ``from_stablehlo("module { oops }")``. The message carries the parser's line and column.
    """


def callback_failure(raised: str | BaseException) -> BackendError:
    """The error for an exception, or what Python shows of it, of a function that a program calls."""
    text = raised if isinstance(raised, str) else shown_exception(raised)
    return BackendError(f"a host callback must not fail; got {text} [X1]")


def shown_exception(error: BaseException) -> str:
    """An exception's type and what it says."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
