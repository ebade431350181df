"""StableHLO text with quantised types, which the MLIR of jaxlib does not know.

For MLIR, a quantised tensor becomes one of the floats that it stands for, with the quantised type as its encoding,
which MLIR carries along but does not look into. The reader then takes it for a tensor of its integers: operations that
only move elements move those, and all others compute in floats between a dequantisation and a quantisation, as
StableHLO says. So a program that was read has no quantised types any more.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from xlapy import rounding
from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ArtifactError, UnsupportedOpError
from xlapy.interchange.quantized_types import QuantizedType, parse_quantized
from xlapy.specs import Spec, TensorSpec, require, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.stablehlo_reader import Reader, spec_of_type

__all__ = ["read_quantized", "spelled_as_floats"]

# --- text ---------------------------------------------------------------------------------------------------------

#: how operations on quantised types are spelled that MLIR would refuse on floats
_SPELLED: Final = {
    "stablehlo.uniform_quantize": "stablehlo.convert",
    "stablehlo.uniform_dequantize": "stablehlo.convert",
    "stablehlo.bitcast_convert": "mhlo.bitcast",
}
_QUANTIZED: Final = r"!quant\.\w+(?:<(?:[^<>\"]|<[^<>\"]*>)*>)?"
_ALIAS: Final = re.compile(rf"^([ \t]*)(![\w$]+)([ \t]*=[ \t]*)({_QUANTIZED})", re.M)
_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*'
    rf"|(?P<before>tensor<[\d?x*\s]*)?(?P<type>{_QUANTIZED})(?P<after>\s*,)?"
    r"|\bstablehlo\.\w+"
)


def spelled_as_floats(text: str) -> str:
    """The text with every quantised type as an encoding of floats; lines stay where they are.

    Raises
    ------
    UnsupportedOpError
        With the line of a quantised type that is not of an array of known rank, or not uniform.
    """
    aliases: dict[str, str] = {}

    def name_alias(match: re.Match[str]) -> str:
        aliases[match.group(2)] = match.group(4)
        return "\n" * match.group(0).count("\n")

    text = _ALIAS.sub(name_alias, text)
    for alias, meant in aliases.items():
        text = re.sub(rf"{re.escape(alias)}(?![\w$.])", lambda _, meant=meant: meant, text)  # type: ignore[misc]

    def spell(match: re.Match[str]) -> str:
        found = match.group(0)
        if match.group("type") is None:
            name = found.strip('"')
            return found.replace(name, _SPELLED.get(name, name))
        line = text.count("\n", 0, match.start()) + 1
        try:
            if match.group("before") is None or "*" in match.group("before"):
                raise UnsupportedOpError(
                    f"quantised types must be elements of arrays; got {match.group('type')} [X6]"
                )
            if match.group("after"):
                raise UnsupportedOpError(
                    f"arrays of {match.group('type')} must not have encodings or bounds; got"
                    f" {match.group('after').strip(' ,')} [X6]"
                )
            quantized = parse_quantized(match.group("type")[1:])
        except (UnsupportedOpError, ValueError) as error:
            error.args = (f"{error.args[0]}\n  at line {line}",)
            raise
        lines = "\n" * found.count("\n")
        return f'{match.group("before")}{quantized.expressed.mlir}, "{quantized}"{lines}'

    return _TOKEN.sub(spell, text)


# --- types --------------------------------------------------------------------------------------------------------

_ENCODED: Final = re.compile(r'(?<=[x<])[a-z]\w*, "(quant\.uniform<[^"]*)"')


def _storage_spec(text: str) -> Spec:
    """The spec of a value: quantised ones are held as their integers."""
    if '"quant.' in text:
        text = _ENCODED.sub(lambda m: parse_quantized(m.group(1)).storage.mlir, text)
    return spec_of_type(text)


def _quantized(value: Any) -> QuantizedType | None:
    """The quantised type of a value, None for others."""
    match = _ENCODED.search(str(value.type))
    return None if match is None else parse_quantized(match.group(1))


# --- arithmetic ---------------------------------------------------------------------------------------------------


def _levels(values: tuple[Any, ...], quantized: QuantizedType, dtype: DType, shape: Any) -> Tensor:
    """Scales or zero points, one for each element."""
    if len(set(values)) == 1:
        return _splat(values[0], dtype, shape)
    array = rounding.astype(np.asarray(values), dtype.numpy)
    axis = quantized.axis
    return bind(  # type: ignore[no-any-return]
        lookup("broadcast_in_dim"),
        bind(lookup("constant"), value=array),
        shape=shape,
        broadcast_dimensions=(axis,),
    )


def _splat(value: Any, dtype: DType, shape: Any = ()) -> Tensor:
    """A constant of its own, which is not kept for other uses: a body has no outer values."""
    with np.errstate(over="ignore"):  # the bounds of wide integers may be infinite as floats
        one = rounding.astype(np.asarray(value), dtype.numpy)
    return bind(lookup("constant"), value=np.broadcast_to(one, shape))  # type: ignore[no-any-return]


def _check_axis(quantized: QuantizedType, spec: Any) -> None:
    require_shape(
        type(spec) is TensorSpec and spec.is_static,
        "X6",
        "the shape must be static where a quantised tensor is computed with",
        spec,
    )
    axis = quantized.axis
    if axis is None:
        return
    require_shape(
        0 <= axis < spec.rank and spec.shape[axis] == len(quantized.scales),
        "C12",
        f"there must be a scale for each index along dimension {axis}, {len(quantized.scales)}",
        spec,
    )


def dequantize(x: Tensor, quantized: QuantizedType) -> Tensor:
    """The floats that the integers of a quantised tensor stand for."""
    _check_axis(quantized, x.spec)
    shape = x.shape
    if any(quantized.zero_points):
        # Wide enough that no difference wraps around.
        wide = as_dtype("s64" if quantized.storage.bits == 32 else "s32")
        x = bind(lookup("convert_element_type"), x, dtype=wide)
        x = bind(lookup("sub"), x, _levels(quantized.zero_points, quantized, wide, shape))
    floats = bind(lookup("convert_element_type"), x, dtype=quantized.expressed)
    scales = _levels(quantized.scales, quantized, quantized.expressed, shape)
    return bind(lookup("mul"), floats, scales)  # type: ignore[no-any-return]


def quantize(x: Tensor, quantized: QuantizedType) -> Tensor:
    """The integers that stand for floats: rounded to nearest, ties to even, after the zero point is added."""
    _check_axis(quantized, x.spec)
    shape, dtype = x.shape, quantized.expressed
    scaled = bind(lookup("div"), x, _levels(quantized.scales, quantized, dtype, shape))
    if any(quantized.zero_points):
        zero_points = _levels(quantized.zero_points, quantized, dtype, shape)
        scaled = bind(lookup("add"), scaled, zero_points)
    low, high = _splat(quantized.minimum, dtype), _splat(quantized.maximum, dtype)
    clamped = bind(lookup("clamp"), low, scaled, high)
    rounded = bind(lookup("round_nearest_even"), clamped)
    return bind(lookup("convert_element_type"), rounded, dtype=quantized.storage)  # type: ignore[no-any-return]


# --- operations ---------------------------------------------------------------------------------------------------

#: what only moves elements: operands of one type, up to the dimension of its scales
_MOVING: Final = frozenset(
    "stablehlo." + name
    for name in (
        "all_gather", "all_to_all", "broadcast_in_dim", "collective_broadcast", "collective_permute", "concatenate",
        "copy", "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad", "dynamic_reshape", "dynamic_slice",
        "dynamic_update_slice", "gather", "get_dimension_size", "pad", "real_dynamic_slice", "reshape", "reverse",
        "select", "set_dimension_size", "slice", "transpose",
    )
)  # fmt: skip
#: what has quantised types wherever its operands have them, however many there are
_CARRYING: Final = frozenset({
    "func.call", "stablehlo.after_all", "stablehlo.case", "stablehlo.composite", "stablehlo.get_tuple_element",
    "stablehlo.if", "stablehlo.optimization_barrier", "stablehlo.tuple", "stablehlo.while", "stablehlo.map",
    "stablehlo.reduce", "stablehlo.reduce_scatter", "stablehlo.reduce_window", "stablehlo.all_reduce",
    "stablehlo.scatter", "stablehlo.select_and_scatter", "stablehlo.sort",
})  # fmt: skip
#: those with an operand for each result, or several, of one type with it
_IN_PLACE: Final = frozenset(
    "stablehlo." + name
    for name in (
        "all_reduce", "optimization_barrier", "reduce", "reduce_scatter", "reduce_window", "select_and_scatter", "sort",
        "while",
    )
)  # fmt: skip
#: what the world outside sees the elements of
_OUTSIDE: Final = frozenset(
    "stablehlo." + name for name in ("custom_call", "infeed", "outfeed", "recv", "send")
)


def _read(reader: Reader, operation: Any) -> Any:
    """The results of an operation on quantised values; None for others."""
    given = [_quantized(v) for v in operation.operands]
    made = [_quantized(v) for v in operation.results]
    types = [t for t in (*given, *made) if t is not None]
    if not types:
        return None
    name = operation.name
    if name in _OUTSIDE:
        raise UnsupportedOpError(
            f"what takes part in the world outside must not be quantised; got {types[0]} [X6]"
        )
    if name == "mhlo.bitcast":
        (x,), (result,) = reader.operands(operation), reader.result_specs(operation)
        assert type(result) is TensorSpec
        return bind(lookup("bitcast_convert_type"), x, dtype=result.dtype)
    if name in _MOVING:
        _check_same(operation, types)
        return reader.read(operation)
    if name in _CARRYING:
        _check_carried(reader, operation, given, made)
        return reader.read(operation)
    return _in_floats(reader, operation, given, made)


def _in_floats(
    reader: Reader,
    operation: Any,
    given: list[QuantizedType | None],
    made: list[QuantizedType | None],
) -> Any:
    """Dequantise, compute, quantise."""
    operands = list(operation.operands)
    held = [reader.values[v] for v in operands]
    for value, x, quantized in zip(operands, held, given, strict=True):
        if quantized is not None:
            reader.values[value] = dequantize(x, quantized)
    reader.spec_of = spec_of_type
    try:
        outs = reader.read(operation)
    finally:
        reader.spec_of = _storage_spec
        reader.values.update(zip(operands, held, strict=True))
    outs = outs if isinstance(outs, tuple | list) else (outs,)
    return [
        out if quantized is None else quantize(out, quantized)
        for out, quantized in zip(outs, made, strict=True)
    ]


def _check_same(operation: Any, types: list[QuantizedType]) -> None:
    """Elements that move must mean the same where they arrive."""
    first = types[0]
    values = [(v, _quantized(v)) for v in (*operation.operands, *operation.results)]
    for value, quantized in values:
        if quantized is None:
            continue
        same = (first.storage, first.expressed, first.minimum, first.maximum) == (
            quantized.storage, quantized.expressed, quantized.minimum, quantized.maximum
        ) and set(zip(first.scales, first.zero_points, strict=True)) == set(
            zip(quantized.scales, quantized.zero_points, strict=True)
        )  # fmt: skip
        require(
            same,
            "C1",
            f"quantised operands and results must have one type; got {first}",
            quantized,
        )
        _check_axis(quantized, spec_of_type(str(value.type)))


def _check_carried(reader: Reader, operation: Any, given: list[Any], made: list[Any]) -> None:
    """Values keep their type on the way into regions and functions and out again, which MLIR does not look into."""

    def check(found: list[Any], wanted: list[Any], what: str) -> None:
        for one, other in zip(found, wanted, strict=True):
            require(
                one is None or other is None or one == other,
                "C1",
                f"{what} must be of the type that arrives, {other}",
                one,
            )

    name, count = operation.name, len(made)
    if name in _IN_PLACE and len(given) % count == 0:
        check(given, made * (len(given) // count), "an operand")
    arriving = {t for t in given if t is not None}
    for region in operation.regions:
        for block in region.blocks:
            for argument in map(_quantized, block.arguments):
                require(
                    argument is None or argument in arriving,
                    "C1",
                    "a parameter of a region must be of the type of an operand",
                    argument,
                )
            last = list(block.operations)[-1].operation
            left = [_quantized(v) for v in last.operands]
            if len(left) == count:
                check(left, made, "what a region gives")
    if name == "stablehlo.composite":
        called = reader.functions.get(reader.text(operation, "decomposition").lstrip("@"))
        if called is not None:
            kind = called.attributes["function_type"].value
            for types, values, what in (
                (kind.inputs, operation.operands, "a parameter"),
                (kind.results, operation.results, "a result"),
            ):
                pairs = [(str(t), str(v.type)) for t, v in zip(types, values, strict=False)]
                for one, other in pairs:
                    require(
                        one == other, "C1", f"{what} must be of the type that arrives, {other}", one
                    )


def read_quantized(module: Any, entry: str) -> Computation:
    """Read a module whose text came from `spelled_as_floats`.

    Raises
    ------
    ArtifactError, UnsupportedOpError
        As for other modules; also if the function to read has quantised parameters or results.
    """
    reader = Reader(module, _read)
    reader.spec_of = _storage_spec
    try:
        found = reader.entry(entry)
    except RecursionError:
        raise ArtifactError(
            "functions, regions and types must not lie deeper in each other than Python's recursion limit allows; got"
            " more [X6]"
        ) from None
    signature = str(reader.functions[found.name].attributes["function_type"])
    match = _ENCODED.search(signature)
    if match is not None:
        raise UnsupportedOpError(
            f"{found.name}: parameters and results must not be quantised; got {match.group(1)}; pass the integers and"
            " use bitcast_convert [X6]"
        )
    return found
