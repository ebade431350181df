"""Programs as MLIR modules: read, written, transformed, and run by the reference interpreter."""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _mlirHlo, _stablehlo

from xlapy._jaxlib import rewriting, transfers
from xlapy._jaxlib.hlo_lines import described, ended, numbered
from xlapy._jaxlib.isolation import Ended, line_of_instruction, read_isolated
from xlapy._jaxlib.reading import Refused, make_context
from xlapy._jaxlib.types import Array, Module
from xlapy.dtypes import TABLE, as_dtype
from xlapy.errors import ArtifactError, UnsupportedOpError

_BYTECODE = b"ML\xefR"


@contextmanager
def _diagnosed(context: Any, what: str, source: str = "") -> Iterator[None]:
    """Turn MLIR's errors into `ArtifactError`, with the place and the text of each diagnostic."""
    seen: list[tuple[str, str]] = []

    def handler(diagnostic: Any) -> bool:
        seen.append((str(diagnostic.location), diagnostic.message))
        return True

    attached = context.attach_diagnostic_handler(handler)
    try:
        yield
    except ir.MLIRError as error:
        found = [(str(d.location), d.message) for d in error.error_diagnostics]
        complaints = found + seen or [("", error.message)]
        raise ArtifactError(f"{what}; got {described(source, complaints)} [X6]") from None
    except (RuntimeError, ValueError) as error:
        complaints = seen or [("", str(error))]
        raise ArtifactError(f"{what}; got {described(source, complaints)} [X6]") from None
    finally:
        attached.detach()


def parse(program: str | bytes) -> Module:
    """Parse and verify a program that was written here; see `read` for others.

    Parameters
    ----------
    program : str or bytes
        MLIR text, in any mix of StableHLO, CHLO, MHLO, Shardy, func and builtin; MLIR bytecode; or
        a portable StableHLO artifact.

    Returns
    -------
    Module
        Keeps its context alive.

    Raises
    ------
    ArtifactError
        With the line and column of what is wrong.
    """
    if isinstance(program, bytes) and program[:4] == _BYTECODE:
        return _parse_bytecode(program)
    context = make_context()
    with _diagnosed(context, _STABLEHLO), context:
        return ir.Module.parse(program)


def read(program: str | bytes) -> Module:
    """As `parse`, of a program of unknown origin: nothing in it ends or holds up this process.

    Raises
    ------
    ArtifactError
        With the line and column of what is wrong.
    UnsupportedOpError
        For an operation, type or attribute that no dialect here has, with its line.
    """
    if isinstance(program, bytes):
        form, data = b"A", program
    else:
        form, data = b"M", program.encode()
        _check_nesting(data)
    try:
        bytecode = read_isolated(form, data)
    except Refused as refused:
        _check_known(refused.complaints, data if form == b"M" else b"")
        raise ArtifactError(f"{_STABLEHLO}; got {described('', refused.complaints)} [X6]") from None
    except Ended as end:
        what = str(end)
        if "SIGFPE" in what and b"all_to_all" in data:
            what = "an all_to_all with empty replica_groups"
        raise ArtifactError(f"{_STABLEHLO}; got {what} [X6]") from None
    return _parse_bytecode(bytecode)


#: what MLIR says of what it does not know, what that is, and how it is written
_UNKNOWN = (
    (r'`!"(\w+)"<"(.*)">` type created with unregistered', "a type", "!{}.{}"),
    (r'#"(\w+)"<"(.*)">.* attribute created with unregistered', "an attribute", "#{}.{}"),
    (r"not found for custom op '([^']*)'", "an operation", "{}"),
    (r"custom op '([^']*)' is unknown", "an operation", "{}"),
    (r"unregistered operation '([^']*)'", "an operation", "{}"),
    (r"operation being parsed with an unregistered dialect", "an operation", ""),
)


