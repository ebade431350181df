"""AfterAll, Infeed and Outfeed: tokens, which order what is seen outside, and the program's traffic with the host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import DTypeError
from xlapy.specs import (
    Spec,
    TensorSpec,
    TokenSpec,
    TupleSpec,
    as_ints,
    parse_spec,
    require,
    require_dtype,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import STRING, Optional, Simple
from xlapy.trace.computation import Instruction, Value
from xlapy.trace.mode import annotate, bind, current_builder
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.process_grid import communicating, current_process
from xlapy.trace.stablehlo_reader import Reader, split_text

from .rules import not_differentiable, unsupported, zero
from .structure import get_tuple_element

__all__ = [
    "TOKEN",
    "after_all",
    "arrays_of",
    "checked_arrival",
    "create_token",
    "data_and_token",
    "data_specs",
    "departing",
    "infeed",
    "outfeed",
    "require_arrays",
    "require_known",
    "require_last_token",
    "require_token",
    "token_or_new",
]

Array = np.ndarray[Any, Any]
Layout = tuple[int, ...]
Specs = tuple[Spec, ...]

TOKEN: Final = TokenSpec()


def require_token(spec: Spec, label: str) -> None:
    """A token."""
    require_dtype(type(spec) is TokenSpec, label, "the token must be a token", spec)


def require_arrays(specs: Any, label: str, what: str) -> None:
    """A tuple of arrays' specs."""
    ok = type(specs) is tuple and all(type(s) is TensorSpec for s in specs)
    require_dtype(ok, label, f"{what} must be arrays", specs)


# --- AfterAll, CreateToken ------------------------------------------------------------------------------------------


def infer_after_all(*tokens: Spec) -> TokenSpec:
    """I1: tokens."""
    for token in tokens:
        require_dtype(type(token) is TokenSpec, "I1", "the operands must be tokens", token)
    return TOKEN


after_all_op = register(Op(
    name="after_all",
    section="AfterAll",
    infer=infer_after_all,
    hlo=Hlo("stablehlo.after_all"),
    kernel=lambda *tokens, out: None,
    ad=zero,
    batch=lambda op, args, is_batched, size: bind(op, *args),
))  # fmt: skip


def after_all(tokens: Sequence[Any]) -> Tensor:
    """One token that comes after several.

    Parameters
    ----------
    tokens : sequence of tokens
        Any number of them.

    Returns
    -------
    Tensor
        A token: what takes it happens after everything that the tokens come from.

    Raises
    ------
    DTypeError
        [I1] If one of them is no token.

    Notes
    -----
    Section AfterAll of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.after_all([ops.create_token(), ops.create_token()])
    Tensor(token[])
    """
    require_dtype(
        isinstance(tokens, list | tuple), "I1", "tokens must be a sequence", type(tokens).__name__
    )
    result: Tensor = bind(after_all_op, *tokens)
    return result


create_token_op = register(Op(
    name="create_token",
    section="StableHLO: create_token",
    infer=lambda: TOKEN,
    hlo=Hlo("stablehlo.create_token"),
    kernel=lambda *, out: None,
    ad=zero,
    batch=unsupported("it has no operands"),
))  # fmt: skip


def create_token() -> Tensor:
    """A token that comes after nothing: where an order begins.

    Returns
    -------
    Tensor

    Notes
    -----
    ``create_token`` of StableHLO; in HLO it is an AfterAll of nothing.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.create_token()
    Tensor(token[])
    """
    result: Tensor = bind(create_token_op)
    return result


def token_or_new(token: Any, operands: Sequence[Any] = ()) -> Any:
    """The token, or a new one where there is none."""
    if token is not None:
        return token
    if current_builder() is None:
        for x in operands:
            # An explicit builder that was not entered: its values say where the token belongs.
            if type(x) is Tensor and type(x.payload) is Value and x.payload.scope is not None:
                return x.payload.scope.builder.record(create_token_op, (), {})
    return create_token()


# --- what comes in --------------------------------------------------------------------------------------------------


def data_and_token(outs: Sequence[Any], single: bool) -> tuple[Any, Tensor]:
    """An operation's results, with the data as the user asked for it."""
    *data, token = outs
    return (data[0] if single else tuple(data)), token


def data_specs(shape: Any) -> tuple[Specs, bool]:
    """The specs in a shape, and whether it is one of a single array."""
    spec = parse_spec(shape) if isinstance(shape, str) else shape
    if isinstance(spec, TensorSpec | TokenSpec):
        return (spec,), True
    require_dtype(
        isinstance(spec, TupleSpec | list | tuple), "X1", "a shape must be a spec or a sequence of them", spec
    )  # fmt: skip
    elements = spec.elements if isinstance(spec, TupleSpec) else spec
    return tuple(parse_spec(e) for e in elements), False


