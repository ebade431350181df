"""Operations that XLA puts into programs itself: they appear in HLO dumps and are not for users to build.

Fusion, Async (AsyncStart, AsyncUpdate, AsyncDone), CopyStart and CopyDone (which are an asynchronous copy),
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
)
from xlapy.trace.builder import trace
from xlapy.trace.codecs import I64
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.stablehlo_reader import Reader

from .branch_rules import CallRules, Fused
from .calls import infer_call
from .control_batching import batch_call
from .rules import linear, unsupported, zero

__all__ = ["add_dependency_op", "async_done_op", "async_start_op", "async_update_op", "domain_op",
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
        "",
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
    """A call, whose results are put into a tuple; XLA decides itself what runs beside what."""
    return bind(lookup("tuple"), *bind(lookup("call"), *xs, computation=computation))


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
    hlo=Hlo("", decomposition=_start),
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
    hlo=Hlo("", decomposition=lambda x: x),
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
    """The elements of the tuple."""
    return tuple(bind(lookup("get_tuple_element"), x, index=i) for i in range(len(x.spec.elements)))


def _read_async_done(reader: Reader, operation: Any) -> Any:
    return bind(async_done_op, *reader.operands(operation))


async_done_op = register(Op(
    name="async_done",
    section="Async",
    infer=infer_async_done,
    hlo=Hlo("", decomposition=_done),
    kernel=lambda x, *, out: x,
    ad=by_decomposition,
    batch=batch_by_decomposition,
))  # fmt: skip
register_reader("mhlo.async_done", _read_async_done)
register_reader("stablehlo.async_done", _read_async_done)


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
    hlo=Hlo("", decomposition=lambda x, **_: x),
    kernel=lambda x, *, out, **_: x,
    ad=linear(lambda g, x, **_: g),
    batch=lambda op, args, is_batched, size, **params: bind(op, args[0], **params),
))  # fmt: skip
register_reader("mhlo.domain", _read_domain)


def infer_add_dependency(x: Spec, token: Spec) -> Spec:
    """I2: a token."""
    require_dtype(type(token) is TokenSpec, "I2", "the second operand must be a token", token)
    return x


def _read_add_dependency(reader: Reader, operation: Any) -> Any:
    return bind(add_dependency_op, *reader.operands(operation))


add_dependency_op = register(Op(
    name="add_dependency",
    section="AddDependency",
    infer=infer_add_dependency,
    # What has side effects is ordered by its own tokens.
    hlo=Hlo("", decomposition=lambda x, token: x),
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