def _check_known(complaints: Sequence[tuple[str, str]], program: bytes) -> None:
    """What is refused must not be refused for being unknown."""
    for place, text in complaints:
        for pattern, what, form in _UNKNOWN:
            match = re.search(pattern, text)
            if match is None:
                continue
            where = re.search(r'"-":(\d+):(\d+)', place) if program else None
            operation = ""
            if where:
                line = program.decode().split("\n")[int(where[1]) - 1]
                # Its name stands behind those of its results.
                name = re.search(r'(?:^|=|\s)\s*"?([a-z]\w*\.\w[\w.]*)"?', line)
                operation = name[1] if name else ""
            got = form.format(*match.groups()) if form else operation
            within = f" in {operation}" if operation and operation != got else ""
            at = f"\n  at line {where[1]}, column {where[2]}" if where else ""
            raise UnsupportedOpError(f"{what} must be known to xlapy; got {got}{within} [X6]{at}")


_STABLEHLO = "a program must be valid StableHLO"


@contextmanager
def _read_elsewhere(what: str, text: str = "") -> Iterator[None]:
    """Turn the errors of `read_isolated` into `ArtifactError`."""
    try:
        yield
        return
    except Refused as refused:
        complaint = described(text, refused.complaints)
    except Ended as end:
        complaint = ended(text, str(end))
    if text and not complaint.startswith("line "):
        line = line_of_instruction(text)
        complaint = f"line {line}: {complaint}" if line else complaint
    raise ArtifactError(f"{what}; got {complaint} [X6]")


def _parse_bytecode(data: bytes, what: str = _STABLEHLO, source: str = "") -> Module:
    """What MLIR wrote itself."""
    context = make_context()
    with _diagnosed(context, what, source), context:
        # Not `_jax.mlir.deserialize_portable_artifact`: that one crashes under a diagnostic
        # handler.
        return _stablehlo.deserialize_portable_artifact(context, data)


#: MLIR's parser calls itself for what stands in brackets, until the stack is at its end
_DEEPEST = 500
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"([{<")] = 1
_STEPS[list(b")]}>")] = -1


def _check_nesting(program: bytes) -> None:
    """No brackets may lie deeper in each other than the parser bears."""
    data = np.frombuffer(program, np.uint8)
    steps = _STEPS[data]
    steps[1:][(data[1:] == ord(">")) & (data[:-1] == ord("-"))] = 0  # an arrow
    places = np.flatnonzero(steps)
    depth = np.cumsum(steps[places], dtype=np.int64)
    # One closed too often, as in a comment, makes nothing after it less deep.
    depth -= np.minimum.accumulate(np.minimum(depth, 0))
    if depth.max(initial=0) > _DEEPEST:
        place = places[int(np.argmax(depth > _DEEPEST))]
        line = 1 + int(np.count_nonzero(data[:place] == ord("\n")))
        raise ArtifactError(
            f"brackets must not be nested more than {_DEEPEST} deep; got more in line {line} [X6]"
        )


def text(module: Module, generic: bool = False, locations: bool = False) -> str:
    """A module as text.

    Parameters
    ----------
    module : Module
    generic : bool
        One form for all operations, the one that programs are emitted in, instead of the dialects'
        own.
    locations : bool
        Keep where each operation comes from.
    """
    return module.operation.get_asm(print_generic_op_form=generic, enable_debug_info=locations)


def generic_text(module: Module) -> str:
    """A module in MLIR's generic form, with locations."""
    return text(module, generic=True, locations=True)


def clone(module: Module) -> Module:
    """A module of its own, in a context of its own."""
    return _parse_bytecode(_bytecode(module))


def _bytecode(module: Module) -> bytes:
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


# --- transformations ------------------------------------------------------------------


@functools.cache
def _register_passes() -> None:
    _stablehlo.register_stablehlo_passes()
    _mlirHlo.register_mhlo_passes()


