"""Where in HLO text what a reader complains of stands; XLA itself says so for mistakes of syntax only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["TEXT", "described", "ended", "numbered"]

_INSTRUCTION: Final = re.compile(r"^\s*(?:ROOT\s+)?%?([\w.-]+)\s*=\s")
_PARAMETER: Final = re.compile(r"\bparameter\(\s*(-?\d+)\s*\)")
# locations of MLIR
_NAME: Final = re.compile(r'loc\("([^"]*)"\)')
_FILE_LINE: Final = re.compile(r'"([^"]*)":(\d+):(\d+)')
_SYNTAX: Final = re.compile(r"was parsing (\d+):(\d+): error: (.*)")


_UNREAD_ALGORITHM: Final = "algorithm=dot_bf16_bf16_f32_x9"

#: what stands for the file in locations of what has only a line in the text
TEXT: Final = "<hlo>"


def numbered(text: str) -> str:
    """HLO text with its lines as the sources of those instructions that name none."""
    lines = text.split("\n")
    begins = [_INSTRUCTION.match(line) for line in lines]
    for i, line in enumerate(lines):
        rest = next((n for n in range(i + 1, len(lines)) if lines[n].strip()), None)
        whole = rest is None or begins[rest] or lines[rest].lstrip().startswith("}")
        match = begins[i]
        if match and whole and "metadata=" not in line and _is_closed(line):
            source = f'op_name="{match.group(1)}" source_file="{TEXT}" source_line={i + 1}'
            lines[i] = f"{line.rstrip()}, metadata={{{source}}}"
    return "\n".join(lines)


def _is_closed(line: str) -> bool:
    """Whether attributes may stand behind what a line holds."""
    return (
        line.rstrip().endswith((")", "}", "]", '"')) or re.search(r"=[\w.-]+\s*$", line) is not None
    ) and (
        line.count('"') % 2 == 0
        and "//" not in line
        and all(line.count(a) == line.count(b) for a, b in ("()", "{}", "[]"))
    )


def described(text: str, complaints: Sequence[tuple[str, str]]) -> str:
    """What a reader has against a program, pairs of a place and a text, with lines.

    Parameters
    ----------
    text : str
        The program; empty if it is none.
    complaints : sequence of (place, text)
        Places are MLIR locations, lines, or empty.
    """
    found: list[str] = []
    for place, complaint in complaints:
        syntax = _SYNTAX.search(complaint)
        if syntax:
            # The first mistake is the cause; those after it say what was being read then.
            line, column, what = syntax.groups()
            found.append(f"line {line}, column {column}: {what.rstrip(':')}")
            continue
        if complaint.startswith("failed to deserialize portable artifact") and found:
            continue  # the others say why
        complaint = re.sub(r"^RET_CHECK failure \([^()]*\) ", "", complaint)
        name = _NAME.fullmatch(place)
        where = _FILE_LINE.search(place)
        if name:
            place = repr(name.group(1))
        elif where:
            file, line, column = where.groups()
            # MLIR calls a text that it parses "-".
            place = f"line {line}, column {column}" if file == "-" else f"{file}:{line}"
            place = f"line {line}" if file == TEXT else place
        else:
            place = place.removeprefix("loc(").removesuffix(")").replace("unknown", "")
            if not place and "function result type" in complaint:
                place = f"line {_line(text, text.find('HloModule'))}" if text else ""
        found.append(f"{place}: {complaint}" if place else complaint)
    return "; ".join(dict.fromkeys(found))


def ended(text: str, reason: str) -> str:
    """Why a reader ends, with the line that it ends on if the reason tells it."""
    line = 0
    if "SIGSEGV" in reason and _UNREAD_ALGORITHM in text:
        line = _line(text, text.find(_UNREAD_ALGORITHM))
        return f"line {line}: {_UNREAD_ALGORITHM}, which jaxlib does not convert to StableHLO"
    quoted = re.search(r'loc\("(.+)":\d+:\d+\)', reason)
    if "param_no" in reason:
        line = _wrong_parameter(text)
        reason = re.sub(r"^line \d+: ", "", reason) if line else reason
    elif "_shapes.size() == main" in reason:
        line = _line(text, text.find("HloModule"))
    elif quoted:
        line = _line(text, text.find(quoted.group(1).replace("\\22", '"')))
    return f"line {line}: {reason}" if line else reason


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1 if position >= 0 else 0


def _wrong_parameter(text: str) -> int:
    """The line of a parameter whose number is too large, or taken."""
    inside: list[tuple[int, int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = _PARAMETER.search(line)
        if match:
            inside.append((number, int(match.group(1))))
        if line.strip().startswith("}"):
            seen: set[int] = set()
            for at, parameter in inside:
                if not 0 <= parameter < len(inside) or parameter in seen:
                    return at
                seen.add(parameter)
            inside = []
    return 0
