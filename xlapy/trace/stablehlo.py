"""A computation as StableHLO text in the generic form."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import UnsupportedOpError
from xlapy.source import Location, Source, locate
from xlapy.specs import TensorSpec
from xlapy.trace.builder import as_computation
from xlapy.trace.codecs import Group, quote
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import annotate
from xlapy.trace.zeros import is_splat

__all__ = ["HostCallbacks", "Writer", "constant_text", "to_stablehlo"]


def to_stablehlo(
    computation: Computation,
    *,
    name: str = "main",
    module_name: str | None = None,
    locations: bool = True,
    parameter_attributes: Mapping[int, str] | None = None,
    result_attributes: Mapping[int, str] | None = None,
    module_attributes: str = "",
    preamble: Sequence[str] = (),
    callbacks: HostCallbacks | None = None,
) -> str:
    """Write a computation as the text of a StableHLO module.

    Parameters
    ----------
    computation : Computation
    name : str
        Of the entry function.
    module_name : str, optional
        By default the computation's name.
    locations : bool
        Whether each operation carries the user's file and line.
    parameter_attributes, result_attributes : mapping, optional
        From a position to the attributes there, such as ``"tf.aliasing_output = 0 : i32"``.
    module_attributes : str
        Attributes of the module, such as ``"mhlo.num_replicas = 2 : i32"``.
    preamble : sequence of str
        Lines at the start of the module, such as meshes.
    callbacks : HostCallbacks, optional
        Takes the Python functions that the program calls; without it there must be none.

    Returns
    -------
    str

    Raises
    ------
    UnsupportedOpError
        If an operation has no form in StableHLO.
    """
    writer = Writer(locations, callbacks)
    body = writer.function(
        computation, name, "public", parameter_attributes or {}, result_attributes or {}
    )
    attributes = f" attributes {{{module_attributes}}}" if module_attributes else ""
    head = [f"module @{_symbol(module_name or computation.name)}{attributes} {{", *preamble]
    return "\n".join([*head, *writer.functions, *body, "}", *writer.location_lines()]) + "\n"


def _symbol(name: str) -> str:
    return name if name.isidentifier() else quote(name)


@final
class HostCallbacks:
    """The Python functions that a program calls, which its text knows by their numbers.

    Attributes
    ----------
    target : str
        The custom call that calls them on the platform.
    functions : list of (function, specs)
        In the order of their numbers, each with the specs of its results.
    """

    __slots__ = ("functions", "target")

    def __init__(self, target: str) -> None:
        self.target = target
        self.functions: list[tuple[Any, tuple[Any, ...]]] = []


# In the text of a region, until it stands in an operation: that operation's location.
_HERE: Final = " loc(#here)"


@final
class Writer:
    """The state of writing one module: names of values, functions, locations."""

    def __init__(self, locations: bool = True, callbacks: HostCallbacks | None = None) -> None:
        self.callbacks = callbacks
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.functions: list[str] = []
        self._symbols: dict[Computation, str] = {}
        self._taken: set[str] = {"main"}
        self._numbers = itertools.count()
        self._regions: dict[tuple[Computation, str], str] = {}
        self._within = 0
        self._locations: dict[Source, str] | None = {} if locations else None

    # --- functions and regions ----------------------------------------------------------------------------------

    def symbol(self, computation: Computation) -> str:
        """The name of the private function that a computation becomes, written once."""
        found = self._symbols.get(computation)
        if found is None:
            found, n = computation.name, 1
            while found in self._taken:
                found, n = f"{computation.name}_{n}", n + 1
            self._taken.add(found)
            self._symbols[computation] = found
            outer = self.lines
            text = self.function(computation, found, "private", {}, {})
            self.lines = outer
            self.functions.extend(text)
        return _symbol(found)

    def function(
        self,
        computation: Computation,
        name: str,
        visibility: str,
        parameter_attributes: Mapping[int, str],
        result_attributes: Mapping[int, str],
    ) -> list[str]:
        """The lines of a function."""
        self.lines = []
        within, self._within = self._within, 0
        parameters = []
        for i, value in enumerate(computation.parameters):
            attributes = f" {{{parameter_attributes[i]}}}" if i in parameter_attributes else ""
            parameters.append(f"{self.name(value)}: {value.spec.mlir}{attributes}")
        results = [
            f"{v.spec.mlir} {{{result_attributes[i]}}}" if i in result_attributes else v.spec.mlir
            for i, v in enumerate(computation.results)
        ]
        self.body(computation)
        self._within = within
        operands, types = self._values(computation.results)
        self.lines.append(f'"func.return"({operands}) : ({types}) -> ()')
        header = f"func.func {visibility} @{_symbol(name)}({', '.join(parameters)}) -> ({', '.join(results)}) {{"
        return [header, *self.lines, "}"]

    def body(self, computation: Computation) -> None:
        """Write the instructions of a computation whose parameters are named already."""
        write = self.instruction
        for instruction in computation.instructions:
            write(instruction)

    def region(
        self,
        computation: Computation,
        names: Sequence[str] | None = None,
        end: str = "stablehlo.return",
    ) -> str:
        """The text of a region.

        Parameters
        ----------
        computation : Computation
        names : sequence of str, optional
            Names of outer values that stand for the parameters; without them the block has arguments.
        end : str
            The terminator.
        """
        key = (computation, end)
        if names is None and key in self._regions:
            # Names in a region are its own, so its text may stand in several operations.
            return self._regions[key]
        outer, self.lines = self.lines, []
        saved = dict.fromkeys(computation.parameters)
        for value in saved:
            saved[value] = self.names.get(value)
        if names is None:
            arguments = ", ".join(f"{self.name(v)}: {v.spec.mlir}" for v in computation.parameters)
            self.lines.append(f"^bb0({arguments}):" if arguments else "^bb0:")
        else:
            self.names.update(zip(computation.parameters, names, strict=True))
        # The same computation may be written in several places, each with names of its own.
        self._within += 1
        self.body(computation)
        self._within -= 1
        operands, types = self._values(computation.results)
        self.lines.append(f'"{end}"({operands}) : ({types}) -> ()')
        text, self.lines = "{\n" + "\n".join(self.lines) + "\n}", outer
        if names is None:
            self._regions[key] = text
        return text

    # --- instructions -------------------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """A fresh name for a value."""
        found = self.names[value] = f"%{next(self._numbers)}"
        return found

    def _values(self, values: Sequence[Value]) -> tuple[str, str]:
        names = self.names
        return ", ".join([names[v] for v in values]), ", ".join([v.spec.mlir for v in values])

    def instruction(self, instruction: Instruction) -> None:
        """Write one instruction."""
        hlo = instruction.op.hlo
        try:
            if hlo.write is not None:
                hlo.write(self, instruction)
            else:
                self.declared(instruction)
        except UnsupportedOpError as error:
            specs = [v.spec for v in instruction.operands]
            raise annotate(error, instruction.op.name, specs, instruction.source) from None

    def declared(self, instruction: Instruction) -> None:
        """Write one instruction as its operation's codecs and regions say."""
        hlo = instruction.op.hlo
        if not hlo.name and hlo.decomposition is not None:
            function, params = hlo.decomposition, instruction.params
            self.composed(instruction, lambda *operands: function(*operands, **params))
            return
        if not hlo.name:
            raise UnsupportedOpError(
                f"operations must have a form in StableHLO; got {instruction.op.name} [X6]"
            )
        params = instruction.params
        if not params:
            self.line(hlo.name, instruction)
            return
        attributes = []
        for key, codec in hlo.attrs.items():
            if type(codec) is Group:
                text = codec.print(params)
            else:
                text = codec.print(params.get(key))
            if text is not None:
                attributes.append(f"{key} = {text}")
        regions = []
        for key in hlo.regions:
            value = params[key]
            for computation in value if type(value) is tuple else (value,):
                regions.append(self.region(computation))
        self.line(hlo.name, instruction, ", ".join(attributes), regions)

    def line(
        self,
        mlir_name: str,
        instruction: Instruction,
        attributes: str = "",
        regions: Sequence[str] = (),
        operands: Sequence[Value] | None = None,
        discardable: str = "",
    ) -> None:
        """Write ``results = "name"(operands) <{attributes}> (regions) {discardable} : types``."""
        names = self.names
        given = instruction.operands if operands is None else operands
        results = instruction.results
        text = f'{mlir_name}"({", ".join([names[v] for v in given])})'
        if attributes:
            text += f" <{{{attributes}}}>"
        location = self.location(instruction.source)
        if regions:
            inner = ", ".join(regions)
            text += f" ({inner if self._locations is None else inner.replace(_HERE, location)})"
        if discardable:
            text += f" {{{discardable}}}"
        ins = ", ".join([v.spec.mlir for v in given])
        if len(results) == 1:
            value = results[0]
            self.lines.append(
                f'{self.name(value)} = "{text} : ({ins}) -> {value.spec.mlir}{location}'
            )
            return
        outs = ", ".join([v.spec.mlir for v in results])
        if not results:
            self.lines.append(f'"{text} : ({ins}) -> (){location}')
            return
        base = f"%{next(self._numbers)}"
        for i, value in enumerate(results):
            names[value] = f"{base}#{i}"
        self.lines.append(f'{base}:{len(results)} = "{text} : ({ins}) -> ({outs}){location}')

    def raw(self, text: str) -> str:
        """Write ``%n = text`` and give the name: for what has no instruction of its own."""
        name = f"%{next(self._numbers)}"
        self.lines.append(f"{name} = {text}")
        return name

    def callback(self, function: Any, results: tuple[Any, ...]) -> tuple[str, int]:
        """The custom call that calls a Python function, and the function's number."""
        if self.callbacks is None:
            raise UnsupportedOpError(
                "a Python function must not be in a program that is written as text; got one [X6]"
            )
        self.callbacks.functions.append((function, results))
        return self.callbacks.target, len(self.callbacks.functions) - 1

    def raw_several(self, text: str, count: int) -> list[str]:
        """Write an operation of `count` results, and give their names."""
        if count == 1:
            return [self.raw(text)]
        base = f"%{next(self._numbers)}"
        self.lines.append(f"{base}:{count} = {text}" if count else text)
        return [f"{base}#{i}" for i in range(count)]

    def composed(self, instruction: Instruction, function: Callable[..., Any]) -> None:
        """Write an instruction as a composition of others."""
        operands = instruction.operands
        body = as_computation(function, [v.spec for v in operands])
        names = self.names
        names.update(zip(body.parameters, [names[v] for v in operands], strict=True))
        self.body(body)
        names.update(zip(instruction.results, [names[v] for v in body.results], strict=True))

    def alias(self, instruction: Instruction) -> None:
        """Write nothing: the results are the operands."""
        for value, operand in zip(instruction.results, instruction.operands, strict=True):
            self.names[value] = self.names[operand]

    # --- locations ----------------------------------------------------------------------------------------------

    def location(self, source: Source) -> str:
        """A reference to the user's line."""
        table = self._locations
        if table is None:
            return ""
        if source is None:
            return _HERE if self._within else ""
        found = table.get(source)
        if found is None:
            found = table[source] = f" loc(#l{len(table)})"
        return found

    def location_lines(self) -> list[str]:
        """The definitions of the locations that were used."""
        lines = []
        for source, reference in (self._locations or {}).items():
            place: Location | None = locate(source)
            assert place is not None
            alias = reference[5:-1]
            where = f"{quote(place.file)}:{place.line}:{place.column}"
            lines.append(
                f"{alias} = loc({quote(place.function)}({where}))"
                if place.function
                else f"{alias} = loc({where})"
            )
        return lines


