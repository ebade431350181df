"""StableHLO text or bytes as a computation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy import rounding
from xlapy.dtypes import as_dtype
from xlapy.errors import ArtifactError, UnsupportedOpError, XlapyError
from xlapy.source import Location, Source
from xlapy.specs import DYNAMIC, Spec, TensorSpec, TokenSpec, TupleSpec, has_unknown
from xlapy.tensor import Tensor
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.codecs import Group
from xlapy.trace.computation import DEEPEST, Computation
from xlapy.trace.known_integers import KnownIntegers, as_sizes
from xlapy.trace.mode import bind, current_builder, using
from xlapy.trace.op import by_hlo_name, reader_of

__all__ = [
    "Reader",
    "dense_attribute",
    "elements",
    "from_stablehlo_module",
    "refines",
    "spec_of_type",
    "split_text",
]

_TENSOR: Final = re.compile(r"tensor<((?:(?:\d+|\?)x)*)([^,>]+(?:<[^>]*>)?)(?:, (.*))?>$")
_RESOURCE: Final = re.compile(r'([\w$.-]+|"[^"]*"): "0x[0-9A-Fa-f]{8}([0-9A-Fa-f]*)"')
_types: dict[str, Spec] = {}
#: constants of so many elements are copied into the regions that use them
_SMALL: Final = 64
_RETURNS: Final = frozenset({"func.return", "stablehlo.return", "mhlo.return", "sdy.return"})


def spec_of_type(text: str) -> Spec:
    """The spec that an MLIR type's text stands for.

    Raises
    ------
    UnsupportedOpError
        For types that are no arrays, tuples or tokens of XLA's element types.
    """
    found = _types.get(text)
    if found is None:
        found = _types[text] = _parse_type(text)
    return found


def _parse_type(text: str) -> Spec:
    if text == "!stablehlo.token":
        return TokenSpec()
    if text.startswith("tuple<"):
        return TupleSpec(spec_of_type(t) for t in split_text(text[6:-1]))
    if text.startswith(("!mhlo.async_bundle<", "!stablehlo.future<")):
        # What is under way counts as the tuple of its results. A bundle lists operands, results and context.
        parts = [spec_of_type(t) for t in split_text(text[text.index("<") + 1 : -1])]
        results = parts if text.startswith("!stablehlo") else parts[1:2]
        if len(results) == 1 and type(results[0]) is TupleSpec:
            return results[0]
        return TupleSpec(results)
    match = _TENSOR.match(text)
    try:
        if match is None:
            raise ValueError
        dims, element, encoding = match.groups()
        dtype = as_dtype(element)
    except (ValueError, XlapyError):
        raise UnsupportedOpError(
            f"types must be arrays of XLA's element types; got {text} [X6]"
        ) from None
    shape = [DYNAMIC if d == "?" else int(d) for d in dims.split("x")[:-1]]
    dynamic: list[int] = []
    bounds = re.match(r"#stablehlo\.bounds<([^>]*)>", encoding or "")
    if bounds:
        for axis, entry in enumerate(bounds.group(1).split(",")):
            if entry.strip() != "?":
                dynamic.append(axis)
                shape[axis] = int(entry)
    return TensorSpec(tuple(shape), dtype, tuple(dynamic))


def split_text(text: str) -> list[str]:
    """Split an attribute's or type's text at the commas outside brackets and strings."""
    parts, depth, start = [], 0, 0
    quoted = escaped = False
    for i, char in enumerate(text):
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "<([{":
            depth += 1
        elif char in ")]}" or (char == ">" and text[i - 1] != "-"):
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def from_stablehlo_module(
    module: Any, entry: str = "main", specs: Sequence[Spec] | None = None
) -> Computation:
    """Read a parsed module.

    Parameters
    ----------
    module : MLIR module
        From ``xlapy._jaxlib``.
    entry : str
        The function to read; the only public one where there is no such name.
    specs : sequence of spec, optional
        What it is called with, where its parameters are of any size.

    Returns
    -------
    Computation

    Raises
    ------
    ArtifactError, UnsupportedOpError
        With the name of the operation and its place in the text.
    """
    try:
        return Reader(module).entry(entry, specs)
    except RecursionError:
        raise ArtifactError(
            "functions, regions and types must not lie deeper in each other than Python's recursion limit allows; got"
            " more [X6]"
        ) from None


@final
class Reader:
    """The state of reading one module.

    Attributes
    ----------
    intercept : callable, optional
        ``intercept(reader, operation)``: the results of an operation that is not read as it stands; None for others.
    spec_of : callable
        The spec of a value's type from its text.
    integers : KnownIntegers
        Those that are known of what was read.
    """

    def __init__(self, module: Any, intercept: Callable[[Reader, Any], Any] | None = None) -> None:
        self.intercept = intercept
        self.spec_of: Callable[[str], Spec] = spec_of_type
        self._module = module
        self._resources: dict[str, str] | None = None
        self.functions: dict[str, Any] = {}
        for operation in module.body.operations:
            operation = operation.operation
            if operation.name == "func.func":
                self.functions[_string(operation.attributes["sym_name"])] = operation
        self._computations: dict[str, Computation] = {}
        #: functions over arrays of any size: one for each call's specs and known integers
        self._refined: dict[str, dict[Any, Computation]] = {}
        self._varies = False  # whether the function that is being read is one of them
        self.integers = KnownIntegers()
        self._reading: list[str] = []
        self._depth = 0  # of regions in the function that is being read
        self._level = 0  # computations that are being read
        self._constants: dict[Any, Any] = {}
        self._copies: dict[tuple[Any, Any], Tensor] = {}
        self.values: dict[Any, Tensor] = {}

    def entry(self, name: str, specs: Sequence[Spec] | None = None) -> Computation:
        """The computation of the entry function, for arguments of some specs."""
        given = None if specs is None else [Tensor(s, None) for s in specs]
        return self.function(self.entry_name(name), given)

    def is_any_size(self, name: str) -> bool:
        """Whether a function takes arrays of any size."""
        if "?" not in str(self.functions[name].attributes["function_type"]):
            return False
        return any(type(s) is TensorSpec and has_unknown(s.shape) for s in self.signature(name)[0])

    def signature(self, name: str) -> tuple[list[Spec], list[Spec]]:
        """The declared specs of a function's parameters and results."""
        text = str(self.functions[name].attributes["function_type"])
        inputs, _, results = text.partition(") -> ")
        given = split_text(results[1:-1] if results.startswith("(") else results)
        return [self.spec_of(t) for t in split_text(inputs[1:])], [self.spec_of(t) for t in given]

    def entry_name(self, name: str) -> str:
        """The name of the entry function."""
        if name in self.functions:
            return name
        public = [
            n
            for n, f in self.functions.items()
            if "sym_visibility" not in f.attributes
            or _string(f.attributes["sym_visibility"]) == "public"
        ]
        if name != "main" or len(public) != 1:
            raise ArtifactError(
                f"a module must have a function {name!r} or exactly one public one; got {public} [X6]"
            )
        return public[0]

    def function(self, name: str, operands: Sequence[Tensor] | None = None) -> Computation:
        """The computation of a function; one over arrays of any size is that for the operands of a call.

        It is read once, or once for each of their specs and of the sizes among them.
        """
        found = self._computations.get(name)
        if found is not None:
            return found
        if name not in self.functions:
            raise ArtifactError(f"a called function must be in the module; got {name!r} [X6]")
        if name in self._reading:
            raise ArtifactError(f"functions must not be recursive; got {name!r} [X6]")
        operation = self.functions[name]
        if not operation.regions[0].blocks:
            raise ArtifactError(f"a function must have a body; got the declaration {name!r} [X6]")
        refined = self._refined.get(name)
        if refined is not None:
            found = refined.get(self._key(operands))
            self._varies = True
            if found is not None:
                return found
        self._reading.append(name)
        depth, self._depth = self._depth, 0
        varies, self._varies = self._varies, False
        try:
            with using(None):
                found = self._computation(operation.regions[0], name, operands)[0]
            if self._varies:
                self._refined.setdefault(name, {})[self._key(operands)] = found
            else:
                self._computations[name] = found
        finally:
            self._depth = depth
            self._varies = self._varies or varies
            self._reading.pop()
        return found

    def _key(self, operands: Sequence[Tensor] | None) -> Any:
        """What a function over arrays of any size depends on in a call."""
        if operands is None:
            return None
        return tuple([(t.spec, as_sizes(self.integers.of(t))) for t in operands])

    def region(
        self,
        operation: Any,
        index: int = 0,
        name: str | None = None,
        operands: Sequence[Tensor] | None = None,
        constant: Sequence[bool] | None = None,
    ) -> tuple[Computation, list[Tensor]]:
        """The computation of a region, and the outer values that it uses: operands of its hidden parameters.

        Parameters
        ----------
        operation : MLIR operation
        index : int
        name : str, optional
        operands : sequence of Tensor, optional
            What it is given at first, where its parameters are of any size.
        constant : sequence of bool, optional
            Whether it is given the same each time.
        """
        self._depth += 1
        try:
            return self._computation(
                operation.regions[index], name or operation.name.split(".")[-1], operands, constant
            )
        finally:
            self._depth -= 1

    def _computation(
        self,
        region: Any,
        name: str,
        operands: Sequence[Tensor] | None = None,
        constant: Sequence[bool] | None = None,
    ) -> tuple[Computation, list[Tensor]]:
        self._level += 1
        if self._level > DEEPEST:
            raise ArtifactError(
                f"functions and regions must not lie more than {DEEPEST} deep in each other; got {self._level} [X6]"
            )
        try:
            return self._recorded(region, name, operands, constant)
        finally:
            self._level -= 1

    def _recorded(
        self,
        region: Any,
        name: str,
        operands: Sequence[Tensor] | None,
        constant: Sequence[bool] | None,
    ) -> tuple[Computation, list[Tensor]]:
        outer = current_builder()
        builder = XlaBuilder(name, outer.scope if outer is not None else None)
        blocks = list(region.blocks)
        if len(blocks) != 1:
            raise UnsupportedOpError(
                f"a region must have one block; got {len(blocks)} in {name!r} [X6]"
            )
        block = blocks[0]
        with using(builder):
            for i, argument in enumerate(block.arguments):
                spec = self._parameter(argument, name)
                given = operands[i] if operands is not None and i < len(operands) else None
                if given is not None and refines(given.spec, spec):
                    spec = given.spec
                made = self.values[argument] = builder.parameter(i, spec)
                if given is not None and given.spec is spec and (constant is None or constant[i]):
                    self.integers.let(made.payload, given)
            results: list[Tensor] = []
            for item in block.operations:
                operation = item.operation
                if operation.name in _RETURNS:
                    results = self.operands(operation)
                    break
                self.operation(operation, builder)
            values = [builder.value(r) for r in results]
        return builder.finish(values), [t for t, _ in builder.captured.values()]

    def _parameter(self, argument: Any, name: str) -> Spec:
        """The spec of a parameter of a function or region."""
        try:
            spec = self.spec_of(str(argument.type))
        except XlapyError as error:
            if not error.annotated:
                error.args = (f"{name}: {error.args[0]}\n  at {_place(argument)}",)
                error.annotated = True
            raise
        self._note(spec)
        return spec

    def _note(self, declared: Spec) -> None:
        """Mark the function that is being read as one over arrays of any size if it has such a one."""
        if type(declared) is TensorSpec and has_unknown(declared.shape):
            self._varies = True

    def operands(self, operation: Any) -> list[Tensor]:
        """The tensors that stand for an operation's operands."""
        values = self.values
        if not self._depth:
            return [values[v] for v in operation.operands]
        builder = current_builder()
        assert builder is not None
        return [self._within(v, builder) for v in operation.operands]

    def _within(self, value: Any, builder: XlaBuilder) -> Tensor:
        """What stands for a value within a region: a small constant from outside becomes one of the region's own.

        MLIR moves constants out of regions where it writes bytes, and most regions must not use outer values.
        """
        found = self.values[value]
        constant = self._constants.get(value)
        if constant is None or found.payload.scope is builder.scope:
            return found
        key = builder.scope, value
        copy = self._copies.get(key)
        if copy is None:
            copy = self._copies[key] = self.read(constant)
        return copy

    def sizes(self, x: Tensor) -> tuple[int, ...] | None:
        """The integers in an operand that says something of shapes; None where they are not known."""
        self._varies = True  # with what is known at the call
        return as_sizes(self.integers.of(x))

    def result_specs(self, operation: Any) -> list[Spec]:
        """The specs of an operation's results."""
        return [self.spec_of(str(r.type)) for r in operation.results]

    def attribute(self, operation: Any, name: str) -> Any:
        """An attribute, or its text where MLIR's Python classes cannot hold it; None if it is absent."""
        attributes = operation.attributes
        if name not in attributes:
            return None
        try:
            return attributes[name]
        except TypeError:  # complex constants have no class of their own
            position = list(attributes).index(name)
            return str(attributes[position])[len(f"NamedAttribute({name}=") : -1]

    def text(self, operation: Any, name: str, default: str = "") -> str:
        """An attribute's own text."""
        found = self.attribute(operation, name)
        return default if found is None else str(found)

    def elements(self, operation: Any, name: str, spec: TensorSpec) -> np.ndarray[Any, Any]:
        """The array in an attribute, also where its bytes stand at the end of the module."""
        attribute = dense_attribute(operation, name)
        if type(attribute).__name__ == "Attribute":  # of no class of its own
            attribute = text = str(attribute)
            if text.startswith("dense_resource<"):
                attribute = f'dense<"0x{self._resource(text[15 : text.rindex("> :")])}"> : {spec}'
        return elements(attribute, spec)

    def _resource(self, name: str) -> str:
        """The bytes of a resource, as hexadecimal digits; the first four of the text say how it is aligned."""
        if self._resources is None:
            text = self._module.operation.get_asm(large_elements_limit=1, large_resource_limit=None)
            found = _RESOURCE.findall(text[text.rindex("{-#") :] if "{-#" in text else "")
            self._resources = {key.strip('"'): digits for key, digits in found}
        digits = self._resources.get(name.strip('"'))
        if digits is None:
            raise ArtifactError(
                f"a constant must have its values; got a text that leaves those of {name} out [X6]"
            )
        return digits

    def operation(self, operation: Any, builder: XlaBuilder) -> None:
        """Read one operation."""
        name = operation.name
        source = _source(operation)
        try:
            with builder.at_source(source, exactly=True):
                outs = None if self.intercept is None else self.intercept(self, operation)
                if outs is None:
                    outs = self.read(operation)
        except XlapyError as error:
            if not error.annotated:
                error.args = (f"{name}: {error.args[0]}\n  at {_place(operation)}",)
                error.annotated = True
            raise
        results = outs if isinstance(outs, tuple | list) else (outs,)
        for value, tensor in zip(operation.results, results, strict=True):
            declared = self.spec_of(str(value.type))
            self._note(declared)
            if tensor.spec != declared and not refines(tensor.spec, declared):
                raise ArtifactError(
                    f"{name}: a result's type must be what the operation gives, {tensor.spec}; got {declared}"
                    f" [X6]\n  at {_place(operation)}"
                )
            self.values[value] = tensor
            if name == "stablehlo.constant" and tensor.spec.size <= _SMALL:
                self._constants[value] = operation

    def read(self, operation: Any) -> Any:
        """The results of one operation, read as it stands."""
        name = operation.name
        op = by_hlo_name(name)
        read = reader_of(name) if op is None else op.hlo.read
        if read is not None:
            return read(self, operation)
        if op is None:
            raise UnsupportedOpError(f"operations must be known to xlapy; got {name} [X6]")
        return bind(op, *self.operands(operation), **self.params(operation, op))

    def params(self, operation: Any, op: Any) -> dict[str, Any]:
        """The static parameters of an operation, through its codecs."""
        params: dict[str, Any] = {}
        for key, codec in op.hlo.attrs.items():
            found = codec.parse(self.attribute(operation, key))
            if type(codec) is Group:
                params |= found
            else:
                params[key] = found
        for i, key in enumerate(op.hlo.regions):
            computation, captured = self.region(operation, i, key)
            if captured:
                raise UnsupportedOpError(
                    f"the region {key} must not use outer values; got {len(captured)} [X6]"
                )
            params[key] = computation
        return params


