"""Sends and receives in HLO, which XLA's conversion to StableHLO kills the process on unless they have one form."""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: no-warn-return-any

from __future__ import annotations

import re
from typing import Any, Final

from jaxlib.mlir import ir

from xlapy._jaxlib.isolation import read_isolated
from xlapy.errors import UnsupportedOpError

__all__ = ["prepare", "restore"]

_LINE: Final = re.compile(
    r"^\s*(?P<root>ROOT )?%(?P<name>[^\s=]+) = (?P<type>[^\"=]*?) (?P<opcode>[a-z][a-z-]*)\((?P<operands>[^()\"]*)\)"
)
_CHANNEL: Final = re.compile(r", channel_id=(\d+)")
_OPCODES: Final = ("send", "send-done", "recv", "recv-done")


def prepare(proto: bytes) -> tuple[bytes, int | None]:
    """A module that can be converted.

    Parameters
    ----------
    proto : bytes
        A serialised ``HloModuleProto``.

    Returns
    -------
    proto : bytes
        The same, with a channel for what had none.
    channel : int or None
        That channel, for `restore`.

    Raises
    ------
    UnsupportedOpError
        If a transfer is not a start and its done.
    """
    if b"send" not in proto and b"recv" not in proto:
        return proto, None
    text = read_isolated(b"S", proto).decode()
    lines = text.split("\n")
    _check(lines)
    channels = [int(n) for n in _CHANNEL.findall(text)]
    new = max(channels, default=0) + 1
    changed = False
    for i, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None or found["opcode"] not in _OPCODES:
            continue
        head, tail = line[: found.end()], line[found.end() :]
        given = _CHANNEL.search(tail)
        if given is None or given[1] == "0":
            # Zero and none are the same to XLA: the numbers of the pairs are replicas.
            lines[i] = f"{head}, channel_id={new}{_CHANNEL.sub('', tail, count=1)}"
            changed = True
    if not changed:
        return proto, None
    return read_isolated(b"T", "\n".join(lines).encode()), new


def _check(lines: list[str]) -> None:
    """Each send is used by one send-done and nothing else, and a recv likewise, of one array."""
    started: dict[str, tuple[str, str]] = {}
    users: dict[str, list[str]] = {}
    for line in lines:
        if line.endswith("{") and not line.startswith(" "):  # a computation begins
            _check_users(started, users)
            started, users = {}, {}
            continue
        found = _LINE.match(line)
        if found is None:
            continue
        name, opcode = found["name"], found["opcode"]
        if opcode in ("send", "recv"):
            started[name] = (opcode, found["type"])
            users[name] = ["ROOT"] if found["root"] else []
        for operand in re.findall(r"%([^\s,]+)", found["operands"]):
            if operand in users:
                users[operand].append(opcode)
    _check_users(started, users)


def _check_users(started: dict[str, tuple[str, str]], users: dict[str, list[str]]) -> None:
    for name, (opcode, kind) in started.items():
        if users[name] != [f"{opcode}-done"]:
            raise UnsupportedOpError(
                f"{opcode}: must be used by its {opcode}-done and nothing else; got {users[name]} for {name!r} [X6]"
            )
        if kind.startswith("(("):
            raise UnsupportedOpError(f"{opcode}: must be of an array; got {kind} for {name!r} [X6]")


def restore(module: Any, channel: int) -> None:
    """Let the transfers of the channel that `prepare` made up be of channel 0."""

    def visit(operation: Any) -> Any:
        if operation.name in ("stablehlo.send", "stablehlo.recv"):
            text = str(operation.attributes["channel_handle"])
            changed = re.sub(rf"handle = {channel}\b", "handle = 0", text)
            operation.attributes["channel_handle"] = ir.Attribute.parse(changed, operation.context)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
