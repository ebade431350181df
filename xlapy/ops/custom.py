"""CustomCall, and calls of Python functions on the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import BackendError, ConstraintError, DTypeError, UnsupportedOpError, shown
from xlapy.specs import (
    Spec,
    TensorSpec,
    TokenSpec,
    TupleSpec,
    as_items,
    has_unknown,
    parse_spec,
    require,
    require_dtype,
)
from xlapy.trace.builder import lift, require_function
from xlapy.trace.codecs import BOOL, I32, I64_MATRIX, STRING, Optional, quote
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader, split_text

from .bitcasts import layout_of
from .calls import dictionary_text, is_dictionary
from .known_targets import require_own_kernel, require_signature
from .library_calls import LIBRARY
from .rules import not_differentiable, unsupported

__all__ = [
    "custom_call",
    "custom_call_op",
    "register_custom_call",
]

Array = np.ndarray[Any, Any]
Layout = tuple[int, ...]

# --- CustomCall -----------------------------------------------------------------------------------------------------

#: how custom calls are read that spell an operation which StableHLO lacks, by their targets
_target_readers: Final[dict[str, Callable[..., Any]]] = {}
#: what stands for custom calls of programs over arrays of any size, once the sizes are known
_sized_readers: Final[dict[str, Callable[..., Any]]] = {}
#: the attributes that have parameters of their own
_OWN: Final = frozenset({
    "api_version", "backend_config", "call_target_name", "called_computations", "has_side_effect", "operand_layouts",
    "mhlo.backend_config", "output_operand_aliases", "result_layouts",
})  # fmt: skip
#: the targets by which jaxlib calls Python functions
_CALLBACK: Final = re.compile(r"xla_(ffi_)?(partitioned_)?(buffer_)?python_\w+_callback")
#: what compilers say to each other, or of meshes that are not kept
_PASSING: Final = ("jax.", "sdy.", "tf.", "xla.")
_CONFIG: Final = "mhlo.backend_config"
#: targets whose typed attributes XLA looks for there
_CONFIGURED_APART: Final = frozenset({"ApproxTopK", "PartialReduce"})
#: the interface of handlers that take their configuration as typed attributes
TYPED: Final = 4


def infer_custom_call(
    *specs: Spec,
    call_target_name: str,
    results: tuple[Spec, ...],
    has_side_effect: bool,
    backend_config: str,
    api_version: int,
    called_computations: tuple[Computation, ...],
    operand_layouts: tuple[Layout, ...] | None,
    result_layouts: tuple[Layout, ...] | None,
    output_operand_aliases: tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...],
    extra_attributes: str,
) -> tuple[Spec, ...]:
    """I2 to I7 are the parameters; X1 that layouts and aliases fit operands and results; X2 that it is no operation."""
    ok = type(call_target_name) is str and bool(call_target_name)
    require(ok, "I2", "call_target_name must be a name", call_target_name)
    # XLA would call whatever lies at a number or an address of the process that wrote the program.
    require(
        not _CALLBACK.fullmatch(call_target_name), "X5",
        "call_target_name must not be that of another process's Python function; use ops.python_callback",
        call_target_name, UnsupportedOpError,
    )  # fmt: skip
    require(
        call_target_name not in _target_readers, "X2", "call_target_name must not be that of an operation in xlapy.ops",
        call_target_name,
    )  # fmt: skip
    require(
        type(extra_attributes) is str and is_dictionary(extra_attributes), "X1",
        "extra_attributes must be a dictionary's text", extra_attributes,
    )  # fmt: skip
    require_dtype(
        type(has_side_effect) is bool, "I3", "has_side_effect must be a bool", has_side_effect
    )
    ok = type(backend_config) is str and (api_version != TYPED or is_dictionary(backend_config))
    require(
        ok,
        "I4",
        "backend_config must be a string; for api_version 4 a dictionary's text",
        backend_config,
    )
    require(api_version in (1, 2, 3, TYPED), "I5", "api_version must be 1, 2, 3 or 4", api_version)
    require_dtype(
        type(called_computations) is tuple and all(type(c) is Computation for c in called_computations),
        "I6", "called_computations must be Computations", called_computations,
    )  # fmt: skip
    require_dtype(
        type(results) is tuple and all(isinstance(r, TensorSpec | TupleSpec | TokenSpec) for r in results),
        "X1", "results must be specs", results,
    )  # fmt: skip
    require(
        (operand_layouts is None) == (result_layouts is None), "X1",
        "layouts must be given for operands and results or for neither", (operand_layouts, result_layouts),
    )  # fmt: skip
    for what, layouts, given in (
        ("operand", operand_layouts, specs),
        ("result", result_layouts, results),
    ):
        if layouts is None:
            continue
        require(len(layouts) == len(given), "X1", f"{what}_layouts must be {len(given)}", layouts)
        for layout, spec in zip(layouts, given, strict=True):
            rank = spec.rank if type(spec) is TensorSpec else 0
            ok = sorted(layout) == list(range(rank))
            require(
                ok,
                "X1",
                f"each of {what}_layouts must list the dimensions of {spec} from minor to major",
                layout,
            )
    require_signature(call_target_name, specs, results)
    for alias in output_operand_aliases:
        ok = type(alias) is tuple and len(alias) == 3
        require(
            ok,
            "X2",
            "an alias must be (output_tuple_indices, operand_index, operand_tuple_indices)",
            alias,
        )
        source = _element(specs, (alias[1], *alias[2]))
        target = _element(results, alias[0] if len(results) > 1 or alias[0] else (0, *alias[0]))
        require(
            source is not None and source == target, "X2", "an alias must join an operand and a result of one type",
            alias,
        )  # fmt: skip
    return results


def _element(specs: Sequence[Spec], indices: Sequence[int]) -> Spec | None:
    found: Spec | None = TupleSpec(specs)
    for i in indices:
        if type(found) is not TupleSpec or not 0 <= i < len(found.elements):
            return None
        found = found.elements[i]
    return found


def write_custom_call(writer: Writer, instruction: Any) -> None:
    """Attributes that say nothing are left out."""
    p = instruction.params
    if writer.callbacks is not None:
        require_own_kernel(p["call_target_name"])
    attributes = [f"call_target_name = {quote(p['call_target_name'])}"]
    if p["has_side_effect"]:
        attributes.append("has_side_effect = true")
    version, apart = p["api_version"], ""
    if version == TYPED and p["call_target_name"] in _CONFIGURED_APART:
        version, apart = 1, f"{_CONFIG} = {p['backend_config']}"
    elif version == TYPED:
        attributes.append(f"backend_config = {p['backend_config']}")
    elif p["backend_config"]:
        attributes.append(f"backend_config = {quote(p['backend_config'])}")
    attributes.append(f"api_version = {version} : i32")
    if p["called_computations"]:
        symbols = ", ".join(f"@{writer.symbol(c)}" for c in p["called_computations"])
        attributes.append(f"called_computations = [{symbols}]")
    for what in ("operand_layouts", "result_layouts"):
        if p[what] is not None:
            attributes.append(f"{what} = [{', '.join(map(layout_text, p[what]))}]")
    if p["output_operand_aliases"]:
        aliases = [
            f"#stablehlo.output_operand_alias<output_tuple_indices = {list(o)}, operand_index = {i},"
            f" operand_tuple_indices = {list(t)}>"
            for o, i, t in p["output_operand_aliases"]
        ]
        attributes.append(f"output_operand_aliases = [{', '.join(aliases)}]")
    extra = ", ".join(filter(None, (apart, p["extra_attributes"].strip()[1:-1])))
    writer.line("stablehlo.custom_call", instruction, ", ".join(attributes), discardable=extra)


def layout_text(layout: Layout) -> str:
    return f"dense<{list(layout) if layout else ''}> : tensor<{len(layout)}xindex>"


def register_target_reader(target: str, read: Callable[..., Any]) -> None:
    """Say how the custom calls of a target are read that spell an operation which StableHLO lacks."""
    _target_readers[target] = read


def register_sized_reader(target: str, read: Callable[..., Any]) -> None:
    """Say what stands for the custom calls of a target where sizes are known; `read` gives None where they are not."""
    _sized_readers[target] = read


def read_custom_call(reader: Reader, operation: Any) -> Any:
    """One result that is a tuple, as HLO has it, stands for several."""
    target = STRING.parse(reader.attribute(operation, "call_target_name"))
    if target in _target_readers:
        return _target_readers[target](reader, operation)
    if target in _sized_readers:
        found = _sized_readers[target](reader, operation)
        if found is not None:
            return found
    operands = reader.operands(operation)
    specs = tuple(reader.result_specs(operation))
    extra = {
        key: reader.text(operation, key)
        for key in operation.attributes
        if key not in _OWN and not key.startswith(_PASSING)
    }
    given = _layouts(reader, operation, "operand_layouts")
    sized = _sized(reader, operands, specs, extra)
    if sized is not None:
        specs, kept = sized
        given = None if given is None else tuple(given[i] for i in kept)
        operands = [operands[i] for i in kept]
    packed = len(specs) == 1 and type(specs[0]) is TupleSpec
    results = specs[0].elements if packed else specs  # type: ignore[union-attr]
    version = Optional(I32, 1).parse(reader.attribute(operation, "api_version")) or 1
    config = reader.attribute(operation, "backend_config")
    if config is None:
        text = "{}" if version == TYPED else ""
    else:
        text = str(config) if version == TYPED else STRING.parse(config)
    if not text and reader.attribute(operation, _CONFIG) is not None:
        # Typed attributes of before they could stand in backend_config, beside version 1.
        version, text = TYPED, reader.text(operation, _CONFIG)
    called = reader.text(operation, "called_computations", "[]")
    outs = bind(
        custom_call_op,
        *operands,
        call_target_name=target,
        results=tuple(results),
        has_side_effect=BOOL.parse(reader.attribute(operation, "has_side_effect")),
        backend_config=text,
        api_version=version,
        called_computations=tuple(
            reader.function(name.lstrip("@").strip('"'))
            for name in split_text(called.strip()[1:-1])
        ),
        operand_layouts=given,
        result_layouts=_layouts(reader, operation, "result_layouts"),
        output_operand_aliases=_aliases(reader.text(operation, "output_operand_aliases", "[]")),
        extra_attributes=f"{{{', '.join(f'{key} = {value}' for key, value in extra.items())}}}",
    )
    return bind(lookup("tuple"), *outs) if packed else outs


_SHAPES: Final = "indices_of_shape_operands"


def _sized(
    reader: Reader, operands: Sequence[Any], specs: Sequence[Spec], extra: dict[str, str]
) -> tuple[tuple[Spec, ...], list[int]] | None:
    """The results of operands that are shapes, and the other operands, which are those of the library's function."""
    if _SHAPES not in extra:
        return None
    positions = [i for row in I64_MATRIX.from_text(extra[_SHAPES]) for i in row]
    ok = len(positions) == len(specs) and all(0 <= i < len(operands) for i in positions)
    require(ok, "X1", f"{_SHAPES} must be an operand for each of {len(specs)} results", positions)
    if not any(type(s) is TensorSpec and has_unknown(s.shape) for s in specs):
        found: list[Any] = [s.shape if type(s) is TensorSpec else () for s in specs]
    else:
        found = [reader.sizes(operands[i]) for i in positions]
    if None in found:
        return None
    del extra[_SHAPES]
    results: list[Spec] = [
        s.with_shape(shape) if type(s) is TensorSpec else s
        for s, shape in zip(specs, found, strict=True)
    ]
    return tuple(results), [i for i in range(len(operands)) if i not in positions]


