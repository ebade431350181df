"""HLO that XLA's conversion to StableHLO does not take, or takes for something else, said in other words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from xlapy._jaxlib.isolation import read_isolated
from xlapy.errors import UnsupportedOpError

__all__ = ["prepare"]

_LINE: Final = re.compile(
    r"^(?P<head>\s*(?:ROOT )?%(?P<name>[^\s=]+) = )(?P<type>[^\"=]*?) (?P<opcode>[a-z][a-z-]*)"
    r"\((?P<operands>[^()\"]*)\)(?P<tail>.*)"
)
#: what a module's bytes hold if there may be something to do
_SIGNS: Final = (
    b"async-start", b"domain", b"add-dependency", b"scaled-dot", b"all-gather-start", b"all-reduce-start",
    b"collective-permute", b"composite.name", b"mulhi",
)  # fmt: skip
_ASYNC_UPDATES: Final = (
    "all-to-all-update", "collective-broadcast-update", "ragged-all-to-all-update", "reduce-scatter-update",
)  # fmt: skip
_TILED: Final = re.compile(r"\{[\d,]*:[^{}]*?T\(")


def prepare(proto: bytes, text: str = "") -> bytes:
    """A module that can be converted.

    Parameters
    ----------
    proto : bytes
        A serialised ``HloModuleProto``.
    text : str
        What it was made of, if that was text.

    Returns
    -------
    bytes
        A module that computes the same. A ``scaled-dot`` is a custom call of ``xlapy.scaled_dot`` with its attributes,
        ``mulhi`` one of ``xlapy.mulhi``.

    Raises
    ------
    UnsupportedOpError
        For a bitcast whose meaning depends on tiles.
    """
    tiles = b"bitcast" in proto and (not text or _TILED.search(text) is not None)
    if not tiles and not any(sign in proto for sign in _SIGNS):
        return proto
    lines = read_isolated(b"S", proto).decode().split("\n")
    if tiles:
        _check_tiles(lines)
    pending: dict[str, str] = {}
    started: dict[str, str] = {}
    changed = [_rewritten(line, pending, started) for line in lines]
    return proto if changed == lines else read_isolated(b"T", "\n".join(changed).encode())


def _rewritten(line: str, pending: dict[str, str], started: dict[str, str]) -> str:
    """A line in other words.

    `pending` has the results' types of asynchronous calls that are made plain ones, `started` the starts that updates
    which are left out are of.
    """
    if line.endswith("{") and not line.startswith(" "):  # another computation begins
        pending.clear()
        started.clear()
    found = _LINE.match(line)
    if found is None:
        return line
    head, kind, opcode, operands = found["head"], found["type"], found["opcode"], found["operands"]
    first = operands.split(",")[0].strip()
    copied = f"{head}{kind} copy({first})"
    if opcode in ("domain", "add-dependency") and kind.startswith("("):
        return copied  # of arrays only
    if opcode == "mulhi":
        return f'{head}{kind} custom-call({operands}), custom_call_target="xlapy.mulhi"'
    if opcode == "scaled-dot":
        config = found["tail"].removeprefix(", ").split(", metadata=")[0].replace('"', "")
        return f'{head}{kind} custom-call({operands}), custom_call_target="xlapy.scaled_dot", backend_config="{config}"'
    if opcode == "call" and kind.startswith("("):
        # The conversion gives a composite one result, a tuple, which its decomposition does not have.
        return line.replace(", is_composite=true", "", 1)
    if opcode.endswith("-start") and kind.startswith("(("):
        # Its type is of the operands, the results, and what else there is.
        parts = _split(kind[1:-1])
        if len(parts) > 1 and parts[1].startswith("("):
            pending[found["name"]] = parts[1]
            plain = opcode.removesuffix("-start")
            tail = re.sub(r', async_execution_thread="[^"]*"', "", found["tail"])
            if plain == "async":
                plain, tail = "call", tail.replace("calls=", "to_apply=", 1)
            if plain == "collective-permute":
                return _one_by_one(head, found["name"], parts[1], operands, tail)
            return f"{head}{parts[1]} {plain}({operands}){tail}"
    if opcode == "all-reduce-start" and kind.startswith("("):
        pending[found["name"]] = kind
        return f"{head}{kind} all-reduce({operands}){found['tail']}"
    if opcode == "collective-permute" and kind.startswith("("):
        return _one_by_one(head, found["name"], kind, operands, found["tail"])
    if opcode in _ASYNC_UPDATES:
        # The conversion makes StableHLO of their starts and ends, which has no updates.
        started[found["name"]] = started.get(first[1:], first[1:])
        return ""
    if opcode.endswith("-done") and first[1:] in started:
        return line.replace(f"({operands})", f"(%{started[first[1:]]})", 1)
    if opcode.endswith(("-update", "-done")) and first[1:] in pending:
        pending[found["name"]] = pending[first[1:]]
        return f"{head}{pending[first[1:]]} copy({first})"
    return line


def _one_by_one(head: str, name: str, kind: str, operands: str, tail: str) -> str:
    """A permute of several arrays as one of each; one that writes into parts of others stays as it is."""
    whole = f"{head}{kind} collective-permute({operands}){tail}"
    kinds, given = _split(kind[1:-1]), operands.split(", ")
    if "slice_sizes=" in tail or len(kinds) != len(given):
        return whole
    parts = [f"%{name}.of.{i}" for i in range(len(given))]
    lines = [
        f"  {part} = {k} collective-permute({x}){tail}"
        for part, k, x in zip(parts, kinds, given, strict=True)
    ]
    return "\n".join([*lines, f"{head}{kind} tuple({', '.join(parts)})"])


def _split(text: str) -> list[str]:
    """The parts of a tuple's type."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "({[") - (char in ")}]")
        if char == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


