"""Operations that XLA puts into programs itself: they appear in HLO dumps and are not for users to build.

Fusion, Async (AsyncStart, AsyncUpdate, AsyncDone), CopyStart and CopyDone (which are an asynchronous copy), Bitcast,
Domain, AddDependency and RngGetAndUpdateState. They run in the interpreter, have derivatives where they compute
something, and are written as the StableHLO that computes the same. (Parameter, which dumps have too, is
`XlaBuilder.parameter` here.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.specs import (
    Spec,
    TensorSpec,
    TokenSpec,
    TupleSpec,
    require,
    require_dtype,
    require_shape,
)
from xlapy.trace.builder import trace
from xlapy.trace.codecs import I64
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .branch_rules import CallRules, Fused
from .calls import infer_call
from .control_batching import batch_call
from .rules import linear, unsupported, zero

__all__ = ["add_dependency_op", "async_done_op", "async_start_op", "async_update_op", "bitcast_op", "domain_op",
           "fusion_op", "rng_get_and_update_state_op"]  # fmt: skip

Array = np.ndarray[Any, Any]
Run = Callable[..., tuple[Any, ...]]


# --- what is made of other operations -------------------------------------------------------------------------------


def _decomposed(op: Op, operands: Sequence[Any], params: Mapping[str, Any]) -> Computation:
    """The operation as a computation of those that it is made of."""
    decomposition: Any = op.hlo.decomposition
    return trace(
        lambda *xs: decomposition(*xs, **params), [x.spec for x in operands], name=op.name
    ).computation


@final
class ByDecomposition(Fused):
    """The derivative of what the operation is made of."""

    __slots__ = ()

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Mapping[str, Any]
    ) -> Any:
        """The decomposition's."""
        return _AS_CALL.fused_jvp(
            op, operands, tangents, {"computation": _decomposed(op, operands, params)}
        )

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Mapping[str, Any]
    ) -> Any:
        """The decomposition's."""
        computation = _decomposed(op, operands, params)
        outs, residuals = _AS_CALL.forward(op, operands, needed, {"computation": computation})
        return outs, (computation, residuals)

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Mapping[str, Any],
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The decomposition's."""
        computation, kept = residuals
        return _AS_CALL.backward(
            op, operands, cotangents, kept, {"computation": computation}, needed
        )


_AS_CALL: Final = CallRules("computation")
_batch_as_call: Final = batch_call("computation")
by_decomposition: Final = ByDecomposition()