def _layouts(reader: Reader, operation: Any, name: str) -> tuple[Layout, ...] | None:
    attribute = reader.attribute(operation, name)
    if attribute is None:
        return None
    return tuple(layout_of(text) for text in split_text(str(attribute).strip()[1:-1]))


def _aliases(text: str) -> tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]:
    found = []
    for entry in split_text(text.strip()[1:-1]):
        fields = dict(part.split(" = ", 1) for part in split_text(entry[entry.index("<") + 1 : -1]))
        found.append(
            (
                _ints(fields["output_tuple_indices"]), int(fields["operand_index"]),
                _ints(fields["operand_tuple_indices"]),
            )
        )  # fmt: skip
    return tuple(found)


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.strip("[] ").split(",") if n.strip())


#: what the interpreter runs, by target: ``function(*arrays, out, attributes)``
_functions: Final[dict[str, Callable[..., Any]]] = dict(LIBRARY)


#: those that call computations: ``function(*arrays, out, attributes, called)``
_computing: Final[dict[str, Callable[..., Any]]] = {}


def register_computing_call(name: str, function: Callable[..., Any]) -> None:
    """Say what the interpreter runs for a target of XLA's that calls computations."""
    _computing[name] = _functions[name] = function


def register_custom_call(
    name: str,
    function: Callable[..., Any] | None = None,
    *,
    handler: Any = None,
    platform: str = "cpu",
    api_version: int = TYPED,
) -> None:
    """Say what a custom call does.

    Parameters
    ----------
    name : str
        The target's name.
    function : callable, optional
        What the interpreter runs: ``function(*arrays, out, attributes)``, where `out` is the tuple of the results'
        specs and `attributes` a dictionary (for the untyped interfaces its one entry is ``"opaque"``). It gives the
        array or the tuple of arrays.
    handler : PyCapsule or ctypes function, optional
        What XLA runs: a handler of its FFI (api_version 4) or a function of the older interfaces.
    platform : str
        Of the handler: ``"cpu"``, ``"CUDA"`` or ``"ROCM"``.
    api_version : int
        Of the handler.

    Raises
    ------
    BackendError
        If the name is taken.

    Notes
    -----
    XLA does not check what an untyped function is called with: a wrong one can end the process.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.register_custom_call("example.twice", lambda x, *, out, attributes: x + x)
    >>> with xlapy.use_backend("interpreter"):
    ...     ops.custom_call("example.twice", [ops.constant([1.0, 2.0])], "f32[2]")
    Tensor([2., 4.], f32[2])
    """
    require_dtype(type(name) is str, "I1", "name must be a text", name)
    if function is not None:
        require_function(function, "register_custom_call: function")
        if name in _functions and _functions[name] is not function:
            raise BackendError(
                f"a custom call must be registered once; got {shown(name)} again [X1]"
            )
        _functions[name] = function
    if handler is not None:
        from xlapy import _jaxlib

        _jaxlib.register_target(name, handler, platform, 1 if api_version == TYPED else 0)