# --- constants ----------------------------------------------------------------------------------------------------


def _scalar(array: np.ndarray[Any, Any], kind: str, bits: int) -> str:
    """One element as an exact literal."""
    if kind == "bool":
        return "true" if array else "false"
    if kind in ("int", "uint"):
        return str(int(array))
    if kind == "complex":
        return f"({_scalar(array.real, 'float', bits // 2)}, {_scalar(array.imag, 'float', bits // 2)})"
    raw = np.ascontiguousarray(array).tobytes()
    width = max(2, bits // 4)
    return f"0x{int.from_bytes(raw, 'little'):0{width}X}"


def constant_text(array: np.ndarray[Any, Any], spec: TensorSpec | None = None) -> str:
    """An array as a ``dense`` attribute without its type; exact for every value, nan payloads included."""
    dtype = as_dtype(array.dtype) if spec is None else spec.dtype
    if array.size == 0:
        return "dense<>"
    if _is_repeated(array):
        return f"dense<{_scalar(array[(0,) * array.ndim], dtype.kind, dtype.bits)}>"
    if dtype.bits < 8:  # MLIR packs some of these in its raw form, so each element is written out
        items = [_scalar(v, dtype.kind, dtype.bits) for v in array.reshape(-1)]
        return f"dense<{_nest(items, array.shape)}>"
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}">'


def _is_repeated(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements are the same bits: MLIR keeps them as one then, and writes them so."""
    if is_splat(array):
        return True
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return bool((raw[0] == raw[-1]).all() and (raw == raw[0]).all())


def _nest(items: list[str], shape: tuple[int, ...]) -> str:
    for size in reversed(shape):
        items = [f"[{', '.join(items[i : i + size])}]" for i in range(0, len(items), size)]
    return items[0]
