"""Derivatives, vectorised forms and decompositions of the collectives.

Each device has operands and results of its own. The objective of a derivative is the sum of what all devices give, so
a cotangent says how that sum varies with one device's value: an array that reaches many devices gets the sum of what
comes back from them. The transpose of a collective is again one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import NotDifferentiableError
from xlapy.trace.autodiff import jvp_computation
from xlapy.trace.builder import trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead

from .forms import part, reshaped
from .reduction_rules import compared, folded_rows, require_associative, where
from .replica_groups import Groups, group_size, strategy_of
from .rules import body_name, broadcast_leading, vjp_through
from .scalar_bodies import applied, scalar_operation

__all__ = [
    "Separate",
    "all_reduce_by_gather",
    "all_reduce_derivatives",
    "batch_one",
    "batch_separately",
    "collective_broadcast_by_permutes",
    "constant",
    "reduce_scatter_by_gather",
    "reduce_scatter_derivatives",
    "transpose_all_gather",
    "transpose_collective_broadcast",
]

Params = Mapping[str, Any]

_F32: Final = as_dtype("f32")
_S32: Final = as_dtype("s32")

# --- small parts --------------------------------------------------------------------------------------------------


def among(params: Params) -> dict[str, Any]:
    """The parameters that say which devices take part."""
    names = ("replica_groups", "channel_id", "use_global_device_ids")
    return {k: params[k] for k in names if k in params}


def constant(value: Any, dtype: Any = np.int32) -> Any:
    """A constant array."""
    return bind(lookup("constant"), value=np.asarray(value, dtype))


def all_sum(x: Any, params: Params) -> Any:
    """The sum over the devices of a group."""
    body = scalar_operation("add", x.spec.dtype)
    return bind(lookup("all_reduce"), x, computation=body, **among(params))[0]


def scattered_sum(x: Any, dimension: int, shard_count: int, params: Params) -> Any:
    """A part of the sum over the devices of a group, each device its own."""
    return bind(
        lookup("reduce_scatter"), x, computation=scalar_operation("add", x.spec.dtype), scatter_dimension=dimension,
        shard_count=shard_count, **among(params),
    )  # fmt: skip


def gathered(x: Any, dimension: int, shard_count: int, params: Params) -> Any:
    """The arrays of a group joined."""
    return bind(
        lookup("all_gather"), x, all_gather_dim=dimension, shard_count=shard_count, **among(params)
    )[0]


def own_position(count: int, params: Params) -> Any:
    """The place of the device that asks in its group of `count`, an s32 scalar.

    The devices scatter their numbers among themselves. XLA has no other way: within partitions it gives no ids.
    """
    numbers = bind(lookup("iota"), shape=(count,), dtype=_S32, iota_dimension=0)
    own = bind(
        lookup("reduce_scatter"), numbers, computation=scalar_operation("max", _S32), scatter_dimension=0,
        shard_count=count, **among(params),
    )  # fmt: skip
    return reshaped(own, ())


# --- a reduction by any computation -------------------------------------------------------------------------------


def _rows_of_group(x: Any, params: Params) -> tuple[Any, Any, int]:
    """The arrays of a group as rows of a matrix; how many of them count (None for all); how many there may be."""
    row = reshaped(x, (1, x.spec.size))
    size = group_size(params)
    if size is not None:
        return gathered(row, 0, size, params), None, size
    # Groups of several sizes: everything is gathered, and each device takes the rows of its group.
    groups: Groups = params["replica_groups"]
    count, width = sum(map(len, groups)), max(map(len, groups))
    everyone = {**params, "replica_groups": (tuple(range(count)),)}
    rows = gathered(row, 0, count, everyone)
    own = own_position(count, everyone)
    members, sizes = np.zeros((count, width)), np.zeros(count)
    for group in groups:
        for n in group:
            members[n, : len(group)], sizes[n] = group, len(group)
    zero = constant(0)
    take = lookup("dynamic_slice")
    mine = reshaped(bind(take, constant(members), own, zero, slice_sizes=(1, width)), (width,))
    rows = bind(
        lookup("gather"), rows, mine, offset_dims=(1,), collapsed_slice_dims=(0,), operand_batching_dims=(),
        start_indices_batching_dims=(), start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, x.spec.size),
        indices_are_sorted=False,
    )  # fmt: skip
    return rows, bind(take, constant(sizes), own, slice_sizes=(1,)), width


def _folded(x: Any, params: Params) -> Any:
    """The fold of a group's arrays, neighbours first; as devices do, they make sums of narrow floats in f32."""
    body: Computation = params["computation"]
    name, dtype = body_name(body), x.spec.dtype
    if name in ("add", "mul") and dtype.kind == "float" and dtype.bits < 32 and dtype.name != "f16":
        wide = bind(lookup("convert_element_type"), x, dtype=_F32)
        total = _folded(wide, {**params, "computation": scalar_operation(name, _F32)})
        return bind(lookup("convert_element_type"), total, dtype=dtype)
    rows, size, width = _rows_of_group(x, params)
    # XLA joins no arrays of elements of two bits.
    if size is None and x.spec.dtype.bits > 2:
        (total,) = folded_rows([rows], body)
    else:
        total = part(rows, 0)
        for i in range(1, width):
            (more,) = applied(body, [total, part(rows, i)])
            if size is not None:
                here = bind(
                    lookup("compare"), constant([i]), size, comparison_direction="LT", compare_type="SIGNED"
                )  # fmt: skip
                mask = bind(
                    lookup("broadcast_in_dim"), here, shape=more.spec.shape, broadcast_dimensions=(0,)
                )  # fmt: skip
                more = bind(lookup("select"), mask, more, total)
            total = more
    return reshaped(total, x.spec.shape)