def checked_arrival(site: Instruction, item: Any, specs: Specs, origin: str) -> tuple[Any, ...]:
    """What came from outside, if it is what the instruction declares."""
    arrays = tuple(_leaves(item))
    got = tuple(TensorSpec(a.shape, a.dtype) for a in arrays)
    if got != specs:
        wanted = ", ".join(map(str, specs))
        error = DTypeError(
            f"{origin} must be {wanted}; got {', '.join(map(str, got)) or 'nothing'} [X1]"
        )
        operands = [v.spec for v in site.operands]
        raise annotate(error, site.op.name, operands, site.source)
    return (*arrays, None)


def _leaves(item: Any) -> Iterator[Any]:
    if isinstance(item, tuple):
        for part in item:
            yield from _leaves(part)
    else:
        yield item


def departing(arrays: Sequence[Any], site: Instruction) -> tuple[Array, ...]:
    """What leaves: kernels may have given scalars for arrays of rank 0."""
    specs: Any = [v.spec for v in site.operands[: len(arrays)]]
    return tuple([np.asarray(a, s.dtype.numpy) for a, s in zip(arrays, specs, strict=True)])


# --- Infeed ---------------------------------------------------------------------------------------------------------


def infer_infeed(
    token: Spec, *, results: Specs, infeed_config: str, layout: tuple[Layout, ...] | None
) -> Specs:
    """I1: a token; I2: a string; C1 to C3: arrays and then a token; X1: the layouts fit, and shapes are known."""
    require_token(token, "I1")
    require_dtype(type(infeed_config) is str, "I2", "infeed_config must be a string", infeed_config)
    require_arrays(results, "C2", "results")
    require_known(results)
    if layout is not None:
        ok = type(layout) is tuple and len(layout) == len(results)
        require(ok, "X1", f"layout must have an entry for each of {len(results)} results", layout)
        for entry, spec in zip(layout, results, strict=True):
            rank = spec.rank  # type: ignore[union-attr]
            require(
                type(entry) is tuple and sorted(entry) == list(range(rank)), "X1",
                f"a layout must list the dimensions of {spec} from minor to major", entry,
            )  # fmt: skip
    return (*results, TOKEN)


def require_known(results: Specs) -> None:
    """Arrays of known shape."""
    for spec in results:
        require(spec.is_static, "X1", "results must be of known shape", spec)  # type: ignore[union-attr]


def _layouts_text(layouts: Sequence[Layout]) -> str:
    return f"[{', '.join(str(list(entry)) for entry in layouts)}]"


def _parse_layouts(text: str) -> tuple[Layout, ...]:
    entries = split_text(text.strip()[1:-1])
    return tuple(tuple(int(n) for n in re.findall(r"\d+", e.split(":")[0])) for e in entries)


def read_infeed(reader: Reader, operation: Any) -> Any:
    """The last result is the token."""
    results = tuple(reader.result_specs(operation)[:-1])
    params = reader.params(operation, infeed_op)
    return bind(infeed_op, *reader.operands(operation), results=results, **params)


@communicating
def kernel_infeed(
    token: None, *, results: Specs, infeed_config: str, layout: Any, out: Any, site: Instruction
) -> tuple[Any, ...]:
    """The next item of the queue that the host fills; nothing is read for nothing."""
    if not results:
        return (None,)
    item = current_process().host_receive(site, "infeed")
    return checked_arrival(site, item, results, "what the host feeds")


infeed_op = register(Op(
    name="infeed",
    section="Infeed",
    infer=infer_infeed,
    hlo=Hlo(
        "stablehlo.infeed",
        {"infeed_config": STRING, "layout": Optional(Simple(_layouts_text, _parse_layouts))},
        read=read_infeed,
    ),
    kernel=kernel_infeed,
    ad=not_differentiable("its data comes from the host"),
    batch=unsupported("the host feeds one item; infeed the whole batch outside of vmap"),
))  # fmt: skip


def infeed(
    shape: Any,
    config: str = "",
    *,
    token: Any = None,
    layout: Sequence[Sequence[int]] | None = None,
) -> tuple[Any, Tensor]:
    """Read an item from the device's infeed, which the host fills with `xlapy.transfer_to_infeed`.

    Parameters
    ----------
    shape : spec, or sequence of specs or TupleSpec
        Of the data, such as ``"f32[2]"`` or ``"(f32[2], s32[])"``. Nothing is read for an empty tuple.
    config : str
        Of the operation, for a backend that makes use of it.
    token : token, optional
        What comes first. A program's infeeds must have an order: give each the token of the one before.
    layout : sequence of sequence of int, optional
        For each array its dimensions from minor to major, as the device gets them.

    Returns
    -------
    data : Tensor or tuple of Tensor
        As `shape` is.
    token : Tensor
        For what comes afterwards.

    Raises
    ------
    DTypeError
        [I1] If `token` is no token. [I2] If `config` is no string. [C2] If the data is something else than arrays,
        or tuples are nested. When it runs: if what the host fed is of another type or shape.
    ConstraintError
        [X1] If a size is not known, or a layout does not fit its array.
    BackendError
        When it runs, if the host has fed nothing.

    Notes
    -----
    Section Infeed of the operation semantics. XLA on CPU and GPU gives the host no end of it through jaxlib, so it is
    refused there; the interpreter runs it.

    Examples
    --------
    >>> import xlapy
    >>> @xlapy.compile(backend="interpreter")
    ... def next_item():
    ...     data, token = xlapy.ops.infeed("f32[2]")
    ...     return data
    >>> xlapy.transfer_to_infeed(xlapy.asarray([1.0, 2.0]), backend="interpreter")
    >>> next_item()
    Tensor([1., 2.], f32[2])
    """
    specs, single = data_specs(shape)
    require_dtype(
        layout is None or isinstance(layout, list | tuple), "X1", "layout must be a sequence of sequences", layout
    )  # fmt: skip
    outs = bind(
        infeed_op, token_or_new(token), results=specs, infeed_config=config,
        layout=None if layout is None else tuple([as_ints(entry, "layout") for entry in layout]),
    )  # fmt: skip
    return data_and_token(outs, single)


