"""Running composed functions outside every trace as one program instead of one operation at a time.

`composite` makes a function of tensors that is written with operations run as a single cached program when it is
called eagerly; `run` does so for functions that are traced anew each time, such as those of transformations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np

from xlapy import rounding, tree
from xlapy.backends.eager import common_placement, compile_checked, put
from xlapy.backends.registry import current_backend
from xlapy.dtypes import as_dtype, python_scalar
from xlapy.errors import XlapyError, shown
from xlapy.source import caller, hide_library_frames
from xlapy.specs import TensorSpec
from xlapy.tensor import Placed, Placement, Tensor, operators
from xlapy.trace.builder import XlaBuilder, host_array, lift, recording
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import annotate, current_builder, using
from xlapy.trace.op import lookup
from xlapy.trace.process_grid import settled
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.stablehlo import HostCallbacks, to_stablehlo
from xlapy.trace.zeros import is_splat

__all__ = [
    "clear_staged",
    "composite",
    "run",
    "scalar_class",
    "scalar_on_host",
    "scalar_payload",
    "stage",
]

F = TypeVar("F", bound=Callable[..., Any])
_LIMIT: Final = 4096

#: (text, placement) -> executable, for programs that are traced anew each time
_by_text: dict[Any, Any] = {}
#: tables of the composite functions, for `clear_staged`
_tables: list[dict[Any, Any]] = []


def clear_staged() -> None:
    """Forget every program compiled here."""
    _by_text.clear()
    _scalars.clear()
    for table in _tables:
        table.clear()


# --- functions traced anew each time ------------------------------------------------------------------------------


def run(
    function: Callable[..., Any],
    tensors: Sequence[Tensor],
    name: str = "main",
) -> Any:
    """Trace a function of tensors now, run it as one program, and give its results in their container.

    Programs are kept by their text, in which floating-point scalars are parameters: a changing learning rate does not
    compile anew.
    """
    builder = XlaBuilder(name)
    arguments = [builder.parameter(i, t.placed.spec) for i, t in enumerate(tensors)]
    with recording(builder):
        leaves, structure = tree.flatten(function(*arguments))
        values = [builder.value(x if type(x) is Tensor else lift(x)) for x in leaves]
    computation = builder.finish(values)
    captured = [t for t, _ in builder.captured.values()]
    return tree.unflatten(structure, stage(computation, [*tensors, *captured]))


def stage(computation: Computation, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Run a computation on concrete tensors; programs of the same text are compiled once."""
    placement = common_placement(tensors)
    computation, scalars = _hoist_scalars(settled(eliminate_dead(computation), 1, 1))
    callbacks = HostCallbacks("callback")
    text = to_stablehlo(computation, module_name="staged", locations=False, callbacks=callbacks)
    key = (text, placement, *[function for function, _ in callbacks.functions])
    executable = _by_text.get(key)
    if executable is None:
        executable = compile_checked(computation, placement)
        if len(_by_text) >= _LIMIT:
            _by_text.pop(next(iter(_by_text)))
        _by_text[key] = executable
    payloads = [t.payload for t in tensors]
    payloads += [put(s, placement).payload for s in scalars]
    results = executable.execute(payloads)
    return [Tensor(p, r) for p, r in zip(executable.placed, results, strict=True)]