def run_passes(module: Module, pipeline: str) -> Module:
    """Run MLIR passes on a copy of a module.

    Parameters
    ----------
    module : Module
    pipeline : str
        Passes on the module, by name: ``"canonicalize,cse,func.func(chlo-legalize-to-stablehlo)"``.

    Returns
    -------
    Module

    Raises
    ------
    ArtifactError
        If a pass is unknown or fails.
    """
    _register_passes()
    copy = clone(module)
    context = copy.context
    with _diagnosed(context, f"the passes {pipeline!r} must run"), context:
        passmanager.PassManager.parse(f"builtin.module({pipeline})").run(copy.operation)
    return copy


def refine_shapes(module: Module, argument_types: Sequence[str]) -> Module:
    """Make a program over dimensions of any size one over given sizes.

    Parameters
    ----------
    module : Module
        With ``?`` in the types of ``main``.
    argument_types : sequence of str
        The MLIR types of the arguments of ``main``, such as ``"tensor<8x4xf32>"``.

    Returns
    -------
    Module
        Without any ``?``.

    Raises
    ------
    ArtifactError
        If a dimension still depends on data, or an assertion of the program on its shapes fails.
    """
    refined = run_passes(
        module, f"stablehlo-refine-arguments{{types={','.join(argument_types)}}}"
    )  # fmt: skip
    try:
        return _parse_bytecode(_jax.mlir.refine_polymorphic_shapes(_bytecode(refined)))
    except xc.XlaRuntimeError as error:
        raise ArtifactError(
            f"the program's shapes must follow from its arguments; got {error} [X6]"
        ) from None


# --- artifacts ------------------------------------------------------------------------


def current_version() -> str:
    """The StableHLO version of this jaxlib, such as ``"1.17.0"``."""
    return _stablehlo.get_current_version()


def minimum_version() -> str:
    """The oldest StableHLO version that this jaxlib reads and writes."""
    return _stablehlo.get_minimum_version()


def compatible_version(weeks: int) -> str:
    """The StableHLO version that consumers as old as 4 or 12 weeks read."""
    requirement = getattr(_stablehlo.StablehloCompatibilityRequirement, f"WEEK_{weeks}")
    return _stablehlo.get_version_from_compatibility_requirement(requirement)


def has_composites(version: str | None) -> bool:
    """Whether a StableHLO version has composites, which CHLO's functions become; by default it has."""
    return version is None or [int(n) for n in re.findall(r"\d+", version)] >= [0, 19, 0]


def serialize_artifact(module: Module, version: str | None = None) -> bytes:
    """A portable artifact, which consumers of `version` and later read.

    Parameters
    ----------
    module : Module
        CHLO operations become composites (in versions without: what they are made of), MHLO ones
        custom calls, Shardy's annotations attributes.
    version : str, optional
        A StableHLO version; default the one that 12 weeks old consumers read.

    Returns
    -------
    bytes

    Raises
    ------
    ArtifactError
        If the version is unknown, or has no form for an operation in the module.
    """
    version = version or compatible_version(12)
    if not has_composites(version):
        module = run_passes(module, "func.func(chlo-legalize-to-stablehlo)")
    try:
        # It changes the module it is given. `hlo.serialize_portable_artifact` would drop CHLO and
        # MHLO silently.
        return _jax.mlir.serialize_portable_artifact(clone(module), version)
    except (RuntimeError, ValueError) as error:
        message = str(error).removeprefix("INVALID_ARGUMENT: ")
        raise ArtifactError(
            f"the program must have a form in StableHLO {version} (this jaxlib writes "
            f"{minimum_version()} to {current_version()}); got {message} [X6]"
        ) from None


# --- HLO ------------------------------------------------------------------------------


