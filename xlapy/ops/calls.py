"""Call and CompositeCall: computations that stay functions of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import ConstraintError, DTypeError, XlapyError, shown
from xlapy.specs import Spec, TensorSpec, require, require_dtype
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.codecs import I32, STRING, Optional, quote
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, by_hlo_name, register
from xlapy.trace.stablehlo import Writer, constant_text
from xlapy.trace.stablehlo_reader import Reader, refines

from .branch_rules import call_ad
from .control_batching import batch_call
from .regions import bare, require_computation, traced_with_captures

__all__ = [
    "attribute_text",
    "call",
    "call_op",
    "composite_call",
    "composite_call_op",
    "dictionary_text",
    "infer_call",
    "is_dictionary",
]

Array = np.ndarray[Any, Any]
Run = Callable[..., tuple[Any, ...]]

# --- Call ---------------------------------------------------------------------------------------------------------


def infer_call(*specs: Spec, computation: Computation) -> tuple[Spec, ...]:
    """C1: the operands are what the computation takes."""
    require_computation(computation, specs, "I1", "C1", "computation")
    return computation.result_specs


def write_call(writer: Writer, instruction: Any) -> None:
    """A function of the module, and a call of it."""
    symbol = writer.symbol(instruction.params["computation"])
    writer.line("func.call", instruction, f"callee = @{symbol}")


def read_call(reader: Reader, operation: Any) -> Any:
    """A call of a function of the module."""
    name = reader.text(operation, "callee").lstrip("@").strip('"')
    operands = reader.operands(operation)
    return bind(call_op, *operands, computation=reader.function(name, operands))


def kernel_call(*arrays: Array, computation: Run, out: Any) -> tuple[Any, ...]:
    """Results = computation(operands)."""
    return computation(*arrays)


call_op = register(Op(
    name="call",
    section="Call",
    infer=infer_call,
    hlo=Hlo("func.call", write=write_call, read=read_call),
    kernel=kernel_call,
    ad=call_ad("computation"),
    batch=batch_call("computation"),
))  # fmt: skip


def call(computation: Any, *operands: Any) -> Any:
    """Run a computation on operands.

    Under a trace the computation stays one function of the program, however often it is called.

    Parameters
    ----------
    computation : Computation or callable
        A function is traced; outer tensors that it uses become further operands.
    *operands : Tensor
        Any number of them, of the types of the computation's parameters.

    Returns
    -------
    Tensor or tuple of Tensor
        What the computation gives.

    Raises
    ------
    DTypeError
        [C1] If the operands are not what the computation takes.

    Notes
    -----
    Section Call of the operation semantics. Derivatives and vectorised forms are calls again.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.call(lambda x, y: ops.add(x, y), 1.0, 2.0)
    Tensor(3., f32[])
    """
    if type(computation) is Computation:
        return bare(bind(call_op, *operands, computation=computation), computation)
    tensors = [lift(x) for x in operands]
    ((found, used),), outside = traced_with_captures(
        [(computation, [t.spec for t in tensors], "computation")]
    )
    return bare(bind(call_op, *tensors, *[outside[i] for i in used], computation=found), found)


# --- CompositeCall ------------------------------------------------------------------------------------------------


def infer_composite_call(
    *specs: Spec, decomposition: Computation, name: str, composite_attributes: str, version: int
) -> tuple[Spec, ...]:
    """C1 to C4."""
    ok = type(name) is str and all(part.isidentifier() for part in name.split(".")) and "." in name
    require(ok, "C1", "name must be of the form namespace.name", name)
    require_computation(decomposition, specs, "I4", "C3", "decomposition")
    require(
        type(version) is int and -(2**31) <= version < 2**31,
        "I5",
        "version must be an integer of 32 bits",
        version,
    )
    text = composite_attributes
    require(
        type(text) is str and is_dictionary(text),
        "I3", "composite_attributes must be the text of a dictionary, such as '{n = 1 : i32}'", text,
    )  # fmt: skip
    return decomposition.result_specs


_PAIRS: Final = {")": "(", "]": "[", "}": "{", ">": "<"}


def is_dictionary(text: str) -> bool:
    """Whether a text is one pair of braces with all brackets in it matched: it cannot run into what follows it."""
    if not text.startswith("{") or not text.endswith("}"):
        return False
    pending: list[str] = []
    quoted = escaped = False
    for i, char in enumerate(text):
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "([{<":
            pending.append(char)
        elif char == ">" and text[i - 1] == "-":  # the arrow of a function's type
            continue
        elif char in _PAIRS:
            if not pending or pending.pop() != _PAIRS[char]:
                return False
            if not pending and i != len(text) - 1:
                return False
    return not pending and not quoted


def write_composite_call(writer: Writer, instruction: Any) -> None:
    """The decomposition is a function of the module."""
    params = instruction.params
    symbol = writer.symbol(params["decomposition"])
    attributes = [f"name = {quote(params['name'])}", f"decomposition = @{symbol}"]
    if params["composite_attributes"] != "{}":
        attributes.append(f"composite_attributes = {params['composite_attributes']}")
    if params["version"]:
        attributes.append(f"version = {params['version']} : i32")
    writer.line("stablehlo.composite", instruction, ", ".join(attributes))


def read_composite_call(reader: Reader, operation: Any) -> Any:
    """The decomposition is a function of the module; what is named after a function of CHLO is that function."""
    operands = reader.operands(operation)
    name = STRING.parse(reader.attribute(operation, "name"))
    attributes = reader.text(operation, "composite_attributes", "{}")
    known = by_hlo_name(name) if name.startswith("chlo.") and attributes == "{}" else None
    if known is not None and known.hlo.read is None:
        # Portable artifacts hold CHLO so. The operation's own derivative is right everywhere: that of the decomposition
        # may be nan or 0 where two of its pieces meet.
        try:
            result = bind(known, *operands)
        except (XlapyError, TypeError):  # another function of that name, maybe of more operands
            pass
        else:
            declared = reader.result_specs(operation)
            if [result.spec] == declared or (
                len(declared) == 1 and refines(result.spec, declared[0])
            ):
                return result
    function = reader.text(operation, "decomposition").lstrip("@").strip('"')
    return bind(
        composite_call_op,
        *operands,
        decomposition=reader.function(function, operands),
        name=name,
        composite_attributes=attributes,
        version=Optional(I32, 0).parse(reader.attribute(operation, "version")),
    )


def kernel_composite_call(
    *arrays: Array, decomposition: Run, name: str, composite_attributes: str, version: int, out: Any
) -> tuple[Any, ...]:
    """Results = decomposition(operands)."""
    return decomposition(*arrays)


composite_call_op = register(Op(
    name="composite_call",
    section="CompositeCall",
    infer=infer_composite_call,
    hlo=Hlo("stablehlo.composite", write=write_composite_call, read=read_composite_call),
    kernel=kernel_composite_call,
    ad=call_ad("decomposition"),
    batch=batch_call("decomposition"),
))  # fmt: skip


def attribute_text(value: Any) -> str:
    """A Python value as the text of an MLIR attribute: integers are i64 and floats f32, unless numpy says otherwise."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"0x{np.float32(value).view(np.uint32):08X} : f32"
    if isinstance(value, np.ndarray):
        return f"{constant_text(value)} : {TensorSpec(value.shape, value.dtype).mlir}"
    if isinstance(value, np.integer):
        return f"{int(value)} : {as_dtype(value.dtype).mlir}"
    if isinstance(value, np.floating):
        raw = int.from_bytes(value.tobytes(), "little")
        return f"0x{raw:0{2 * value.itemsize}X} : {as_dtype(value.dtype).mlir}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(attribute_text, value))}]"
    if isinstance(value, Mapping):
        return dictionary_text(value)
    raise DTypeError(
        f"an attribute must be a bool, number, string, array, or a list or dictionary of them; got {shown(value)} [X1]"
    )