def _hoist_scalars(computation: Computation) -> tuple[Computation, list[np.ndarray[Any, Any]]]:
    """Turn floating-point constants of one repeated value into further parameters."""
    constant, broadcast = lookup("constant"), lookup("broadcast_in_dim")
    scalars: list[np.ndarray[Any, Any]] = []
    parameters: list[Value] = []
    instructions: list[Instruction] = []
    names: dict[Value, Value] = {}
    for instruction in computation.instructions:
        if instruction.op is constant:
            value = instruction.params["value"]
            if is_splat(value) and as_dtype(value.dtype).inexact:
                scalar = np.array(value[(0,) * value.ndim])
                parameter = Value(TensorSpec((), scalar.dtype))
                scalars.append(scalar)
                parameters.append(parameter)
                if value.ndim:
                    params = {"shape": value.shape, "broadcast_dimensions": ()}
                    instructions.append(
                        Instruction(
                            broadcast, (parameter,), params, instruction.results, instruction.source
                        )
                    )
                else:
                    names[instruction.results[0]] = parameter
                continue
        if names:
            operands = tuple([names.get(v, v) for v in instruction.operands])
            instruction = instruction.with_operands(operands)
        instructions.append(instruction)
    if not scalars:
        return computation, []
    results = [names.get(v, v) for v in computation.results]
    found = Computation(
        [*computation.parameters, *parameters], instructions, results, computation.name
    )
    return found, scalars


# --- composed functions -------------------------------------------------------------------------------------------

_scalars: dict[Any, Any] = {}
# The functions of which lists and tuples are containers.
_nested: set[Any] = set()


def scalar_payload(x: Any, dtype: np.dtype[Any], placement: Placement) -> Any:
    """A buffer of a Python scalar; those seen lately are kept."""
    plain = x == x and x and type(x) is not complex  # zeros have signs, also as parts
    key = (type(x), x if plain else repr(x), dtype, placement)
    found = _scalars.get(key)
    if found is None:
        if len(_scalars) >= 1024:
            _scalars.pop(next(iter(_scalars)))
        found = _scalars[key] = put(scalar_on_host(x, dtype), placement).payload
    return found


# An integer's class: a stand-in of the same sign and width, for the checks that are made once for all of them.
# By the sign and the number of bits beside it; types have 2, 4, 8, ... bits.
_CLASSES: Final[dict[tuple[bool, int], int]] = {}
for _bits in range(65):
    _width = next(w for w in (2, 4, 8, 16, 32, 64, 128) if w > _bits)
    _CLASSES[True, _bits] = -(1 << (_width - 1))
    # The lower half of an unsigned type's numbers are a signed type's too.
    _CLASSES[False, _bits] = (
        (1 << _bits) - 1 if _bits in (2, 4, 8, 16, 32, 64) else (1 << (_width - 1)) - 1
    )
_BOOL, _S64, _U64, _F64, _C128 = (np.dtype(n) for n in ("bool", "i8", "u8", "f8", "c16"))