def batch_by_decomposition(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """The vectorised decomposition, called; of the operation's own form, one result or several."""
    outer = [_row(a.spec) if b else a.spec for a, b in zip(args, is_batched, strict=True)]
    decomposition: Any = op.hlo.decomposition
    several: list[bool] = []

    def run(*xs: Any) -> Any:
        outs = decomposition(*xs, **params)
        several.append(type(outs) is tuple)
        return outs

    computation = trace(run, outer, name=op.name).computation
    outs = _batch_as_call(op, args, is_batched, size, computation=computation)
    return outs if several[0] else outs[0]


def _row(spec: Any) -> Any:
    """The spec of one row of a batched value."""
    if type(spec) is TupleSpec:
        return TupleSpec(map(_row, spec.elements))
    return spec.with_shape(spec.shape[1:]) if type(spec) is TensorSpec else spec


# --- Fusion ---------------------------------------------------------------------------------------------------------


def infer_fusion(*specs: Spec, computation: Computation, fusion_kind: str) -> tuple[Spec, ...]:
    """I1, C1 as of a call; the kind is one of XLA's."""
    require(
        fusion_kind in _FUSION_KINDS,
        "X1",
        f"fusion_kind must be one of {_FUSION_KINDS}",
        fusion_kind,
    )
    return infer_call(*specs, computation=computation)


_FUSION_KINDS: Final = ("kLoop", "kInput", "kOutput", "kCustom")


def write_fusion(writer: Writer, instruction: Any) -> None:
    """As a call: the compiler fuses as it sees fit."""
    symbol = writer.symbol(instruction.params["computation"])
    writer.line("func.call", instruction, f"callee = @{symbol}")


def read_fusion(reader: Reader, operation: Any) -> Any:
    """The fused instructions are a region."""
    computation, captured = reader.region(operation, 0, "fused_computation")
    operands = [*reader.operands(operation), *captured]
    kind = reader.text(operation, "fusion_kind", "kLoop").rstrip(">").split()[-1]
    return bind(fusion_op, *operands, computation=computation, fusion_kind=kind)


fusion_op = register(Op(
    name="fusion",
    section="Fusion",
    infer=infer_fusion,
    hlo=Hlo(
        "", write=write_fusion,
        decomposition=lambda *xs, computation, fusion_kind: bind(lookup("call"), *xs, computation=computation),
    ),
    kernel=lambda *xs, computation, fusion_kind, out: computation(*xs),
    ad=CallRules("computation"),
    batch=batch_call("computation"),
))  # fmt: skip
register_reader("mhlo.fusion", read_fusion)


# --- Async ----------------------------------------------------------------------------------------------------------
# What is under way has the spec of a tuple of its results: it is finished at once here.


def infer_async_start(*specs: Spec, computation: Computation) -> TupleSpec:
    """I1, C1 as of a call."""
    return TupleSpec(infer_call(*specs, computation=computation))


def _start(*xs: Any, computation: Computation) -> Any:
    return bind(lookup("tuple"), *bind(lookup("call"), *xs, computation=computation))


def write_async_start(writer: Writer, instruction: Any) -> None:
    """As a call; XLA decides itself what runs beside what."""
    computation = instruction.params["computation"]
    symbol = writer.symbol(computation)
    given = ", ".join(writer.names[v] for v in instruction.operands)
    ins = ", ".join(v.spec.mlir for v in instruction.operands)
    kinds = [s.mlir for s in computation.result_specs]
    call = f'"func.call"({given}) <{{callee = @{symbol}}}> : ({ins}) -> ({", ".join(kinds)})'
    parts = writer.raw_several(call, len(kinds))
    (result,) = instruction.results
    writer.names[result] = writer.raw(
        f'"stablehlo.tuple"({", ".join(parts)}) : ({", ".join(kinds)}) -> {result.spec.mlir}'
    )


def read_async_start(reader: Reader, operation: Any) -> Any:
    """The computation is a function of the module (MHLO) or a region (StableHLO)."""
    operands = reader.operands(operation)
    if len(operation.regions):
        computation, captured = reader.region(operation, 0, "async_computation")
        operands = [*operands, *captured]
    else:
        computation = reader.function(
            reader.text(operation, "called_computation").lstrip("@").strip('"')
        )
    return bind(async_start_op, *operands, computation=computation)


async_start_op = register(Op(
    name="async_start",
    section="Async",
    infer=infer_async_start,
    hlo=Hlo("", write=write_async_start, decomposition=_start),
    kernel=lambda *xs, computation, out: computation(*xs),
    ad=by_decomposition,
    batch=batch_by_decomposition,
))  # fmt: skip
register_reader("mhlo.async_start", read_async_start)
register_reader("stablehlo.async_start", read_async_start)


def infer_async_update(x: Spec) -> Spec:
    """I1: something under way."""
    require_dtype(type(x) is TupleSpec, "I1", "the operand must be of async_start", x)
    return x


async_update_op = register(Op(
    name="async_update",
    section="Async",
    infer=infer_async_update,
    hlo=Hlo("", write=lambda writer, instruction: writer.alias(instruction), decomposition=lambda x: x),
    kernel=lambda x, *, out: x,
    ad=linear(lambda g, x: g),
    batch=lambda op, args, is_batched, size: bind(op, args[0]),
))  # fmt: skip


def _read_async_update(reader: Reader, operation: Any) -> Any:
    return bind(async_update_op, *reader.operands(operation))


register_reader("mhlo.async_update", _read_async_update)


def infer_async_done(x: Spec) -> tuple[Spec, ...]:
    """I1: something under way."""
    require_dtype(type(x) is TupleSpec, "I1", "the operand must be of async_start", x)
    assert type(x) is TupleSpec
    return x.elements


def _done(x: Any) -> Any:
    return tuple(bind(lookup("get_tuple_element"), x, index=i) for i in range(len(x.spec.elements)))


def write_async_done(writer: Writer, instruction: Any) -> None:
    """The elements of the tuple."""
    (operand,) = instruction.operands
    for i, result in enumerate(instruction.results):
        writer.names[result] = writer.raw(
            f'"stablehlo.get_tuple_element"({writer.names[operand]}) <{{index = {i} : i32}}>'
            f" : ({operand.spec.mlir}) -> {result.spec.mlir}"
        )


def _read_async_done(reader: Reader, operation: Any) -> Any:
    return bind(async_done_op, *reader.operands(operation))


async_done_op = register(Op(
    name="async_done",
    section="Async",
    infer=infer_async_done,
    hlo=Hlo("", write=write_async_done, decomposition=_done),
    kernel=lambda x, *, out: x,
    ad=by_decomposition,
    batch=batch_by_decomposition,
))  # fmt: skip
register_reader("mhlo.async_done", _read_async_done)
register_reader("stablehlo.async_done", _read_async_done)


# --- Bitcast --------------------------------------------------------------------------------------------------------


def infer_bitcast(
    x: TensorSpec,
    *,
    shape: tuple[int, ...],
    dtype: Any,
    source_layout: tuple[int, ...],
    result_layout: tuple[int, ...],
) -> TensorSpec:
    """I1: an array of known shape; X1: the layouts permute the dimensions; C1: the same number of bits."""
    require_dtype(type(x) is TensorSpec, "I1", "the operand must be an array", x)
    require_shape(x.is_static, "X2", "the shape must be known", x)
    result = TensorSpec(shape, dtype)
    for what, layout, rank in (
        ("source_layout", source_layout, x.rank),
        ("result_layout", result_layout, result.rank),
    ):
        ok = sorted(layout) == list(range(rank))
        require(ok, "X1", f"{what} must list {rank} dimensions from minor to major", layout)
    require_shape(
        x.size * x.dtype.bits == result.size * result.dtype.bits, "C1", f"the result must have as many bits as {x}",
        result,
    )  # fmt: skip
    return result


def kernel_bitcast(
    x: Array, *, shape: tuple[int, ...], dtype: Any, source_layout: tuple[int, ...], result_layout: tuple[int, ...],
    out: TensorSpec,
) -> Array:  # fmt: skip
    """The operand's memory read as the result; layouts list dimensions from minor to major."""
    flat = np.ascontiguousarray(x.transpose(source_layout[::-1])).reshape(-1)
    if flat.dtype != out.dtype.numpy:
        flat = flat.view(out.dtype.numpy)
    order = result_layout[::-1]
    return flat.reshape([shape[i] for i in order]).transpose(np.argsort(order, kind="stable"))


def _steps(x: Any, params: Mapping[str, Any]) -> list[tuple[str, TensorSpec, dict[str, Any]]]:
    """The operations that a bitcast is made of: (name, result, parameters)."""
    source, target = params["source_layout"][::-1], params["result_layout"][::-1]
    result = TensorSpec(params["shape"], params["dtype"])
    steps: list[tuple[str, TensorSpec, dict[str, Any]]] = []
    current: TensorSpec = x
    if source != tuple(range(x.rank)):
        current = current.with_shape([x.shape[i] for i in source])
        steps.append(("transpose", current, {"permutation": source}))
    ordered = [result.shape[i] for i in target]
    if current.dtype is not result.dtype:
        wide, narrow = current.dtype.bits, result.dtype.bits
        ratio = wide // narrow if wide > narrow else narrow // wide
        count = x.size if wide >= narrow else result.size
        flat = (count,) if wide >= narrow else (count, ratio)
        if current.shape != flat:
            current = current.with_shape(flat)
            steps.append(("reshape", current, {"shape": flat}))
        current = TensorSpec((count, ratio) if wide > narrow else (count,), result.dtype)
        steps.append(("bitcast_convert_type", current, {"dtype": result.dtype}))
    if list(current.shape) != ordered:
        current = current.with_shape(ordered)
        steps.append(("reshape", current, {"shape": tuple(ordered)}))
    if target != tuple(range(result.rank)):
        back = tuple(int(i) for i in np.argsort(target))
        current = current.with_shape([current.shape[i] for i in back])
        steps.append(("transpose", current, {"permutation": back}))
    return steps


def _bitcast(x: Any, **params: Any) -> Any:
    for name, result, given in _steps(x.spec, params):
        if name == "bitcast_convert_type":
            x = _convert_bits(x, result)
        else:
            x = bind(lookup(name), x, **given)
    return x


def _convert_bits(x: Any, result: TensorSpec) -> Any:
    from .conversion import bitcast_convert_type

    found = bitcast_convert_type(x, result.dtype)
    require_shape(found.spec == result, "X1", f"the bits must make {result}", found.spec)
    return found


_MLIR: Final = {
    "transpose": "stablehlo.transpose", "reshape": "stablehlo.reshape",
    "bitcast_convert_type": "stablehlo.bitcast_convert",
}  # fmt: skip


def write_bitcast(writer: Writer, instruction: Any) -> None:
    """Transposes and reshapes."""
    (operand,), (result,) = instruction.operands, instruction.results
    name, kind = writer.names[operand], operand.spec.mlir
    for step, spec, given in _steps(operand.spec, instruction.params):
        attributes = ""
        if step == "transpose":
            attributes = (
                f" <{{permutation = array<i64: {', '.join(map(str, given['permutation']))}>}}>"
            )
        name = writer.raw(f'"{_MLIR[step]}"({name}){attributes} : ({kind}) -> {spec.mlir}')
        kind = spec.mlir
    writer.names[result] = name


def read_bitcast(reader: Reader, operation: Any) -> Any:
    """Layouts are attributes of their own; without them the last dimension is the minor one."""
    (operand,) = reader.operands(operation)
    spec: Any = reader.result_specs(operation)[0]
    return bind(
        bitcast_op,
        operand,
        shape=spec.shape,
        dtype=spec.dtype,
        source_layout=_layout(reader, operation, "source_layout", operand.spec.rank),
        result_layout=_layout(reader, operation, "result_layout", spec.rank),
    )


def _layout(reader: Reader, operation: Any, name: str, rank: int) -> tuple[int, ...]:
    attribute = reader.attribute(operation, name)
    if attribute is None:
        return tuple(range(rank))[::-1]
    return layout_of(str(attribute))


def layout_of(text: str) -> tuple[int, ...]:
    """The dimensions in ``dense<[1, 0]> : tensor<2xindex>``."""
    body = text[text.index("<") + 1 : text.index(">")]
    return tuple(int(n) for n in body.strip("[]").split(",") if n.strip())


@final
class _BitcastRules(Fused):
    """Linear where the type stays; bits of another type are no numbers that vary."""

    __slots__ = ()

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Mapping[str, Any]
    ) -> Any:
        """The same of the tangent."""
        same = operands[0].dtype is params["dtype"]
        out = bind(op, operands[0], **params)
        return (out,), (bind(op, tangents[0], **params) if same else None,)

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Mapping[str, Any]
    ) -> Any:
        """Nothing is kept."""
        return (bind(op, operands[0], **params),), ()

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Mapping[str, Any],
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The bitcast that leads back."""
        spec = operands[0].spec
        if spec.dtype is not params["dtype"]:
            return [None]
        return [
            bind(
                op, cotangents[0], shape=spec.shape, dtype=spec.dtype, source_layout=params["result_layout"],
                result_layout=params["source_layout"],
            )
        ]  # fmt: skip


def batch_bitcast(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, shape: tuple[int, ...], dtype: Any,
    source_layout: tuple[int, ...], result_layout: tuple[int, ...],
) -> Any:  # fmt: skip
    """The new axis is the major one."""
    return bind(
        op,
        args[0],
        shape=(size, *shape),
        dtype=dtype,
        source_layout=(*[i + 1 for i in source_layout], 0),
        result_layout=(*[i + 1 for i in result_layout], 0),
    )


bitcast_op = register(Op(
    name="bitcast",
    section="Bitcast",
    infer=infer_bitcast,
    hlo=Hlo("", write=write_bitcast, decomposition=_bitcast),
    kernel=kernel_bitcast,
    ad=_BitcastRules(),
    batch=batch_bitcast,
))  # fmt: skip
register_reader("mhlo.bitcast", read_bitcast)


# --- Domain, AddDependency ------------------------------------------------------------------------------------------


def infer_domain(x: Spec, *, kind: str, entry_metadata: str, exit_metadata: str) -> Spec:
    """Any value."""
    return x


def _read_domain(reader: Reader, operation: Any) -> Any:
    texts = {k: reader.text(operation, k) for k in ("kind", "entry_metadata", "exit_metadata")}
    return bind(domain_op, *reader.operands(operation), **texts)


domain_op = register(Op(
    name="domain",
    section="Domain",
    infer=infer_domain,
    # It marks where one device's part of a program ends, and changes nothing.
    hlo=Hlo("", write=lambda writer, instruction: writer.alias(instruction), decomposition=lambda x, **_: x),
    kernel=lambda x, *, out, **_: x,
    ad=linear(lambda g, x, **_: g),
    batch=lambda op, args, is_batched, size, **params: bind(op, args[0], **params),
))  # fmt: skip
register_reader("mhlo.domain", _read_domain)


def infer_add_dependency(x: Spec, token: Spec) -> Spec:
    """I2: a token."""
    require_dtype(type(token) is TokenSpec, "I2", "the second operand must be a token", token)
    return x


def write_add_dependency(writer: Writer, instruction: Any) -> None:
    """The value itself: what has side effects is ordered by its own tokens."""
    writer.names[instruction.results[0]] = writer.names[instruction.operands[0]]


def _read_add_dependency(reader: Reader, operation: Any) -> Any:
    return bind(add_dependency_op, *reader.operands(operation))


add_dependency_op = register(Op(
    name="add_dependency",
    section="AddDependency",
    infer=infer_add_dependency,
    hlo=Hlo("", write=write_add_dependency, decomposition=lambda x, token: x),
    kernel=lambda x, token, *, out: x,
    ad=linear(lambda g, x, token: g),
    batch=lambda op, args, is_batched, size: bind(op, *args),
))  # fmt: skip
register_reader("mhlo.add_dependency", _read_add_dependency)


# --- RngGetAndUpdateState -------------------------------------------------------------------------------------------


def infer_rng_get_and_update_state(*, delta: int) -> TensorSpec:
    """X1: a delta of 64 bits."""
    require(type(delta) is int and 0 <= delta < 2**63, "X1", "delta must be in [0, 2**63)", delta)
    return TensorSpec((2,), "u64")


class _State:
    """The one counter of 128 bits that a process has."""

    # XLA on CPU starts here.
    FIRST: Final = 0x7012395

    def __init__(self) -> None:
        self.value = self.FIRST
        self.lock = threading.Lock()

    def take(self, delta: int) -> int:
        """The value, which then grows by `delta`."""
        with self.lock:
            found = self.value
            self.value = (found + delta) % (1 << 128)
        return found


_state: Final = _State()


def kernel_rng_get_and_update_state(*, delta: int, out: TensorSpec) -> Array:
    """Result = state; state += delta."""
    found = _state.take(delta)
    return np.array([found & (2**64 - 1), found >> 64], np.uint64)


rng_get_and_update_state_op = register(Op(
    name="rng_get_and_update_state",
    section="RngGetAndUpdateState",
    infer=infer_rng_get_and_update_state,
    hlo=Hlo("mhlo.xla.rng_get_and_update_state", {"delta": I64}),
    kernel=kernel_rng_get_and_update_state,
    ad=zero,
    batch=unsupported("it has no operands"),
))  # fmt: skip