# --- tiles ------------------------------------------------------------------------------------------------------------


def _check_tiles(lines: Sequence[str]) -> None:
    """A bitcast is read by the order of the dimensions; that is right as long as no tile is cut."""
    kinds: dict[str, str] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        kinds[found["name"]] = found["type"]
        if found["opcode"] != "bitcast":
            continue
        source, result = kinds.get(found["operands"].strip().lstrip("%"), ""), found["type"]
        if "T(" in source + result and not _keeps_tiles(source, result):
            raise UnsupportedOpError(
                f"bitcast: a tiled array must keep its two minor dimensions; got {source} to {result} for"
                f" {found['name']!r} [X6]"
            )


_SHAPE: Final = re.compile(r"\w+\[([\d,]*)\]\{([\d,]*)(?::([^{}]*))?\}")


def _keeps_tiles(source: str, result: str) -> bool:
    """Whether the same tiles lie in the same two minor dimensions, or there is but a row of them."""
    first, second = _SHAPE.fullmatch(source), _SHAPE.fullmatch(result)
    if first is None or second is None or _width(source) != _width(result):
        return False
    tiles = [re.findall(r"T(?:\([\d,*]*\))+", m.group(3) or "") for m in (first, second)]
    plain = all(n.count(",") < 2 for n in re.findall(r"\([^()]*\)", "".join(tiles[0])))
    return plain and tiles[0] == tiles[1] and _minor(first) == _minor(second)


def _width(kind: str) -> str:
    """The number in the name of an element type: f32 and s32 are of one width."""
    number = re.match(r"[a-z]+(\d*)", kind)
    return number.group(1) if number else kind


def _minor(shape: re.Match[str]) -> list[int]:
    """The sizes of the two minor dimensions."""
    ints: Callable[[str], list[int]] = lambda text: [int(n) for n in text.split(",") if n]  # noqa: E731
    sizes, order = ints(shape.group(1)), ints(shape.group(2))
    return [sizes[i] for i in order[:2]]