def all_reduce_by_gather(*xs: Any, **params: Any) -> tuple[Any, ...]:
    """An all_reduce by any computation: each device folds what it gathers."""
    return tuple([_folded(x, params) for x in xs])


def reduce_scatter_by_gather(
    x: Any, *, scatter_dimension: int, shard_count: int, **params: Any
) -> Any:
    """A reduce_scatter by any computation: each device folds what it gathers, and keeps its part."""
    total = _folded(x, params)
    size = x.spec.shape[scatter_dimension] // shard_count
    start = bind(lookup("mul"), own_position(shard_count, params), constant(size))
    starts = [start if d == scatter_dimension else constant(0) for d in range(x.spec.rank)]
    sizes = tuple([size if d == scatter_dimension else n for d, n in enumerate(x.spec.shape)])
    return bind(lookup("dynamic_slice"), total, *starts, slice_sizes=sizes)


# --- kinds of derivative ------------------------------------------------------------------------------------------


@final
class Separate:
    """Each result depends on one operand, and linearly.

    Parameters
    ----------
    transpose : callable
        ``transpose(cotangent, operand, **params)``.
    """

    kind: Final = "linear"
    __slots__ = ("_transpose",)

    def __init__(self, transpose: Callable[..., Any]) -> None:
        self._transpose = transpose

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The operation on the tangents that there are."""
        found = iter(bind(op, *[t for t in tangents if t is not None], **params))
        return [None if t is None else next(found) for t in tangents]

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The transpose of each."""
        return [
            None if c is None or not n else self._transpose(c, x, **params)
            for x, c, n in zip(operands, cotangents, needed, strict=True)
        ]


def transpose_all_gather(
    c: Any, x: Any, *, all_gather_dim: int, shard_count: int, **params: Any
) -> Any:
    """What all devices have of this one's part, added up."""
    return scattered_sum(c, all_gather_dim, shard_count, params)


def _chosen(x: Any, out: Any) -> Any:
    """Which elements are the result; where that is nan, the nans."""
    return bind(lookup("or"), compared(x, out, "EQ"), compared(x, x, "NE"))


def _counts(mask: Any, x: Any) -> Any:
    return bind(lookup("convert_element_type"), mask, dtype=x.spec.dtype)


