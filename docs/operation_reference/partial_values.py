"""Values that are known in part, such as an error message of which only a call decides some words."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Choice", "LocalFunction", "Scope", "Sentence", "Unknown", "is_known", "sentence_of"]


@dataclass(frozen=True)
class Unknown:
    """A value that only a call decides, and how it is written."""

    text: str


@dataclass(frozen=True)
class Choice:
    """One of several values, by the path that leads here."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Sentence:
    """A text with holes, which are expressions."""

    parts: tuple[str | Unknown, ...]

    @property
    def markdown(self) -> str:
        """The text, with its holes as code."""
        return "".join(p if isinstance(p, str) else f"`{p.text}`" for p in self.parts)

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the text may read."""
        return re.compile(
            "".join(re.escape(p) if isinstance(p, str) else ".*" for p in self.parts), re.DOTALL
        )


def sentence_of(value: Any) -> Sentence:
    """Any value as a text."""
    if isinstance(value, Sentence):
        return value
    if isinstance(value, Choice):
        return Sentence((Unknown(" or ".join(map(str, value.values))),))
    return Sentence((value,)) if isinstance(value, Unknown) else Sentence((str(value),))


def is_known(value: Any) -> bool:
    """Whether a value has no part that is open."""
    if isinstance(value, Unknown | Choice | Sentence | LocalFunction):
        return False
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(is_known, value))
    if isinstance(value, dict):
        return all(map(is_known, value.values()))
    return True


@dataclass
class Scope:
    """The names that a function's statements see."""

    names: dict[str, Any]
    outer: Mapping[str, Any]
    site: str
    returned: list[Any] = field(default_factory=list)

    def find(self, name: str) -> Any:
        """What a name stands for."""
        if name in self.names:
            return self.names[name]
        if name in self.outer:
            return self.outer[name]
        return getattr(builtins, name, Unknown(name))

    def branch(self) -> Scope:
        """The same names, to be changed apart."""
        return Scope(dict(self.names), self.outer, self.site, self.returned)


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A function defined within another."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