# --- Outfeed --------------------------------------------------------------------------------------------------------


def infer_outfeed(*specs: Spec, outfeed_config: str) -> TokenSpec:
    """I1: arrays; I2: a token; I3: a string."""
    require_last_token(specs)
    require_dtype(
        type(outfeed_config) is str, "I3", "outfeed_config must be a string", outfeed_config
    )
    return TOKEN


def require_last_token(specs: Specs) -> None:
    """I1: arrays; I2: a token after them."""
    require_dtype(bool(specs), "I2", "the last operand must be a token", specs)
    require_arrays(specs[:-1], "I1", "the operands")
    require_token(specs[-1], "I2")


@communicating
def kernel_outfeed(*operands: Any, outfeed_config: str, out: Any, site: Instruction) -> None:
    """The arrays as an item of the queue that the host empties; nothing is left for nothing."""
    arrays = departing(operands[:-1], site)
    if arrays:
        current_process().host_send(site, "outfeed", arrays[0] if len(arrays) == 1 else arrays)


outfeed_op = register(Op(
    name="outfeed",
    section="Outfeed",
    infer=infer_outfeed,
    hlo=Hlo("stablehlo.outfeed", {"outfeed_config": STRING}),
    kernel=kernel_outfeed,
    ad=not_differentiable("its data goes to the host; outfeed stop_gradient(x) if nothing comes back of it"),
    batch=unsupported("the host gets one item; outfeed the whole batch outside of vmap"),
))  # fmt: skip


def outfeed(
    operand: Any, shape_with_layout: Any = None, outfeed_config: str = "", *, token: Any = None
) -> Tensor:
    """Leave an item in the device's outfeed, which the host reads with `xlapy.transfer_from_outfeed`.

    Parameters
    ----------
    operand : Tensor or sequence of Tensor
    shape_with_layout : spec or sequence of specs, optional
        What is transferred: the operand's own spec. (StableHLO leaves the layout to the compiler.)
    outfeed_config : str
        Of the operation, for a backend that makes use of it.
    token : token, optional
        What comes first. A program's outfeeds must have an order: give each the token of the one before.

    Returns
    -------
    Tensor
        A token for what comes afterwards. The item is left though nothing uses it.

    Raises
    ------
    DTypeError
        [I1] If an operand is no array. [I2] If `token` is no token. [I3] If the configuration is no string.
        [X1] If `shape_with_layout` is not what the operand is.

    Notes
    -----
    Section Outfeed of the operation semantics. XLA on CPU and GPU gives the host no end of it through jaxlib, so it is
    refused there; the interpreter runs it.

    Examples
    --------
    >>> import xlapy
    >>> @xlapy.compile(backend="interpreter")
    ... def emit(x):
    ...     xlapy.ops.outfeed(xlapy.ops.mul(x, 2.0))
    ...     return x
    >>> with xlapy.use_backend("interpreter"):
    ...     _ = emit(xlapy.asarray([1.0, 2.0]))
    >>> xlapy.transfer_from_outfeed(backend="interpreter")
    Tensor([2., 4.], f32[2])
    """
    arrays = arrays_of(operand)
    if shape_with_layout is not None:
        wanted, given = data_specs(shape_with_layout)[0], tuple(a.spec for a in arrays)
        require_dtype(
            wanted == given, "X1", f"shape_with_layout must be the operand's {given}", wanted
        )
    result: Tensor = bind(
        outfeed_op, *arrays, token_or_new(token, arrays), outfeed_config=outfeed_config
    )
    return result


def arrays_of(operand: Any) -> list[Tensor]:
    """The arrays of an operand, which may be several or a tuple of HLO's."""
    if isinstance(operand, Tensor) and isinstance(operand.spec, TupleSpec):
        return [get_tuple_element(operand, i) for i in range(len(operand.spec.elements))]
    if isinstance(operand, list | tuple):
        return [lift(x) for x in operand]
    return [lift(operand)]
