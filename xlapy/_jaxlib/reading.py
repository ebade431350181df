"""Readers of programs that end the process on some malformed ones, and the process of their own that they run in.

XLA's reader of HLO checks some of what it reads with assertions (the numbers of parameters, the sizes of reshapes),
and MLIR's reader of bytecode writes out of bounds on some bytes. So `xlapy._jaxlib.isolation` starts this file as a
script, which answers requests until its input ends. Each is read in a fork: when that ends, the answer says why.

Nothing of xlapy is imported here: the process starts as fast as jaxlib does.
"""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: no-warn-return-any

from __future__ import annotations

import functools
import io
import json
import os
import re
import select
import signal
import struct
import sys
import time
from typing import Any

from jaxlib import _hlo, _jax

__all__ = ["HEADER", "READY", "Refused", "make_context", "read"]

#: the start of a request or reply: its form, a time limit in seconds (of a request), and how many bytes follow
HEADER = struct.Struct("<cdQ")
#: the form of a request, and of its reply, that only asks whether the process is there
READY = b"?"
#: as much of what a reader prints as a message may need
_PRINTED = 4096
#: programs up to this size are looked through for the line that a reader ends on, for so many seconds
_SEARCHED = 1 << 20
_SEARCH = 10.0
#: as many bytes as a reader may take, besides those in proportion to the program: some sizes it takes on trust
_MEMORY = 8 << 30
_LATE = b"the reader takes longer than"


class Refused(Exception):
    """What a reader has against a program: pairs of a place, which may be empty, and a text."""

    def __init__(self, complaints: list[tuple[str, str]]) -> None:
        super().__init__(complaints)
        self.complaints = complaints


def read(form: bytes, data: bytes) -> bytes:
    """A program as a reader of jaxlib makes it.

    Parameters
    ----------
    form : bytes
        ``b"T"`` for HLO text and ``b"H"`` for a serialised ``HloModuleProto``, which both give one that is well formed;
        ``b"S"`` for such a one, which gives its text; ``b"P"`` for such a one, ``b"B"`` for HLO text, ``b"M"`` for MLIR
        text and ``b"A"`` for MLIR bytecode or a portable artifact, which give MLIR bytecode.
    data : bytes

    Returns
    -------
    bytes

    Raises
    ------
    Refused
    """
    if form in (b"A", b"M"):
        return _read_module(form, data)
    try:
        if form == b"P":
            return _jax.mlir.hlo_to_stablehlo(data)
        if form in (b"H", b"S"):
            module = _hlo.HloModule.from_serialized_hlo_module_proto(data)
        else:
            module = _hlo.hlo_module_from_text(data.decode())
        if form == b"S":
            options = _hlo.HloPrintOptions()
            options.print_large_constants = True
            return module.to_string(options).encode()
        proto: bytes = module.as_serialized_hlo_module_proto()
        return _jax.mlir.hlo_to_stablehlo(proto) if form == b"B" else proto
    except (RuntimeError, ValueError) as error:
        text = re.sub(r"^(Bad StatusOr access: )?([A-Z_]+: )?", "", str(error))
        text = text.split("=== Source Location Trace")[0].strip()
        if text.startswith("Syntax error") and "was parsing" not in text:
            text = "a mistake of syntax"
        raise Refused([("", text)]) from None


def _read_module(form: bytes, data: bytes) -> bytes:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _stablehlo

    context = make_context()
    seen: list[tuple[str, str]] = []

    def handler(diagnostic: Any) -> bool:
        seen.append((str(diagnostic.location), diagnostic.message))
        return True

    attached = context.attach_diagnostic_handler(handler)
    try:
        with context:
            if form == b"M":
                module = ir.Module.parse(data.decode())
            else:
                # Not `_jax.mlir.deserialize_portable_artifact`: that one crashes under a diagnostic
                # handler.
                module = _stablehlo.deserialize_portable_artifact(context, data)
            written = io.BytesIO()
            module.operation.write_bytecode(written)
            return written.getvalue()
    except ir.MLIRError as error:
        found = [(str(d.location), d.message) for d in error.error_diagnostics]
        raise Refused(found or seen or [("", error.message)]) from None
    except (RuntimeError, ValueError) as error:
        raise Refused(seen or [("", str(error))]) from None
    finally:
        attached.detach()


