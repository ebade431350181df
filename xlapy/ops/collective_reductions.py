"""AllReduce, CrossReplicaSum and ReduceScatter: what each device of a group has, reduced to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from xlapy.specs import Spec, TensorSpec, as_int, require, require_array, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.codecs import I64
from xlapy.trace.computation import Computation, Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register, register_reader
from xlapy.trace.process_grid import communicating, settled_by
from xlapy.trace.stablehlo_reader import Reader

from .collective_rules import (
    all_reduce_by_gather,
    all_reduce_derivatives,
    batch_one,
    batch_separately,
    reduce_scatter_by_gather,
    reduce_scatter_derivatives,
)
from .collectives import (
    check_layout,
    check_shard_count,
    dimension_of,
    operands_of,
    require_not_empty,
    require_shard_count,
    resized,
)
from .elementwise import add
from .replica_groups import (
    CHANNEL,
    GLOBAL_IDS,
    REPLICA_GROUPS,
    Groups,
    check_channel,
    check_groups,
    check_ids_are_global,
    group_of,
    group_size,
    meet,
    normal_channel,
    normal_flag,
    normal_groups,
    settled_groups,
)
from .rules import body_name
from .scalar_bodies import in_types_of, on_arrays, require_fold, scalar_body

__all__ = ["all_reduce", "cross_replica_sum", "reduce_scatter"]

Array = np.ndarray[Any, Any]

_AMONG: Final[Mapping[str, Any]] = {
    "replica_groups": REPLICA_GROUPS, "channel_handle": CHANNEL, "use_global_device_ids": GLOBAL_IDS
}  # fmt: skip

# --- what both do -------------------------------------------------------------------------------------------------


def fold(arrays: Sequence[Array], body: Any) -> Array:
    """The arrays of a group, in its order, by a computation; sums of bf16 and 8 bits are made in f32, as XLA does."""
    dtype = arrays[0].dtype
    wide = _WIDE_UFUNCS.get(body_name(body.computation) or "")
    if wide is not None and dtype.kind not in "biufc" and dtype not in _INTEGERS:
        total = arrays[0].astype(np.float32)
        for x in arrays[1:]:
            total = wide(total, x.astype(np.float32))
        return np.asarray(total.astype(dtype))
    total = arrays[0]
    for x in arrays[1:]:
        (total,) = on_arrays(body, [total, x])
    return total


_WIDE_UFUNCS: Final = {"add": np.add, "mul": np.multiply}
# The types of ml_dtypes are of kind "V" all of them.
_INTEGERS: Final = frozenset(
    map(np.dtype, (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4))
)


def in_body_types(xs: Sequence[Any], body: Any, label: str) -> list[Any]:
    """Operands converted to the type that a computation of two scalars takes."""
    return [
        y for x in xs for y in in_types_of(_two_scalars(body, label), [x], label, "computation")
    ]


def _two_scalars(body: Any, label: str) -> Any:
    if type(body) is Computation:
        require(
            len(body.parameters) == 2, label, "computation must take 2 scalars", len(body.parameters)
        )  # fmt: skip
    return body


# --- AllReduce ----------------------------------------------------------------------------------------------------


def infer_all_reduce(
    *operands: Spec,
    computation: Computation,
    replica_groups: Groups,
    channel_id: int,
    use_global_device_ids: bool,
) -> tuple[TensorSpec, ...]:
    """C1, C3 to C5; X2 the number of operands."""
    require(bool(operands), "X2", "there must be an operand", 0)
    check_channel(channel_id, "I3")
    check_ids_are_global(channel_id, use_global_device_ids, "I4", "C4")
    check_groups(replica_groups, "I2", "C1", "C3")
    results = []
    for x in operands:
        require_array(x, "I1", "each operand")
        assert type(x) is TensorSpec
        require_fold(computation, [x.dtype], "I5", "C5", "computation")
        results.append(x)
    return tuple(results)


def settle_all_reduce(
    specs: Sequence[Spec], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """C2."""
    return settled_groups(params, num_replicas, num_partitions, "C2")


@communicating
@settled_by(settle_all_reduce)
def kernel_all_reduce(
    *arrays: Array, computation: Any, channel_id: int, out: Any, site: Instruction, **params: Any
) -> tuple[Array, ...]:
    """Result = computation(... computation(operand of the first, operand of the second) ..., operand of the last)."""
    group = group_of({**params, "channel_id": channel_id})
    assert group is not None
    found, _ = meet(site, group, channel_id, arrays)
    return tuple([fold(column, computation) for column in zip(*found, strict=True)])


def read_all_reduce(reader: Reader, operation: Any) -> Any:
    """Read it with the types of the computation."""
    params = reader.params(operation, all_reduce_op)
    xs = in_body_types(reader.operands(operation), params["computation"], "C5")
    return bind(all_reduce_op, *xs, **params)


all_reduce_op = register(Op(
    name="all_reduce",
    section="AllReduce",
    infer=infer_all_reduce,
    hlo=Hlo(
        "stablehlo.all_reduce", _AMONG, regions=("computation",), read=read_all_reduce,
        decomposition=all_reduce_by_gather,
    ),
    kernel=kernel_all_reduce,
    ad=all_reduce_derivatives,
    batch=batch_separately(),
))  # fmt: skip


def all_reduce(
    operand: Any,
    computation: Any,
    replica_groups: Any = None,
    channel_id: int | None = None,
    shape_with_layout: Any = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """The arrays of all devices of a group folded into one by a computation, on each of them.

    Parameters
    ----------
    operand : array or sequence of arrays
        A sequence is reduced array by array.
    computation : function or Computation
        From two scalars to one: `xlapy.ops.add`, or any function that is associative. It may take and give wider types
        of the same kind than the operand's.
    replica_groups : sequence of sequences of int, optional
        All devices, in groups; by default one group of all.
    channel_id : int, optional
        A number above 0 lets partitions take part: groups are of replicas, each with all its partitions. Devices
        meet at operations of one kind and channel.
    shape_with_layout : sequence of int, optional
        Dimensions from minor to major; it changes no value.
    use_global_device_ids : bool, optional
        Whether groups, with a `channel_id`, are of ``replica * num_partitions + partition``.

    Returns
    -------
    Tensor or tuple of Tensor
        A tuple where `operand` is a sequence.

    Raises
    ------
    DTypeError, ConstraintError
        [C1] to [C5] If operands, computation and groups do not fit together; [C2] when it is compiled, if the groups
        do not fit the devices.

    Notes
    -----
    Section AllReduce of the operation semantics. The order in which devices are folded is the backend's choice.

    The objective of a derivative is the sum of what all devices give, so that the transpose of a sum is the sum of the
    cotangents. At a maximum or minimum that several devices share, the derivative is shared equally. Any other
    computation is differentiated by its own derivative, for which the groups must be written out.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.all_reduce(ops.constant([1, 2]), ops.add)
    Tensor([1, 2], s32[2])
    """
    xs, several = operands_of(operand)
    check_layout(shape_with_layout, xs, "shape_with_layout")
    params = {
        "replica_groups": normal_groups(replica_groups),
        "channel_id": normal_channel(channel_id),
        "use_global_device_ids": normal_flag(use_global_device_ids),
    }
    # One computation is of one element type, but a function is of any.
    kinds = {getattr(x.spec, "dtype", None): None for x in xs}
    if type(computation) is Computation or len(kinds) < 2:
        body = scalar_body(computation, xs[:1], "computation")
        results = bind(all_reduce_op, *in_body_types(xs, body, "C5"), computation=body, **params)
    else:
        found: dict[int, Tensor] = {}
        for kind in kinds:
            chosen = [i for i, x in enumerate(xs) if getattr(x.spec, "dtype", None) is kind]
            ys = [xs[i] for i in chosen]
            body = scalar_body(computation, ys[:1], "computation")
            outs = bind(all_reduce_op, *in_body_types(ys, body, "C5"), computation=body, **params)
            found.update(zip(chosen, outs, strict=True))
        results = tuple([found[i] for i in range(len(xs))])
    return results if several else results[0]


def read_cross_replica_sum(reader: Reader, operation: Any) -> Any:
    """StableHLO's own spelling of it, from before there were reductions of other kinds."""
    groups = REPLICA_GROUPS.parse(reader.attribute(operation, "replica_groups"))
    return cross_replica_sum(reader.operands(operation)[0], groups or None)