@final
class ReducedByBody:
    """By the computation: sums, maxima and minima by formulas, any other one by its own derivative.

    Parameters
    ----------
    add : AdKind
        The derivative of a sum.
    extremes : pair of callables
        ``jvp(x, tangent, out, params)`` and ``vjp(x, cotangent, out, params)`` of a maximum or minimum.
    by_gather : callable
        The operation by any computation, as others.
    """

    kind: Final = "by body"
    __slots__ = ("_add", "_by_gather", "_extremes")

    def __init__(
        self, add: Any, extremes: tuple[Callable[..., Any], Callable[..., Any]], by_gather: Any
    ) -> None:
        self._add = add
        self._extremes = extremes
        self._by_gather = by_gather

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The tangents of the results."""
        name = body_name(params["computation"])
        if name == "add":
            found: Sequence[Any] = self._add.jvp(op, operands, tangents, outs, params)
            return found
        if name in ("max", "min"):
            rule = self._extremes[0]
            return [
                None if t is None else rule(x, t, y, params)
                for x, t, y in zip(operands, tangents, outs, strict=True)
            ]
        forward = self._forward(op, operands, params)
        dual, active = jvp_computation(forward, [t is not None for t in tangents])
        given = [t for t in tangents if t is not None]
        results = inline(eliminate_dead(dual), [*operands, *given])
        rest = iter(results[len(outs) :])
        return [next(rest) if a else None for a in active]

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The cotangents of the operands."""
        name = body_name(params["computation"])
        if name == "add":
            found: Sequence[Any] = self._add.vjp(op, operands, cotangents, outs, params, needed)
            return found
        if name in ("max", "min"):
            rule = self._extremes[1]
            return [
                None if c is None or not n else rule(x, c, y, params)
                for x, c, y, n in zip(operands, cotangents, outs, needed, strict=True)
            ]
        require_associative(op, name or "")
        forward = self._forward(op, operands, params)
        return vjp_through(forward, operands, cotangents, needed)

    def _forward(self, op: Op, operands: Sequence[Any], params: Params) -> Computation:
        if not params["replica_groups"] or strategy_of(params) == "cross_replica_and_partition":
            raise _unknown_groups(op.name, params["replica_groups"])
        specs = [x.spec for x in operands]
        if not all(s.is_static for s in specs):
            raise NotDifferentiableError(
                f"{op.name}: a derivative must have known sizes; got {specs} [X4]"
            )
        return trace(lambda *xs: self._by_gather(*xs, **params), specs, name=op.name).computation


def _unknown_groups(name: str, groups: Groups) -> NotDifferentiableError:
    return NotDifferentiableError(
        f"{name}: the devices of each group must be known for a derivative of this kind; got replica_groups"
        f" {groups} [X4]\n"
        "  write the groups out, with use_global_device_ids=True where replicas are named with all their partitions"
    )


# --- all_reduce ---------------------------------------------------------------------------------------------------


def _jvp_extreme(x: Any, t: Any, out: Any, params: Params) -> Any:
    """The mean of the tangents of the chosen."""
    mask = _chosen(x, out)
    count = all_sum(_counts(mask, x), params)
    return bind(lookup("div"), all_sum(where(mask, t), params), count)


def _vjp_extreme(x: Any, c: Any, out: Any, params: Params) -> Any:
    """Equal shares for the chosen, of what all devices send back."""
    mask = _chosen(x, out)
    count = all_sum(_counts(mask, x), params)
    return where(mask, bind(lookup("div"), all_sum(c, params), count))


all_reduce_derivatives: Final = ReducedByBody(
    Separate(lambda c, x, *, computation, **params: all_sum(c, params)),
    (_jvp_extreme, _vjp_extreme),
    all_reduce_by_gather,
)

# --- reduce_scatter -----------------------------------------------------------------------------------------------


def _whole(y: Any, params: Params) -> Any:
    """The parts of all devices."""
    return gathered(y, params["scatter_dimension"], params["shard_count"], params)


def _scattered(x: Any, params: Params) -> Any:
    return scattered_sum(x, params["scatter_dimension"], params["shard_count"], params)