def make_context() -> Any:
    """An MLIR context that knows every dialect jaxlib has.

    A new one for each program (2 ms): a context never frees a constant, so a shared one would only grow.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _chlo, _mlirHlo, _sdy, _stablehlo

    context = ir.Context()
    context.enable_multithreading(False)
    context.append_dialect_registry(_registry())
    context.load_all_available_dialects()
    _stablehlo.register_dialect(context)
    _chlo.register_dialect(context)
    _mlirHlo.register_mhlo_dialect(context)
    _sdy.register_dialect(context)
    return context


@functools.cache
def _registry() -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    return registry


# --- the process --------------------------------------------------------------------------------------------------


def _attempt(form: bytes, data: bytes, limit: float) -> tuple[bytes, bytes]:
    """What comes of reading in a fork: ``R`` and what was read, ``N`` and complaints, or ``E`` and why it ended."""
    answer_out, answer_in = os.pipe()
    printed_out, printed_in = os.pipe()
    child = os.fork()
    if not child:
        _child(form, data, answer_in, printed_in)
    os.close(answer_in)
    os.close(printed_in)
    answer, printed = bytearray(), bytearray()
    deadline = time.monotonic() + limit
    pending = {answer_out: answer, printed_out: printed}
    late = False
    while pending:
        ready, _, _ = select.select(list(pending), [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            late = True
            os.kill(child, signal.SIGKILL)
            break
        for each in ready:
            chunk = os.read(each, 1 << 20)
            if chunk:
                pending[each] += chunk
            else:
                del pending[each]
    os.close(answer_out)
    os.close(printed_out)
    _, status = os.waitpid(child, 0)
    if late:
        return b"E", _LATE + b" %d seconds" % limit
    if status or not answer:
        return b"E", _last_words(printed.decode(errors="replace"), status).encode()
    return bytes(answer[:1]), bytes(answer[1:])


def _child(form: bytes, data: bytes, answer: int, printed: int) -> None:
    """Read, answer, and end."""
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        memory = _MEMORY + 64 * len(data)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    except (ImportError, OSError, ValueError):
        pass
    code = 1
    try:
        try:
            found = b"R" + read(form, data)
        except Refused as refused:
            found = b"N" + json.dumps(refused.complaints).encode()
        except MemoryError:
            found = b"Ethe reader needs too much memory"
        with os.fdopen(answer, "wb") as out:
            out.write(found)
        code = 0
    finally:
        os._exit(code)


#: what XLA, LLVM and Python say last
_FATAL = (
    r"\w+\.(?:cc|cpp|h):\d+\] (.+)",
    r"(loc\(.*\): error: .+)",
    r"LLVM ERROR: (.+)",
    r"(\w*Error: .+)",
)


def _last_words(printed: str, status: int) -> str:
    """Why a process ended, from what it printed."""
    for pattern in _FATAL:
        match = re.search(pattern, printed[-_PRINTED:])
        if match:
            return match.group(1).strip()
    number = status & 127
    name = signal.Signals(number).name if number else f"status {status >> 8}"
    return f"the reader ends in {name}: {printed[-200:].strip()}".rstrip(": ")


def _line_of(form: bytes, data: bytes, fault: tuple[bytes, bytes], limit: float) -> int:
    """The first line after which a text has the same fault without those that follow; 0 if only all of it has."""
    lines = data.split(b"\n")
    deadline = time.monotonic() + limit
    low, high = 0, len(lines)
    while high - low > 1 and time.monotonic() < deadline:
        middle = (low + high) // 2
        cut = b"\n".join(lines[:middle])
        if _attempt(form, cut, limit) == fault:
            high = middle
        else:
            low = middle
    return high if high < len(lines) and high - low <= 1 else 0


def _answer(form: bytes, data: bytes, limit: float) -> tuple[bytes, bytes]:
    """As `_attempt`, with the line where a text is at fault, if that can be found."""
    if form == b"L":
        return READY, b"%d" % _line_of_instruction(data, limit)
    found, reason = _attempt(form, data, limit)
    unplaced = found == b"E" or (form == b"T" and found == b"N" and b"was parsing" not in reason)
    if (
        form in (b"T", b"M")
        and unplaced
        and not reason.startswith(_LATE)
        and len(data) <= _SEARCHED
    ):
        line = _line_of(form, data, (found, reason), min(limit, _SEARCH))
        if line and found == b"E":
            return b"E", b"line %d: " % line + reason
        if line:
            complaints = [(p or f"line {line}", t) for p, t in json.loads(reason)]
            return b"N", json.dumps(complaints).encode()
    return found, reason


def _line_of_instruction(data: bytes, limit: float) -> int:
    """The first instruction that a text cannot be read with; 0 if there is none alone.

    Each computation is read by itself, as the entry, with all that stand before it; then as much of it as can be.
    """
    lines = data.split(b"\n")
    deadline = time.monotonic() + limit

    def fails(start: int, stop: int) -> bool:
        """The computation that begins in line `start`, with the lines before `stop`."""
        kept = lines[:stop]
        kept[0] = re.sub(rb"^(HloModule [^,\s]+).*", rb"\1", kept[0])
        kept = [re.sub(rb"^ENTRY ", b"", line) for line in kept]
        kept[start] = b"ENTRY " + kept[start]
        body = [re.sub(rb"^(\s*)ROOT ", rb"\1", line) for line in kept[start + 1 :]]
        body[-1] = re.sub(rb"^(\s*)", rb"\1ROOT ", body[-1])
        text = b"\n".join([*kept[: start + 1], *body, b"}"])
        return _attempt(b"B", text, limit)[0] != b"R"

    start = 0
    for end, line in enumerate(lines):
        if line.rstrip().endswith(b"{") and b"=" not in line.split(b"(")[0]:
            start = end
        if line.strip() != b"}" or end - start < 2 or time.monotonic() > deadline:
            continue
        if not fails(start, end):
            continue
        low, high = start + 1, end
        while high - low > 1 and time.monotonic() < deadline:
            middle = (low + high) // 2
            low, high = (low, middle) if fails(start, middle) else (middle, high)
        return high if high - low <= 1 else 0
    return 0


def _serve(idle: float) -> None:
    """Answer requests until there are no more, or none for some time."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    while select.select([requests], [], [], idle)[0]:
        head = requests.read(HEADER.size)
        if len(head) < HEADER.size:
            return
        form, limit, size = HEADER.unpack(head)
        data = requests.read(size)
        found, answer = _answer(form, data, limit) if form != READY else (READY, b"")
        replies.write(HEADER.pack(found, 0.0, len(answer)) + answer)
        replies.flush()


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