def refines(found: Spec, declared: Spec) -> bool:
    """Whether a result is only more precisely known than its declared type."""
    if type(found) is not TensorSpec or type(declared) is not TensorSpec:
        return False
    return (
        found.dtype is declared.dtype
        and found.rank == declared.rank
        and not declared.is_static
        and all(
            f == d or d is DYNAMIC or i in declared.dynamic
            for i, (f, d) in enumerate(zip(found.shape, declared.shape, strict=True))
        )
    )


def _string(attribute: Any) -> str:
    return str(attribute).strip('"')


_FILE_LINE: Final = re.compile(r'"([^"]*)":(\d+):(\d+)')
# of an instruction of HLO that does not say where it comes from
_NAME: Final = re.compile(r'loc\("([^"]*)"\)$')


def _place(operation: Any) -> str:
    """Where an operation or argument comes from, or its name in HLO."""
    location = str(operation.location)
    match = _FILE_LINE.search(location)
    if match:
        file, line, column = match.groups()
        # What is no file stands in angle brackets; MLIR calls a text that it parses "-".
        named = file != "-" and not file.startswith("<")
        return f"{file}:{line}:{column}" if named else f"line {line}"
    name = _NAME.match(location)
    return repr(name.group(1)) if name else "an unknown place"


def _source(operation: Any) -> Source:
    match = _FILE_LINE.search(str(operation.location))
    return Location(match.group(1), int(match.group(2)), "", int(match.group(3))) if match else None