register_reader("stablehlo.cross-replica-sum", read_cross_replica_sum)


def cross_replica_sum(operand: Any, replica_groups: Any = None) -> Any:
    """The sum over the replicas of a group, on each of them; an `all_reduce`.

    Parameters
    ----------
    operand : array or sequence of arrays
        A sequence is added array by array.
    replica_groups : sequence of sequences of int, optional
        All replicas, in groups; by default one group of all.

    Returns
    -------
    Tensor or tuple of Tensor
        A tuple where `operand` is a sequence.

    Raises
    ------
    DTypeError, ConstraintError
        As of `all_reduce`.

    Notes
    -----
    Section CrossReplicaSum of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.cross_replica_sum(ops.constant([1, 2]))
    Tensor([1, 2], s32[2])
    """
    return all_reduce(operand, add, replica_groups)


# --- ReduceScatter ------------------------------------------------------------------------------------------------


def infer_reduce_scatter(
    x: Spec,
    *,
    computation: Computation,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: Groups,
    channel_id: int,
    use_global_device_ids: bool,
) -> TensorSpec:
    """C1 to C3, C5 to C7; X1 that the size of the groups is what is said."""
    require_array(x, "I1")
    assert type(x) is TensorSpec
    check_channel(channel_id, "I4")
    require(
        type(scatter_dimension) is int and 0 <= scatter_dimension < x.rank, "C2",
        f"scatter_dimension must be in [0, {x.rank})", scatter_dimension,
    )  # fmt: skip
    check_ids_are_global(channel_id, use_global_device_ids, "I5", "C6")
    check_groups(replica_groups, "I3", "C3", "C5", one_size="X1")
    check_shard_count(shard_count, "X1", replica_groups, channel_id, use_global_device_ids)
    size = x.shape[scatter_dimension]
    require_shape(
        size < 0 or size % shard_count == 0, "C1", f"scatter_dimension must be a multiple of shard_count {shard_count}",
        size,
    )  # fmt: skip
    require_fold(computation, [x.dtype], "I6", "C7", "computation")
    require_not_empty(x, scatter_dimension, "X2")
    return resized(x, scatter_dimension, 1, shard_count, "X2")


