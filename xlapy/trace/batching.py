"""Vectorising a computation: each operation's batching rule, by a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.errors import XlapyError
from xlapy.specs import DYNAMIC, Spec, TensorSpec, TupleSpec
from xlapy.trace.builder import XlaBuilder, recording
from xlapy.trace.computation import Computation, Instruction
from xlapy.trace.mode import annotate, bind, current_builder
from xlapy.trace.op import lookup
from xlapy.trace.replay import replay
from xlapy.trace.sizes import broadcast_rows

__all__ = ["batch_computation", "batched_spec", "broadcast_leading", "replay_batched"]


def batched_spec(spec: Spec, size: int) -> Spec:
    """The spec with a new axis 0."""
    if type(spec) is TensorSpec:
        return TensorSpec((size, *spec.shape), spec.dtype, tuple(d + 1 for d in spec.dynamic))
    if type(spec) is TupleSpec:
        return TupleSpec(batched_spec(e, size) for e in spec.elements)
    return spec


def replay_batched(
    computation: Computation, arguments: Sequence[Any], is_batched: Sequence[bool], size: int
) -> tuple[list[Any], list[bool]]:
    """Replay with the batching rules, in the current mode.

    Parameters
    ----------
    computation : Computation
    arguments : sequence of Tensor
        The batched ones have the new axis at 0.
    is_batched : sequence of bool
    size : int
        The length of the new axis.

    Returns
    -------
    results : list of Tensor
    is_batched : list of bool
    """
    builder = current_builder()
    assert builder is not None
    varies = size is DYNAMIC or any(
        b and 0 in getattr(a.spec, "dynamic", ())
        for a, b in zip(arguments, is_batched, strict=True)
    )

    def apply(instruction: Instruction, operands: list[Any]) -> Sequence[Any]:
        tensors = [t for t, _ in operands]
        flags = [b for _, b in operands]
        op = instruction.op
        with builder.at_source(instruction.source):
            if True not in flags:
                outs = bind(op, *tensors, **instruction.params)
                return [(o, False) for o in outs] if type(outs) is tuple else [(outs, False)]
            builder.batched = tensors[flags.index(True)] if varies else None
            try:
                outs = op.batch(op, tensors, flags, size, **instruction.params)
            except XlapyError as error:
                raise annotate(error, "", [t.spec for t in tensors], instruction.source) from None
        return [(o, True) for o in outs] if type(outs) is tuple else [(outs, True)]

    before = builder.batched
    try:
        found = replay(computation, list(zip(arguments, is_batched, strict=True)), apply)
    finally:
        builder.batched = before
    return [t for t, _ in found], [b for _, b in found]


def batch_computation(
    computation: Computation,
    is_batched: Sequence[bool],
    size: int,
    out_batched: Sequence[bool] | None = None,
) -> tuple[Computation, list[bool]]:
    """The vectorised computation, for operations that hold one.

    Parameters
    ----------
    computation : Computation
    is_batched : sequence of bool
        For each parameter.
    size : int
    out_batched : sequence of bool, optional
        Results that must be batched even if they do not depend on a batched parameter.

    Returns
    -------
    computation : Computation
    out_batched : list of bool
    """
    outer = current_builder()
    builder = XlaBuilder(f"vmap_{computation.name}", outer.scope if outer is not None else None)
    arguments = [
        builder.parameter(i, batched_spec(s, size) if b else s)
        for i, (s, b) in enumerate(zip(computation.parameter_specs, is_batched, strict=True))
    ]
    with recording(builder):
        results, found = replay_batched(computation, arguments, is_batched, size)
        if out_batched is not None:
            results = [
                broadcast_leading(r, size) if want and not has else r
                for r, want, has in zip(results, out_batched, found, strict=True)
            ]
            found = [w or h for w, h in zip(out_batched, found, strict=True)]
        values = [builder.value(r) for r in results]
    return builder.finish(values), found


def broadcast_leading(x: Any, size: int) -> Any:
    """`x` repeated along a new axis 0; the parts of a tuple each, and a token as it is."""
    spec = x.placed.spec
    if type(spec) is TupleSpec:
        get = lookup("get_tuple_element")
        parts = [broadcast_leading(bind(get, x, index=i), size) for i in range(len(spec.elements))]
        return bind(lookup("tuple"), *parts)
    if type(spec) is not TensorSpec:
        return x
    builder = current_builder()
    if builder is not None and builder.batched is not None:
        return broadcast_rows(x, builder.batched)
    dims = tuple(range(1, spec.rank + 1))
    return bind(lookup("broadcast_in_dim"), x, shape=(size, *spec.shape), broadcast_dimensions=dims)