def from_hlo(program: str | bytes) -> Module:
    """Read an HLO program as StableHLO, with what that lacks in MHLO (``mhlo.fusion``, ...).

    Parameters
    ----------
    program : str or bytes
        HLO text, or a serialised ``HloModuleProto``.

    Returns
    -------
    Module

    Raises
    ------
    ArtifactError
    UnsupportedOpError
        For sends and receives that XLA's conversion does not take.
    """
    text = program if isinstance(program, str) else ""
    what = "a program must be valid HLO"
    if text:
        _require_constants(text)
    with _read_elsewhere(what, text):
        proto = _read_text(program) if isinstance(program, str) else read_isolated(b"H", program)
        proto, channel = transfers.prepare(rewriting.prepare(proto, text))
        module = _parse_bytecode(read_isolated(b"P", proto), what, text)
    if channel is not None:
        transfers.restore(module, channel)
    return module


_LEFT_OUT = re.compile(r"=\s*\S+\s+constant\(.*\{\.\.\.\}", re.MULTILINE)


def _require_constants(text: str) -> None:
    """Refuse constants that are left out, for which XLA's reader takes 0, 1, 2, ..."""
    found = _LEFT_OUT.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise ArtifactError(
            f"the values of constants must be in a program; got line {line}: constant({{...}}) [X6]\n"
            "  let XLA write them, with --xla_dump_large_constants"
        )


def _read_text(program: str) -> bytes:
    """HLO text as a serialised module, whose instructions say in which line they stand."""
    try:
        return read_isolated(b"T", numbered(program).encode())
    except (Refused, Ended):
        # What is wrong is told of the text as it was given.
        return read_isolated(b"T", program.encode())


def to_hlo(module: Module) -> str:
    """The HLO that XLA makes of a StableHLO program, before it optimises."""
    try:
        made = _jax.mlir.mlir_module_to_xla_computation(_bytecode(module))
        return made.as_hlo_text(print_large_constants=True)
    except xc.XlaRuntimeError as error:
        raise ArtifactError(f"the program must have a form in HLO; got {error} [X6]") from None


# --- the reference interpreter --------------------------------------------------------


def evaluate(module: Module, arguments: Sequence[Array]) -> list[Array]:
    """Run ``main`` with StableHLO's reference interpreter: slow, and what the specification means.

    It aborts the process on some operations that it lacks, so call it in a child process.

    Parameters
    ----------
    module : Module
    arguments : sequence of numpy.ndarray

    Returns
    -------
    list of numpy.ndarray
    """
    return _evaluate(module, [arguments], "")[0]


def evaluate_grid(
    module: Module, arguments: Sequence[Sequence[Array]], num_partitions: int
) -> list[list[Array]]:
    """Run ``main`` on several devices, which may communicate, with the reference interpreter.

    Parameters
    ----------
    module : Module
    arguments : sequence of sequences of numpy.ndarray
        Of each device, the partitions of a replica beside each other.
    num_partitions : int
        Of each replica.

    Returns
    -------
    list of lists of numpy.ndarray
        Of each device.
    """
    replica = f"[{', '.join(['@xlapy.main'] * num_partitions)}]"
    return _evaluate(
        module, arguments, f"[{', '.join([replica] * (len(arguments) // num_partitions))}]"
    )