def _jvp_scattered_extreme(x: Any, t: Any, out: Any, params: Params) -> Any:
    """The mean of the tangents of the chosen."""
    mask = _chosen(x, _whole(out, params))
    count = _scattered(_counts(mask, x), params)
    return bind(lookup("div"), _scattered(where(mask, t), params), count)


def _vjp_scattered_extreme(x: Any, c: Any, out: Any, params: Params) -> Any:
    """Equal shares for the chosen."""
    mask = _chosen(x, _whole(out, params))
    count = _scattered(_counts(mask, x), params)
    return where(mask, _whole(bind(lookup("div"), c, count), params))


@final
class _ScatteredSum:
    """The derivative of a scattered sum."""

    __slots__ = ()
    kind: Final = "linear"

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The same of the tangent."""
        return [bind(op, tangents[0], **params)]

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """What came to each device, on all of them."""
        return [_whole(cotangents[0], params)]


reduce_scatter_derivatives: Final = ReducedByBody(
    _ScatteredSum(), (_jvp_scattered_extreme, _vjp_scattered_extreme), reduce_scatter_by_gather
)

# --- collective_broadcast -----------------------------------------------------------------------------------------


def _steps(groups: Groups) -> list[tuple[tuple[int, int], ...]]:
    """Pairs that bring the first one's array to all of a group, twice as many having it after each step."""
    steps, reached = [], 1
    while any(len(g) > reached for g in groups):
        steps.append(
            tuple(
                [(g[i], g[i + reached]) for g in groups for i in range(reached) if i + reached < len(g)]
            )
        )  # fmt: skip
        reached *= 2
    return steps


def _permuted(x: Any, pairs: Any, channel_id: int) -> Any:
    return bind(
        lookup("collective_permute"), x, source_target_pairs=tuple(pairs), channel_id=channel_id
    )


def collective_broadcast_by_permutes(x: Any, *, replica_groups: Groups, channel_id: int) -> Any:
    """A broadcast of steps in which each device that has the array sends it to one that has not."""
    found = _permuted(x, [(g[0], g[0]) for g in replica_groups], channel_id)
    flag = constant(True, np.bool_)
    for pairs in _steps(replica_groups):
        arrived = _permuted(found, pairs, channel_id)
        hit = _permuted(flag, pairs, channel_id)
        mask = bind(lookup("broadcast_in_dim"), hit, shape=x.spec.shape, broadcast_dimensions=())
        found = bind(lookup("select"), mask, arrived, found)
    return found


def transpose_collective_broadcast(
    c: Any, x: Any, *, replica_groups: Groups, channel_id: int
) -> Any:
    """The sum over the group, at its first device: the steps of a broadcast backwards."""
    if not replica_groups:
        raise _unknown_groups("collective_broadcast", replica_groups)
    total = c
    for pairs in reversed(_steps(replica_groups)):
        back = _permuted(total, [(b, a) for a, b in pairs], channel_id)
        total = bind(lookup("add"), total, back)
    return _permuted(total, [(g[0], g[0]) for g in replica_groups], channel_id)


# --- vectorised forms ---------------------------------------------------------------------------------------------


def batch_separately(*dimensions: str) -> Callable[..., Any]:
    """For operations whose results depend on one operand each; `dimensions` are the parameters that name one."""

    def batch(
        op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
    ) -> Any:
        shifted = {**params, **{d: params[d] + 1 for d in dimensions}}
        results: list[Any] = [None] * len(args)
        for flag in (True, False):
            chosen = [i for i, b in enumerate(is_batched) if b is flag]
            if not chosen:
                continue
            outs = bind(op, *[args[i] for i in chosen], **(shifted if flag else params))
            outs = outs if type(outs) is tuple else (outs,)
            for i, out in zip(chosen, outs, strict=True):
                results[i] = out if flag else broadcast_leading(out, size)
        return tuple(results)

    return batch


def batch_one(*dimensions: str) -> Callable[..., Any]:
    """For operations of one operand; `dimensions` are the parameters that name one."""

    def batch(
        op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
    ) -> Any:
        return bind(op, args[0], **{**params, **{d: params[d] + 1 for d in dimensions}})

    return batch