def dictionary_text(values: Mapping[str, Any]) -> str:
    """The text of an MLIR dictionary, its keys in order."""
    entries = []
    for key in sorted(values):
        if not isinstance(key, str) or not key:
            raise ConstraintError(f"keys must be names; got {shown(key)} [X1]")
        entries.append(
            f"{key if key.isidentifier() else quote(key)} = {attribute_text(values[key])}"
        )
    return f"{{{', '.join(entries)}}}"


def composite_call(
    computation: Any,
    *operands: Any,
    name: str,
    attributes: str | Mapping[str, Any] | None = None,
    version: int = 0,
) -> Any:
    """An operation of another dialect together with what it is made of.

    A compiler that knows `name` may replace it by its own; every other one runs the computation.

    Parameters
    ----------
    computation : Computation or callable
        The decomposition. Of outer tensors it may use only concrete ones, which become constants.
    *operands : Tensor
    name : str
        With its namespace: ``"my_compiler.gelu"``.
    attributes : str or mapping, optional
        The text of an MLIR dictionary, ``"{n = 1 : i32}"``, or Python values: an int is an i64, a float an f32,
        numpy scalars and arrays keep their type.
    version : int
        Of the composite's semantics.

    Returns
    -------
    Tensor or tuple of Tensor

    Raises
    ------
    ConstraintError
        [C1] If the name has no namespace.
    DTypeError
        [C3] If the operands are not what the computation takes.

    Notes
    -----
    Section CompositeCall of the operation semantics. A derivative or a vectorised form is no longer the operation
    of that name, so it is a plain call.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.composite_call(lambda x: ops.mul(x, x), 3.0, name="sample.square", attributes={"n": 2})
    Tensor(9., f32[])
    """
    require_dtype(type(name) is str, "I1", "name must be a text", name)
    tensors = [lift(x) for x in operands]
    found = as_computation(computation, [t.spec for t in tensors], name=name.rsplit(".", 1)[-1])
    text = attributes if isinstance(attributes, str) else dictionary_text(attributes or {})
    outs = bind(
        composite_call_op,
        *tensors,
        decomposition=found,
        name=name,
        composite_attributes=text,
        version=version,
    )
    return bare(outs, found)