def settle_reduce_scatter(
    specs: Sequence[Spec], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """C4; X1 of the shard_count."""
    found = settled_groups(params, num_replicas, num_partitions, "C4")
    require_shard_count(params["shard_count"], found, "X1")
    return found


@communicating
@settled_by(settle_reduce_scatter)
def kernel_reduce_scatter(
    x: Array,
    *,
    computation: Any,
    scatter_dimension: int,
    shard_count: int,
    channel_id: int,
    out: Any,
    site: Instruction,
    **params: Any,
) -> Array:
    """Result = the device's part of what an all_reduce gives."""
    group = group_of({**params, "channel_id": channel_id})
    assert group is not None
    found, own = meet(site, group, channel_id, (x,))
    size = x.shape[scatter_dimension] // shard_count
    chosen = (slice(None),) * scatter_dimension + (slice(own * size, (own + 1) * size),)
    return fold([v[chosen] for (v,) in found], computation)


def read_reduce_scatter(reader: Reader, operation: Any) -> Any:
    """The result's type says how many devices there are in a group."""
    params = reader.params(operation, reduce_scatter_op)
    (x,) = in_body_types(reader.operands(operation), params["computation"], "C7")
    count = group_size(params)
    if count is None:
        result: Any = reader.result_specs(operation)[0]
        axis = params["scatter_dimension"]
        known = type(x.spec) is TensorSpec and 0 <= axis < x.spec.rank and result.shape[axis] > 0
        count = max(x.spec.shape[axis] // result.shape[axis], 1) if known else 1
    return bind(reduce_scatter_op, x, **params, shard_count=count)


reduce_scatter_op = register(Op(
    name="reduce_scatter",
    section="ReduceScatter",
    infer=infer_reduce_scatter,
    hlo=Hlo(
        "stablehlo.reduce_scatter", {"scatter_dimension": I64, **_AMONG}, regions=("computation",),
        read=read_reduce_scatter, decomposition=reduce_scatter_by_gather,
    ),
    kernel=kernel_reduce_scatter,
    ad=reduce_scatter_derivatives,
    batch=batch_one("scatter_dimension"),
))  # fmt: skip


def reduce_scatter(
    operand: Any,
    computation: Any,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: Any = None,
    channel_id: int | None = None,
    layout: Any = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """The arrays of all devices of a group folded into one, of which each device gets its part.

    Parameters
    ----------
    operand : array or sequence of arrays
        A sequence is reduced array by array.
    computation : function or Computation
        From two scalars to one, as of `all_reduce`.
    scatter_dimension : int
        Along which the i-th part goes to the i-th device of the group.
    shard_count : int
        How many devices are in each group.
    replica_groups : sequence of sequences of int, optional
        All devices in groups of one size; by default one group of all.
    channel_id : int, optional
        A number above 0 lets partitions take part: groups are of replicas, each with all its partitions.
    layout : sequence of int, optional
        Dimensions from minor to major; it changes no value.
    use_global_device_ids : bool, optional
        Whether groups, with a `channel_id`, are of ``replica * num_partitions + partition``.

    Returns
    -------
    Tensor or tuple of Tensor
        A tuple where `operand` is a sequence.

    Raises
    ------
    ShapeError, DTypeError, ConstraintError
        [C1] to [C7] If operand, computation, dimension and groups do not fit together; [C4] when it is compiled, if
        the groups do not fit the devices.

    Notes
    -----
    Section ReduceScatter of the operation semantics. The transpose of a sum is an `all_gather`.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_scatter(ops.constant([1, 2]), ops.add, 0, shard_count=1)
    Tensor([1, 2], s32[2])
    """
    xs, several = operands_of(operand)
    check_layout(layout, xs)
    results = []
    for x in xs:
        body = scalar_body(computation, [x], "computation")
        (y,) = in_body_types([x], body, "C7")
        results.append(
            bind(
                reduce_scatter_op, y, computation=body,
                scatter_dimension=dimension_of(scatter_dimension, y, "scatter_dimension", "C2"),
                shard_count=as_int(shard_count, "shard_count", "X1"), replica_groups=normal_groups(replica_groups),
                channel_id=normal_channel(channel_id), use_global_device_ids=normal_flag(use_global_device_ids),
            )
        )  # fmt: skip
    return tuple(results) if several else results[0]
