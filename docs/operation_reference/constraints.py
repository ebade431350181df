"""The constraints that an operation checks, read from the syntax tree of its `infer` and of what that calls."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from operation_reference.partial_evaluation import Evaluator
from operation_reference.partial_values import Choice, Scope, Sentence, is_known, sentence_of
from xlapy import specs
from xlapy.errors import ConstraintError, DTypeError, ShapeError, XlapyError
from xlapy.trace.op import Op

__all__ = ["Constraint", "constraints_of", "device_constraints_of"]

_CHECKS: Final[dict[Any, type[XlapyError]]] = {
    specs.require: ConstraintError,
    specs.require_shape: ShapeError,
    specs.require_dtype: DTypeError,
}
_LABEL: Final = re.compile(r" \[([A-Z]\d+)\]$")


@dataclass(frozen=True)
class Constraint:
    """What one check demands.

    Attributes
    ----------
    label : str
    sentence : Sentence
        What must hold.
    error : type
        The class that is raised.
    site : str
        The function that the check stands in.
    line : int
        Where in its file.
    """

    label: str
    sentence: Sentence
    error: type[XlapyError]
    site: str
    line: int


class Explorer(Evaluator):
    """Follows functions, and collects the checks that it meets."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[Any, ...], Constraint] = {}

    def noticed(
        self,
        node: ast.Call,
        function: Any,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        scope: Scope,
    ) -> bool:
        """A call of `require` or of one of its two forms, unless it cannot fail."""
        if not inspect.isfunction(function) or function not in _CHECKS:
            return False
        given = dict(zip(("ok", "label", "what", "got", "error"), arguments)) | dict(keywords)
        if not (is_known(given["ok"]) and given["ok"]):
            error = given.get("error", _CHECKS[function])
            self._add(given["label"], sentence_of(given["what"]), error, scope.site, node.lineno)
        return True

    def _add(self, label: Any, sentence: Sentence, error: Any, site: str, line: int) -> None:
        for each in label.values if isinstance(label, Choice) else (label,):
            if not isinstance(each, str):
                raise ValueError(
                    f"{site}:{line}: the label of a check must be readable; got {each}"
                )
            constraint = Constraint(each, sentence, error, site, line)
            self.found.setdefault((each, sentence.parts, site, line), constraint)

    def raised(self, node: ast.Raise, scope: Scope) -> None:
        """An error that is raised outright: its text ends with the label."""
        call = node.exc
        if not isinstance(call, ast.Call) or not call.args:
            return
        error = self.value(call.func, scope)
        text = sentence_of(self.value(call.args[0], scope))
        last = text.parts[-1]
        match = _LABEL.search(last) if isinstance(last, str) else None
        if isinstance(error, type) and issubclass(error, XlapyError) and match:
            kept = Sentence((*text.parts[:-1], last[: match.start()]))
            self._add(match.group(1), kept, error, scope.site, node.lineno)


def constraints_of(op: Op) -> tuple[Constraint, ...]:
    """What the `infer` of an operation checks, in the order of the labels.

    Parameters
    ----------
    op : Op

    Returns
    -------
    tuple of Constraint

    Raises
    ------
    ValueError
        If the label of a check cannot be read from the program text.
    """
    return _checks_of(op.infer)


def device_constraints_of(op: Op) -> tuple[Constraint, ...]:
    """What the operation checks of the devices that a program is compiled for, in the order of the labels."""
    settle = getattr(op.kernel, "settle", None)
    return () if settle is None else _checks_of(settle)


def _checks_of(function: Callable[..., Any]) -> tuple[Constraint, ...]:
    explorer = Explorer()
    explorer.function(inspect.unwrap(function), (), {}, complete=False)

    def place(c: Constraint) -> tuple[int, int]:
        return "ICX".find(c.label[0]), int(c.label[1:])

    return tuple(sorted(explorer.found.values(), key=place))