def _evaluate(
    module: Module, arguments: Sequence[Sequence[Array]], programs: str
) -> list[list[Array]]:
    # Python can neither make nor read attributes of complex and narrow types. So the arguments
    # become constants, written as text, and the results are split or converted to types that it
    # reads, all within the program.
    copy = clone(module)
    main = next(op for op in copy.body.operations if _symbol(op) == "main")
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    context = copy.context
    with context:
        main.attributes["sym_name"] = ir.StringAttr.get("xlapy.main")
        main.attributes["sym_visibility"] = ir.StringAttr.get("private")
    functions = "\n".join(op.get_asm(use_local_scope=True) for op in copy.body.operations)
    lines: list[str] = []
    inputs: list[tuple[str, str]] = []
    for given in arguments:
        for array, type_ in zip(given, kind.inputs, strict=True):
            name = f"%a{len(inputs)}"
            lines.append(f"{name} = stablehlo.constant {_dense(np.asarray(array))} : {type_}")
            inputs.append((name, str(type_)))
    results = [str(t) for t in kind.results] * len(arguments)
    names, types = _joined(inputs)
    signature = f"({names}) {{programs = {programs}}} : ({types}) -> ({', '.join(results)})"
    call = f'"interpreter.run_parallel"{signature}'
    if not programs:
        call = f"func.call @xlapy.main({names}) : ({types}) -> ({', '.join(results)})"
    lines.append(f"%r:{len(results)} = {call}" if results else call)
    outputs: list[tuple[str, str]] = []
    for i, type_ in enumerate(results):
        dims, element = _split_type(type_)
        readable = _READABLE.get(element)
        if element.startswith("complex"):
            part = f"{dims}{element[8:-1]}>"
            for half in ("real", "imag"):
                lines.append(f"%{half}{i} = stablehlo.{half} %r#{i} : ({type_}) -> {part}")
                outputs.append((f"%{half}{i}", part))
        elif readable is not None:
            lines.append(f"%c{i} = stablehlo.convert %r#{i} : ({type_}) -> {dims}{readable}>")
            outputs.append((f"%c{i}", f"{dims}{readable}>"))
        else:
            outputs.append((f"%r#{i}", type_))
    names, types = _joined(outputs)
    lines.append(f"return {names} : {types}" if outputs else "return")
    body = "\n    ".join(lines)
    text = f"module {{\n{functions}\n  func.func @main() -> ({types}) {{\n    {body}\n  }}\n}}"
    context = make_context()
    _stablehlo.register_interpreter_dialect(context)
    # Each device is a thread of its own, and all of them make types in this context.
    context.enable_multithreading(bool(programs))
    with _diagnosed(context, "a program must run in the reference interpreter"), context:
        values = iter([np.array(a) for a in _stablehlo.eval_module(ir.Module.parse(text), [])])
    return [[_read(str(t), values) for t in kind.results] for _ in arguments]


def _joined(values: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Names, and types, as they stand in text."""
    return ", ".join([n for n, _ in values]), ", ".join([t for _, t in values])


def _read(type_: str, values: Iterator[Array]) -> Array:
    """The next result, of the type that it had before it was made readable."""
    element = _split_type(type_)[1]
    array = next(values)
    if element.startswith("complex"):
        array = _complex(array, next(values))
    return array.astype(as_dtype(element if element != "i1" else "pred").numpy)


# Elements that numpy can not read out of an MLIR attribute, and a type that holds each of their
# values.
_READABLE = {
    **dict.fromkeys(("i2", "i4"), "i8"),
    **dict.fromkeys(("ui2", "ui4"), "ui8"),
    **{d.mlir: "f32" for d in TABLE if d.kind == "float" and d.bits <= 16},
}


def _symbol(op: Any) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def _split_type(type_: str) -> tuple[str, str]:
    """``"tensor<2x3xf32>"`` as ``"tensor<2x3x"`` and ``"f32"``."""
    match = re.fullmatch(r"(tensor<(?:\d+x)*)(.+)>", type_)
    if match is None:
        raise ArtifactError(
            f"the reference interpreter must be given arrays of known shape; got {type_} [X1]"
        )
    return match[1], match[2]


def _complex(real: Array, imag: Array) -> Array:
    # real + 1j * imag would make nan of an infinite part.
    made = np.empty(real.shape, np.result_type(real, 1j))
    made.real, made.imag = real, imag
    return made


def _dense(array: Array) -> str:
    if array.dtype == np.bool_:
        # Whether the bits of i1 are packed in hex has changed between versions of MLIR.
        return f"dense<{str(array.tolist()).lower()}>" if array.size else "dense<>"
    return f'dense<"0x{array.tobytes().hex()}">' if array.size else "dense<>"