def scalar_on_host(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A Python scalar as an array; an integer beyond every float, which only comparisons take, is infinite."""
    if type(x) is int and dtype.kind not in "iu":
        try:
            x = float(x)
        except OverflowError:
            x = float("-inf") if x < 0 else float("inf")
    return rounding.astype(np.asarray(x), dtype)


def scalar_class(x: Any) -> tuple[Any, np.dtype[Any]]:
    """(stand-in, host dtype) of a Python scalar."""
    kind = type(x)
    if kind is float:
        return 0.5, _F64
    if kind is int:
        stand_in = _CLASSES.get((x < 0, (~x if x < 0 else x).bit_length()))
        if stand_in is None or stand_in < -(1 << 63):
            return x, _F64  # beyond every integer type; beside floats it is one of them
        return stand_in, _U64 if stand_in > _LARGEST else _S64
    if kind is bool:
        return True, _BOOL
    return 0.5j, _C128


_LARGEST: Final = (1 << 63) - 1


def composite(arrays: int = 1, *, nested: bool = False, name: str = "") -> Callable[[F], F]:
    """Decorate a function written with operations.

    Parameters
    ----------
    arrays : int
        How many of the leading positional arguments are arrays or Python scalars. The other arguments must be
        hashable: they decide which program runs.
    nested : bool
        Whether lists and tuples among these are containers of arrays, rather than arrays written out.
    name : str
        What errors and programs call it; by default the function's name without leading underscores.
    """

    def decorate(function: F) -> F:
        function.__name__ = name or function.__name__.lstrip("_")
        table: dict[Any, Any] = {}
        _tables.append(table)
        if nested:
            _nested.add(function)
        wrapper: Any

        if arrays == 2 and not nested and function.__code__.co_argcount == 2:

            @functools.wraps(function)
            def wrapper(x: Any, y: Any, /) -> Any:
                if current_builder() is None:
                    try:
                        execute, placed = table[x.placed, y.placed]
                    except (AttributeError, KeyError):
                        return _beside_scalar(function, table, x, y)
                    return Tensor(placed, execute((x.payload, y.payload))[0])
                try:
                    result = function(x, y)
                except XlapyError as error:
                    raise annotate(error, function.__name__, _described((x, y))) from None
                # Assigning to the result's elements must not change an operand.
                return Tensor(x.placed, x.payload) if result is x else result

        elif arrays == 2 and not nested:

            @functools.wraps(function)
            def wrapper(x: Any, y: Any, /, *rest: Any, **static: Any) -> Any:
                if current_builder() is None:
                    try:
                        execute, placed = table[(x.placed, y.placed, rest, *static.items())]
                    except (AttributeError, KeyError, TypeError):
                        return _general(function, table, 2, (x, y, *rest), static)
                    return Tensor(placed, execute((x.payload, y.payload))[0])
                return _recorded(function, (x, y, *rest), static)

        elif arrays == 1 and not nested:

            @functools.wraps(function)
            def wrapper(x: Any, /, *rest: Any, **static: Any) -> Any:
                if current_builder() is None:
                    try:
                        if static:
                            key = (x.placed, rest, *static.items())
                        elif rest:
                            key = (x.placed, rest)
                        else:
                            key = x.placed
                        execute, placed = table[key]
                    except (AttributeError, KeyError, TypeError):
                        return _general(function, table, 1, (x, *rest), static)
                    return Tensor(placed, execute((x.payload,))[0])
                return _recorded(function, (x, *rest), static)

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **static: Any) -> Any:
                if current_builder() is None:
                    try:
                        key, payloads = _flat(args[:arrays])
                        execute, placed, structure = table[(*key, args[arrays:], *static.items())]
                    except (AttributeError, KeyError, TypeError):
                        return _general(function, table, arrays, args, static)
                    results = execute(payloads)
                    if structure is tree.LEAF:
                        return Tensor(placed[0], results[0])
                    made = [Tensor(p, r) for p, r in zip(placed, results, strict=True)]
                    return tree.unflatten(structure, made)
                return _recorded(function, args, static)

        wrapper.table = table
        return cast("F", wrapper)

    return decorate


def _recorded(function: Callable[..., Any], args: tuple[Any, ...], static: dict[str, Any]) -> Any:
    """Call a composed function within a trace."""
    try:
        result = function(*args, **static)
    except XlapyError as error:
        raise annotate(error, function.__name__, _described(args)) from None
    if type(result) is Tensor:
        for x in args:
            if result is x or (type(x) is list and any(y is result for y in x)):
                # Assigning to the result's elements must not change an operand.
                return Tensor(result.placed, result.payload)
    return result


def _described(args: Sequence[Any]) -> list[Any]:
    """What an error says of the arguments."""
    return [
        x.placed.spec if type(x) is Tensor
        else x if x is None or isinstance(x, bool | int | float | complex | str)
        else f"numpy {x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray)
        else type(x).__name__
        for x in args
    ]  # fmt: skip


def _flat(arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What arrays, Python scalars and lists of arrays amount to as a key, and their payloads.

    Raises TypeError for anything else, which takes the longer way.
    """
    key: list[Any] = []
    payloads: list[Any] = []
    placement: Placement | None = None
    scalars: list[tuple[int, Any, np.dtype[Any]]] = []
    for x in arrays:
        kind = type(x)
        if kind is Tensor:
            placed = x.placed
            key.append(placed)
            payloads.append(x.payload)
            if placement is None:
                placement = placed.placement
        elif kind in _PYTHON_SCALARS:
            stand_in, dtype = scalar_class(x)
            key += (kind, stand_in)
            scalars.append((len(payloads), x, dtype))
            payloads.append(None)
        elif kind is list:
            key.append(len(x))
            for y in x:
                if type(y) is not Tensor:
                    raise TypeError
                key.append(y.placed)
                payloads.append(y.payload)
            if x and placement is None:
                placement = x[0].placed.placement
        elif x is None:
            key.append(None)
        else:
            raise TypeError
    if placement is None:
        raise TypeError
    for i, x, dtype in scalars:
        payloads[i] = scalar_payload(x, dtype, placement)
    return key, payloads


def _beside_scalar(function: Callable[..., Any], table: dict[Any, Any], x: Any, y: Any) -> Any:
    """Two operands of which one may be a Python scalar: those seen before are found without more ado."""
    try:
        if type(y) in _PYTHON_SCALARS:
            stand_in, dtype = scalar_class(y)
            placed = x.placed
            execute, out = table[placed, type(y), stand_in]
            pair = (x.payload, scalar_payload(y, dtype, placed.placement))
        elif type(x) in _PYTHON_SCALARS:
            stand_in, dtype = scalar_class(x)
            placed = y.placed
            execute, out = table[type(x), stand_in, placed]
            pair = (scalar_payload(x, dtype, placed.placement), y.payload)
        else:
            return _general(function, table, 2, (x, y), {})
    except (AttributeError, KeyError):
        return _general(function, table, 2, (x, y), {})
    return Tensor(out, execute(pair)[0])


def _general(
    function: Callable[..., Any],
    table: dict[Any, Any],
    count: int,
    args: tuple[Any, ...],
    static: Any,
) -> Any:
    """Any call: find the program by its leaves and static arguments, or make it."""
    if function not in _nested and any(isinstance(x, list | tuple) for x in args[:count]):
        made = [operators["asarray"](x) if isinstance(x, list | tuple) else x for x in args[:count]]
        args = (*made, *args[count:])
    leaves, structure = tree.flatten(args[:count])
    leaves = [_plain(x) for x in leaves]
    rest = args[count:]
    placement: Placement | None = None
    key: list[Any] = [structure]
    classes: dict[int, tuple[Any, np.dtype[Any]]] = {}
    for i, x in enumerate(leaves):
        kind = type(x)
        if kind is Tensor:
            if type(x.placed) is not Placed:
                # A value of an explicit builder: its operations are recorded there.
                with using(_builder_of(x)):
                    return _recorded(function, args, static)
            key.append(x.placed)
            if placement is None:
                placement = x.placed.placement
        elif kind in _PYTHON_SCALARS:
            classes[i] = found = scalar_class(x)
            key.append((kind, found[0]))
    if placement is None:
        placement = current_backend().placement
    tensors: list[Tensor | None] = []
    for i, x in enumerate(leaves):
        if type(x) is Tensor or i in classes:
            tensors.append(x if type(x) is Tensor else None)
        else:
            try:
                array = put(host_array(x), placement)
            except XlapyError as error:
                raise annotate(error, function.__name__, _described(args), caller(2)) from None
            key.append((i, array.placed))
            tensors.append(array)
    key.extend((*rest, placement))
    if static:
        key.extend(static.items())
    try:
        entry = table.get(tuple(key))
    except TypeError:
        entry = None
    if entry is None:
        try:
            entry = _make(function, leaves, classes, tensors, structure, rest, static, placement)
        except XlapyError as error:
            hide_library_frames(error)
            raise
        try:
            table[tuple(key)] = entry
        except TypeError:
            pass
        else:
            if len(table) > _LIMIT:
                table.pop(next(iter(table)))
            _shorten(table, args, rest, static, leaves, entry)
    executable, out_structure = entry
    payloads = [
        t.payload if t is not None else scalar_payload(leaves[i], classes[i][1], placement)
        for i, t in enumerate(tensors)
    ]
    results = [
        Tensor(p, r) for p, r in zip(executable.placed, executable.execute(payloads), strict=True)
    ]
    return tree.unflatten(out_structure, results)


_PYTHON_SCALARS: Final = (bool, int, float, complex)


def _plain(x: Any) -> Any:
    """A number of a class derived from Python's as one of Python's own; anything else itself."""
    number = None if type(x) is Tensor else python_scalar(x)
    return x if number is None else number


def _builder_of(x: Tensor) -> XlaBuilder:
    scope = x.payload.scope
    if scope is None or not scope.open:
        x._refuse("it cannot be used")
    builder: XlaBuilder = scope.builder
    builder.value(x)  # in its own thread only
    return builder


def _shorten(table: Any, args: Any, rest: Any, static: Any, leaves: Any, entry: Any) -> None:
    """Let calls on one tensor, on two, or on one and a Python scalar be found by these."""
    executable, out_structure = entry
    arrays = args[: len(args) - len(rest)]
    if len(arrays) > 2 or any(type(x) is list for x in arrays):
        try:
            key, _ = _flat(arrays)
        except (AttributeError, TypeError):
            return
        table[(*key, rest, *static.items())] = (
            executable.execute,
            executable.placed,
            out_structure,
        )
    if out_structure is not tree.LEAF or len(arrays) != len(leaves) or len(arrays) > 2:
        return
    found = (executable.execute, executable.placed[0])
    if len(arrays) == 1:
        if type(arrays[0]) is Tensor:
            placed = arrays[0].placed
            if static:
                table[(placed, rest, *static.items())] = found
            else:
                table[(placed, rest) if rest else placed] = found
    elif rest or static:
        if all(type(x) is Tensor for x in arrays):
            table[(arrays[0].placed, arrays[1].placed, rest, *static.items())] = found
    elif any(type(x) is Tensor for x in arrays):
        parts: list[Any] = []
        for x in arrays:
            if type(x) is Tensor:
                parts.append(x.placed)
            elif type(x) in _PYTHON_SCALARS:
                parts += [type(x), scalar_class(x)[0]]
            else:
                return
        table[tuple(parts)] = found


def _make(
    function: Callable[..., Any],
    leaves: list[Any],
    classes: dict[int, tuple[Any, np.dtype[Any]]],
    tensors: list[Tensor | None],
    structure: tree.TreeDef,
    rest: tuple[Any, ...],
    static: dict[str, Any],
    placement: Placement,
) -> tuple[Any, tree.TreeDef]:
    """Trace and compile."""
    common_placement([t for t in tensors if t is not None])
    name = function.__name__
    builder = XlaBuilder(name)
    arguments: list[Any] = []
    for i, t in enumerate(tensors):
        if t is not None:
            arguments.append(builder.parameter(i, t.placed.spec))
        else:
            stand_in, dtype = classes[i]
            argument = builder.parameter(i, TensorSpec((), dtype))
            builder.weak.add(argument.payload)
            builder.stand_ins[argument.payload] = stand_in
            arguments.append(argument)
    try:
        with recording(builder):
            output = function(*tree.unflatten(structure, arguments), *rest, **static)
            outs, out_structure = tree.flatten(output)
            values = [builder.value(x if type(x) is Tensor else lift(x)) for x in outs]
    except XlapyError as error:
        specs = [t.placed.spec if t is not None else leaves[i] for i, t in enumerate(tensors)]
        for i, (example, _) in classes.items():
            # The checks saw a number of the same sign and width.
            error.args = (
                str(error.args[0]).replace(
                    f"; got {shown(example)} [X3]", f"; got {shown(leaves[i])} [X3]"
                ),
            )
        raise annotate(error, name, specs, caller(2)) from None
    computation = eliminate_dead(builder.finish(values))
    captured = [t for t, _ in builder.captured.values()]
    assert not captured, "a composite function must not close over tensors"
    return compile_checked(computation, placement), out_structure