def attributes_of(backend_config: str, api_version: int) -> dict[str, Any]:
    """A custom call's configuration as Python values."""
    if api_version != TYPED:
        return {"opaque": backend_config}
    found = {}
    for entry in split_text(backend_config.strip()[1:-1]):
        key, _, text = entry.partition(" = ")
        found[key.strip().strip('"')] = _value(text.strip()) if text else True
    return found


def _value(text: str) -> Any:
    if text.startswith('"'):
        return STRING.from_text(text)
    if text in ("true", "false"):
        return text == "true"
    number, _, kind = text.partition(" : ")
    try:
        return float(number) if kind.startswith(("f", "bf")) else int(number)
    except ValueError:
        return text


def kernel_custom_call(
    *arrays: Array,
    call_target_name: str,
    results: tuple[Spec, ...],
    backend_config: str,
    api_version: int,
    called_computations: tuple[Any, ...],
    extra_attributes: str,
    out: Any,
    **_: Any,
) -> tuple[Any, ...]:
    """What was registered for the target."""
    function = _functions.get(call_target_name)
    if function is None:
        raise UnsupportedOpError(
            f"custom_call: a target must be known to the interpreter; got {call_target_name!r}; say what it does with"
            " ops.register_custom_call(name, function) [X5]"
        )
    attributes = attributes_of(backend_config, api_version)
    attributes |= attributes_of(extra_attributes, TYPED)
    if _computing.get(call_target_name) is function:
        found = function(*arrays, out=out, attributes=attributes, called=called_computations)
        return checked(found, results, f"custom_call {call_target_name!r}")
    if LIBRARY.get(call_target_name) is not function:
        return checked(
            function(*arrays, out=out, attributes=attributes),
            results,
            f"custom_call {call_target_name!r}",
        )
    try:
        found = function(*arrays, out=out, attributes=attributes)
    except (IndexError, TypeError, ValueError, np.linalg.LinAlgError) as error:
        raise ConstraintError(
            f"custom_call {call_target_name!r}: operands and results must be the target's own; got {error} [X1]"
        ) from None
    return checked(found, results, f"custom_call {call_target_name!r}")


