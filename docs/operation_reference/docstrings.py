"""numpydoc docstrings, taken apart and written as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Docstring", "first_sentence", "signature_of"]

_HEADING: Final = re.compile(r"^([A-Z]\w+(?: \w+)?)\n-{3,}\n", re.MULTILINE)
_CLAIM: Final = re.compile(r"\bSections? (.+?) of the operation semantics", re.DOTALL)


@dataclass(frozen=True)
class Docstring:
    """A docstring's parts.

    Attributes
    ----------
    summary : str
        What stands before the first heading.
    parts : dict of str
        The text under each heading.
    """

    summary: str
    parts: dict[str, str]

    @classmethod
    def of(cls, documented: Any) -> Docstring:
        """Take the docstring of an object apart."""
        summary, *rest = _HEADING.split(inspect.getdoc(documented) or "")
        return cls(summary.strip(), {h: t.strip("\n") for h, t in zip(rest[::2], rest[1::2])})

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the operation semantics that the function says it is."""
        text = "\n".join((self.summary, self.parts.get("Notes", "")))
        found: list[str] = []
        for claim in _CLAIM.findall(text):
            for name in re.split(r",\s*|\s+and\s+", claim):
                inner = re.fullmatch(r"Compare \((\w+)\)", name)
                found.extend(("Compare", inner.group(1)) if inner else (name,))
        return tuple(found)

    def markdown(self) -> Iterator[str]:
        """The lines of the parts after the summary."""
        for heading, text in self.parts.items():
            if heading == "Examples":
                yield from ("**Examples**", "", *_examples(text))
            elif heading in ("Parameters", "Returns", "Raises", "Attributes"):
                yield from (f"**{heading}**", "", *_items(text), "")
            else:
                yield from (f"**{heading}**", "", *_paragraphs(text), "")


def _items(text: str) -> Iterator[str]:
    """``name : type`` with an indented description, as a list."""
    for block in re.split(r"\n(?=\S)", text):
        head, *description = block.split("\n")
        name, colon, kind = head.partition(" : ")
        said = " ".join(line.strip() for line in description if line.strip())
        yield f"- `{name}`{' : ' + kind if colon else ''}{': ' + said if said else ''}"


def _paragraphs(text: str) -> list[str]:
    return text.replace("::\n", ":\n").split("\n")


def _examples(text: str) -> Iterator[str]:
    """Interactive examples as blocks of code, and what stands between them."""
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith(">>>"):
            yield from ("```pycon", *block.split("\n"), "```", "")
        else:
            yield from (*block.split("\n"), "")


def first_sentence(documented: Any) -> str:
    """The first paragraph of a docstring, without its full stop; empty if there is none."""
    text = " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())
    return text if text.endswith("...") else text.removesuffix(".")


def signature_of(name: str, function: Callable[..., Any]) -> str:
    """A function's name, parameters and defaults, broken if it is long."""
    parameters = []
    star = False
    for p in inspect.signature(function).parameters.values():
        default = "" if p.default is p.empty else f"={p.default!r}"
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.kind is p.KEYWORD_ONLY and not star:
            parameters.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        parameters.append(f"{prefix}{p.name}{default}")
    line = f"{name}({', '.join(parameters)})"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(parameters) + ",\n)"