# --- constants ----------------------------------------------------------------------------------------------------


def dense_attribute(operation: Any, name: str) -> Any:
    """A ``dense`` attribute; its text where jaxlib has no Python class for it, as for complex numbers."""
    try:
        return operation.attributes[name]
    except TypeError:
        text = operation.get_asm(print_generic_op_form=True, large_elements_limit=None)
        start = text.index(f"{name} = dense<") + len(name) + 3
        return text[start : text.index(">}>", start)]


def elements(attribute: Any, spec: TensorSpec) -> np.ndarray[Any, Any]:
    """The array in a ``dense`` attribute."""
    dtype = spec.dtype
    if dtype.bits >= 8 and dtype.kind != "bool" and dtype.numpy.kind in "iuf":
        try:
            if attribute.is_splat and spec.size > 1:
                # One element read for all: it goes out as one again, and a large splat takes no memory.
                one = np.asarray(attribute)[(slice(0, 1),) * spec.rank].copy()
                if one.dtype == dtype.numpy:
                    return np.broadcast_to(one.reshape(()), spec.shape)
            array = np.array(attribute)
            if array.dtype == dtype.numpy and array.shape == spec.shape:
                return array
        except (AttributeError, TypeError, ValueError, RuntimeError, BufferError):
            pass
    text = str(attribute)
    if not text.startswith("dense<"):
        raise UnsupportedOpError(f"a constant must be dense; got {text.split('<')[0]} [X6]")
    body = text[text.index("<") + 1 : text.rindex(" : ") - 1]
    if body.startswith('"0x'):
        raw = bytes.fromhex(body[3:-1])
        packed = dtype.kind == "bool" and len(raw) == -(-spec.size // 8)
        if len(raw) != spec.size * dtype.numpy.itemsize and not packed:
            raise ArtifactError(
                f"a constant must have the bytes of {spec}; got {len(raw)} of them [X6]"
            )
        if dtype.kind == "bool":
            if packed and len(raw) != spec.size:
                bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[: spec.size]
                return bits.astype(np.bool_).reshape(spec.shape)
            flags: np.ndarray[Any, Any] = np.frombuffer(raw, np.uint8) != 0
            return flags.reshape(spec.shape)
        return np.frombuffer(raw, dtype.numpy).reshape(spec.shape)
    tokens = re.findall(r"[^\s,\[\]()]+", body)
    values: Sequence[Any]
    if dtype.kind == "complex":
        part = dtype.real_part
        flat = [_number(t, part) for t in tokens]
        values = [_pair(re_, im, dtype) for re_, im in zip(flat[::2], flat[1::2], strict=True)]
    else:
        values = [_number(t, dtype) for t in tokens]
    array = np.empty(len(values), dtype.numpy)
    for i, value in enumerate(values):
        array[i] = value
    if array.size == 1 and spec.size != 1:
        return np.broadcast_to(array[0], spec.shape)
    return array.reshape(spec.shape)


def _pair(real: Any, imag: Any, dtype: Any) -> Any:
    value = np.empty((), dtype.numpy)
    value.real, value.imag = real, imag
    return value[()]


def _number(token: str, dtype: Any) -> Any:
    if token in ("true", "false"):
        return token == "true"
    if dtype.kind in ("int", "uint"):
        whole, form = int(token, 0), dtype.numpy
        return form.type(whole) if dtype.bits >= 8 else np.asarray(whole).astype(form)[()]
    if token.startswith("0x"):
        width = dtype.numpy.itemsize
        return np.frombuffer(int(token, 16).to_bytes(width, "little"), dtype.numpy)[0]
    return rounding.astype(np.asarray(float(token)), dtype.numpy)[()]