def checked(found: Any, results: Sequence[Spec], what: str) -> tuple[Any, ...]:
    """The arrays that a Python function gave, if they are what was declared."""
    given = () if found is None else tuple(found) if isinstance(found, list | tuple) else (found,)
    if len(given) != len(results):
        raise DTypeError(f"{what}: must give {len(results)} arrays; got {len(given)} [X1]")
    arrays: list[Any] = []
    for array, spec in zip(given, results, strict=True):
        if type(spec) is not TensorSpec:
            arrays.append(array)
            continue
        array = np.asarray(array)
        if array.shape != spec.shape or array.dtype != spec.dtype.numpy:
            raise DTypeError(
                f"{what}: must give {spec}; got {array.dtype.name}{list(array.shape)} [X1]"
            )
        arrays.append(array)
    return tuple(arrays)


custom_call_op = register(Op(
    name="custom_call",
    section="CustomCall",
    infer=infer_custom_call,
    hlo=Hlo("stablehlo.custom_call", write=write_custom_call, read=read_custom_call),
    kernel=kernel_custom_call,
    ad=not_differentiable("what it computes is not known; give it operands of stop_gradient"),
    batch=unsupported("what a custom call computes is not known; call it on the whole batch"),
))  # fmt: skip


def custom_call(
    call_target_name: str,
    operands: Sequence[Any],
    results: Any,
    *,
    backend_config: str | Mapping[str, Any] | None = None,
    has_side_effect: bool = False,
    api_version: int = TYPED,
    called_computations: Sequence[Computation] = (),
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    output_operand_aliases: Sequence[Any] | Mapping[int, int] = (),
    extra_attributes: str | Mapping[str, Any] | None = None,
) -> Any:
    """Call a function of a library by its name.

    Parameters
    ----------
    call_target_name : str
        What the function is registered as: jaxlib's LAPACK kernels on the CPU (``"lapack_spotrf_ffi"``, ...), XLA's
        own (``"TopK"``), or by `register_custom_call`.
    operands : sequence of Tensor
    results : spec or sequence of specs
        One spec gives one tensor, a sequence a tuple.
    backend_config : str or mapping, optional
        For `api_version` 4 typed attributes, as the text of an MLIR dictionary or as Python values: an int is an i64,
        a float an f32, numpy scalars and arrays keep their type. Otherwise a string that is handed over as it is.
    has_side_effect : bool
        Whether the call must be kept though nothing uses its results.
    api_version : int
        4 for XLA's typed FFI; 1, 2, 3 for the interfaces before it.
    called_computations : sequence of Computation
    operand_layouts, result_layouts : sequence of sequence of int, optional
        How the function wants each array: its dimensions from minor to major. Both or neither.
    output_operand_aliases : sequence of (output_tuple_indices, operand_index, operand_tuple_indices), or mapping
        Results that are written over operands; a mapping is from results to operands.
    extra_attributes : str or mapping, optional
        What the call says besides, for programs that other compilers read; as `backend_config` in version 4.

    Returns
    -------
    Tensor or tuple of Tensor

    Raises
    ------
    UnsupportedOpError
        When it runs, if the backend does not know the target.

    Notes
    -----
    Section CustomCall of the operation semantics. What it computes is not known here, so it has no derivative and is
    not vectorised by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from xlapy import ops
    >>> x = ops.constant(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
    >>> lower, info = ops.custom_call(
    ...     "lapack_spotrf_ffi", [x], ["f32[2,2]", "s32[]"], backend_config={"uplo": np.uint8(ord("L"))},
    ...     operand_layouts=[(0, 1)], result_layouts=[(0, 1), ()])
    >>> float(lower.numpy()[1, 0])
    1.0
    """
    tensors = [lift(x) for x in as_items(operands, "operands")]
    single = isinstance(results, str | TensorSpec | TupleSpec | TokenSpec)
    specs = tuple(parse_spec(r) for r in ((results,) if single else as_items(results, "results")))
    if isinstance(backend_config, Mapping):
        if api_version != TYPED:
            raise ConstraintError(
                f"api_version must be 4 for typed attributes; got {api_version} [I4]"
            )
        config = dictionary_text(backend_config)
    else:
        config = (
            backend_config if backend_config is not None else "{}" if api_version == TYPED else ""
        )
    if isinstance(output_operand_aliases, Mapping):
        several = len(specs) > 1
        aliases: Any = [((r,) if several else (), o, ()) for r, o in output_operand_aliases.items()]
    else:
        aliases = output_operand_aliases
    outs = bind(
        custom_call_op,
        *tensors,
        call_target_name=call_target_name,
        results=specs,
        has_side_effect=has_side_effect,
        backend_config=config,
        api_version=api_version,
        called_computations=tuple(called_computations),
        operand_layouts=_normal_layouts(operand_layouts),
        result_layouts=_normal_layouts(result_layouts),
        output_operand_aliases=tuple((tuple(a), b, tuple(c)) for a, b, c in aliases),
        extra_attributes=(
            extra_attributes
            if isinstance(extra_attributes, str)
            else dictionary_text(extra_attributes or {})
        ),
    )
    return outs[0] if single else outs


def _normal_layouts(layouts: Sequence[Sequence[int]] | None) -> tuple[Layout, ...] | None:
    return None if layouts is None else tuple(tuple(int(i) for i in layout) for layout in layouts)
