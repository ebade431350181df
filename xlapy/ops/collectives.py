"""AllGather and AllToAll: what each device of a group has, joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.specs import (
    Spec,
    TensorSpec,
    as_axis,
    as_int,
    as_ints,
    require,
    require_array,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.process_grid import communicating, settled_by
from xlapy.trace.stablehlo_reader import Reader

from .collective_rules import (
    Separate,
    batch_one,
    batch_separately,
    transpose_all_gather,
)
from .forms import part, reshaped
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
from .rules import linear

__all__ = ["all_gather", "all_to_all"]

Array = np.ndarray[Any, Any]

# --- AllGather ----------------------------------------------------------------------------------------------------


def infer_all_gather(
    *operands: Spec,
    all_gather_dim: int,
    replica_groups: Groups,
    channel_id: int,
    use_global_device_ids: bool,
    shard_count: int,
) -> tuple[TensorSpec, ...]:
    """C1, C2, C4, C5; X1 that the size of the groups is what is said, X2 the operands."""
    require(bool(operands), "X2", "there must be an operand", 0)
    check_channel(channel_id, "I4")
    check_ids_are_global(channel_id, use_global_device_ids, "I5", "C5")
    check_groups(replica_groups, "I3", "C2", "C4", one_size="X1")
    check_shard_count(shard_count, "X1", replica_groups, channel_id, use_global_device_ids)
    results = []
    for x in operands:
        require_array(x, "I1", "each operand")
        assert type(x) is TensorSpec
        require(
            type(all_gather_dim) is int and 0 <= all_gather_dim < x.rank, "C1",
            f"all_gather_dim must be in [0, {x.rank})", all_gather_dim,
        )  # fmt: skip
        require_not_empty(x, all_gather_dim, "X2")
        results.append(resized(x, all_gather_dim, shard_count, 1, "X2"))
    return tuple(results)


def check_shard_count(
    shard_count: int, label: str, groups: Groups, channel_id: int, use_global_device_ids: bool
) -> None:
    """The number of devices in each group, as far as it can be known without the grid."""
    require(
        type(shard_count) is int and shard_count > 0, label, "shard_count must be positive", shard_count
    )  # fmt: skip
    if not groups:
        return
    size = len(groups[0])
    if channel_id > 0 and not use_global_device_ids:
        ok, what = shard_count % size == 0, f"a multiple of {size}, the replicas of each group"
    else:
        ok, what = shard_count == size, f"{size}, the devices of each group"
    require(ok, label, f"shard_count must be {what}", shard_count)


def require_not_empty(x: TensorSpec, dimension: int, label: str) -> None:
    """StableHLO joins and splits no empty dimensions."""
    require_shape(x.shape[dimension] != 0, label, "the dimension must not be empty", x)


def resized(x: TensorSpec, dimension: int, times: int, over: int, label: str) -> TensorSpec:
    """The spec with a dimension of another size, which must not vary."""
    require_shape(dimension not in x.dynamic, label, "the size of the dimension must be known", x)
    size = x.shape[dimension]
    shape = list(x.shape)
    shape[dimension] = size if size < 0 else size * times // over
    return TensorSpec(shape, x.dtype, x.dynamic)


def settle_gather(
    specs: Sequence[Spec], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """C3; X1 of the shard_count."""
    found = settled_groups(params, num_replicas, num_partitions, "C3")
    require_shard_count(params["shard_count"], found, "X1")
    return found


def require_shard_count(shard_count: int, settled: Mapping[str, Any], label: str) -> None:
    """The number of devices in each group, on the grid."""
    size = group_size(settled) or len(settled["replica_groups"][0])
    require(
        shard_count == size, label, f"shard_count must be {size}, the devices of each group", shard_count
    )  # fmt: skip


@communicating
@settled_by(settle_gather)
def kernel_all_gather(
    *arrays: Array, all_gather_dim: int, channel_id: int, out: Any, site: Instruction, **params: Any
) -> tuple[Array, ...]:
    """Result = concatenate(operands of the group)."""
    group = group_of({**params, "channel_id": channel_id})
    assert group is not None
    found, _ = meet(site, group, channel_id, arrays)
    return tuple([np.concatenate(x, all_gather_dim) for x in zip(*found, strict=True)])


def read_all_gather(reader: Reader, operation: Any) -> Any:
    """The results' types say how many devices there are in a group."""
    params = reader.params(operation, all_gather_op)
    count = group_size(params)
    if count is None:
        operand: Any = reader.operands(operation)[0].spec
        result: Any = reader.result_specs(operation)[0]
        axis = params["all_gather_dim"]
        known = type(operand) is TensorSpec and 0 <= axis < operand.rank and operand.shape[axis] > 0
        count = max(result.shape[axis] // operand.shape[axis], 1) if known else 1
    return bind(all_gather_op, *reader.operands(operation), **params, shard_count=count)


all_gather_op = register(Op(
    name="all_gather",
    section="AllGather",
    infer=infer_all_gather,
    hlo=Hlo(
        "stablehlo.all_gather",
        {
            "all_gather_dim": I64, "replica_groups": REPLICA_GROUPS, "channel_handle": CHANNEL,
            "use_global_device_ids": GLOBAL_IDS,
        },
        read=read_all_gather,
    ),
    kernel=kernel_all_gather,
    ad=Separate(transpose_all_gather),
    batch=batch_separately("all_gather_dim"),
))  # fmt: skip


def operands_of(operand: Any) -> tuple[list[Tensor], bool]:
    """One operand or several as tensors, and whether they came as a sequence."""
    several = isinstance(operand, tuple) or (
        isinstance(operand, list) and any(isinstance(x, Tensor | np.ndarray) for x in operand)
    )
    xs: list[Tensor] = [lift(x) for x in (operand if several else [operand])]
    require(bool(xs), "X2", "there must be an operand", 0)
    return xs, several


def check_layout(layout: Any, xs: Sequence[Tensor], what: str = "layout") -> None:
    """A layout must order the dimensions; how data lies in memory is the compiler's business."""
    if layout is not None:
        order = as_ints(layout, what, "X3")
        for x in xs:
            rank = x.spec.rank if type(x.spec) is TensorSpec else len(order)
            ok = sorted(order) == list(range(rank))
            require(ok, "X3", f"{what} must list the {rank} dimensions from minor to major", order)


def dimension_of(value: Any, x: Tensor, what: str, label: str) -> int:
    found = as_int(value, what, label)
    spec = x.spec
    return as_axis(found, spec.rank, label) if type(spec) is TensorSpec else found


def all_gather(
    operand: Any,
    all_gather_dimension: int,
    shard_count: int,
    replica_groups: Any = None,
    channel_id: int | None = None,
    layout: Any = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """The arrays of all devices of a group joined, on each of them.

    Parameters
    ----------
    operand : array or sequence of arrays
        A sequence is gathered array by array.
    all_gather_dimension : int
        Along which they are joined, in the order of the group.
    shard_count : int
        How many devices are in each group.
    replica_groups : sequence of sequences of int, optional
        All devices in groups of one size; by default one group of all.
    channel_id : int, optional
        A number above 0 lets partitions take part: groups are of replicas, each with all its partitions. Devices
        meet at operations of one kind and channel.
    layout : sequence of int, optional
        Dimensions from minor to major; it changes no value.
    use_global_device_ids : bool, optional
        Whether groups, with a `channel_id`, are of ``replica * num_partitions + partition``.

    Returns
    -------
    Tensor or tuple of Tensor
        `shard_count` times as large in that dimension; a tuple where `operand` is a sequence.

    Raises
    ------
    ShapeError, DTypeError, ConstraintError
        [C1] to [C5] If operands, dimension and groups do not fit together; [C3] when it is compiled, if the groups do
        not fit the devices.

    Notes
    -----
    Section AllGather of the operation semantics. The transpose is a `reduce_scatter`: the objective of a derivative is
    the sum of what all devices give.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.all_gather(ops.constant([1, 2]), 0, shard_count=1)
    Tensor([1, 2], s32[2])
    """
    xs, several = operands_of(operand)
    check_layout(layout, xs)
    axis = dimension_of(all_gather_dimension, xs[0], "all_gather_dimension", "C1")
    results: tuple[Tensor, ...] = bind(
        all_gather_op,
        *xs,
        all_gather_dim=axis,
        replica_groups=normal_groups(replica_groups),
        channel_id=normal_channel(channel_id),
        use_global_device_ids=normal_flag(use_global_device_ids),
        shard_count=as_int(shard_count, "shard_count", "X1"),
    )
    return results if several else results[0]


# --- AllToAll -----------------------------------------------------------------------------------------------------

_AMONG: Final[Mapping[str, Any]] = {"replica_groups": REPLICA_GROUPS, "channel_handle": CHANNEL}


# No program runs on so many devices.
_MANY: Final = 1 << 20


def infer_all_to_all(
    x: Spec,
    *,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: Groups,
    channel_id: int,
) -> TensorSpec:
    """C1 to C5, C7, C8."""
    require_array(x, "I1")
    assert type(x) is TensorSpec
    check_channel(channel_id, "I6")
    require(
        type(split_count) is int and split_count > 0, "C4", "split_count must be positive", split_count
    )  # fmt: skip
    for label, what, axis in (
        ("C1", "split_dimension", split_dimension), ("C3", "concat_dimension", concat_dimension)
    ):  # fmt: skip
        ok = type(axis) is int and 0 <= axis < x.rank
        require(ok, label, f"{what} must be in [0, {x.rank})", axis)
    require_shape(
        x.shape[split_dimension] < 0 or x.shape[split_dimension] % split_count == 0, "C2",
        f"split_dimension must be a multiple of split_count {split_count}", x.shape[split_dimension],
    )  # fmt: skip
    check_groups(replica_groups, "I5", "C5", "C7")
    ok = bool(replica_groups) and all(len(g) == split_count for g in replica_groups)
    require(ok, "C8", f"each of replica_groups must have split_count {split_count}", replica_groups)
    split = resized(x, split_dimension, 1, split_count, "X1")
    return resized(split, concat_dimension, split_count, 1, "X1")


def settle_all_to_all(
    specs: Sequence[Spec], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """C6."""
    return settled_groups(params, num_replicas, num_partitions, "C6")


@communicating
@settled_by(settle_all_to_all)
def kernel_all_to_all(
    x: Array,
    *,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    channel_id: int,
    replica_groups: Groups,
    out: Any,
    site: Instruction,
) -> Array:
    """Result = concatenate(part of each operand of the group)."""
    group = group_of({"replica_groups": replica_groups, "channel_id": channel_id})
    assert group is not None
    found, own = meet(site, group, channel_id, (x,))
    size = x.shape[split_dimension] // split_count
    chosen = (slice(None),) * split_dimension + (slice(own * size, (own + 1) * size),)
    return np.concatenate([v[chosen] for (v,) in found], concat_dimension)


def transpose_all_to_all(
    c: Any, x: Any, *, split_dimension: int, concat_dimension: int, **params: Any
) -> Any:
    """The parts on their way back."""
    return bind(
        all_to_all_op, c, split_dimension=concat_dimension, concat_dimension=split_dimension, **params
    )  # fmt: skip


def read_all_to_all(reader: Reader, operation: Any) -> Any:
    """Of several operands each goes its own way."""
    params = reader.params(operation, all_to_all_op)
    outs = tuple([bind(all_to_all_op, x, **params) for x in reader.operands(operation)])
    return outs if len(outs) != 1 else outs[0]


def read_tuple_all_to_all(reader: Reader, operation: Any) -> Any:
    """HLO's form of as many arrays as devices, the first one for the first device: they are laid on one another."""
    xs = reader.operands(operation)
    count = len(xs)
    params = {k: c.parse(reader.attribute(operation, k)) for k, c in _AMONG.items()}
    groups = params["replica_groups"] or (tuple(range(count)),)
    rows = [reshaped(x, (1, *x.spec.shape)) for x in xs]
    found = bind(
        all_to_all_op, bind(lookup("concatenate"), *rows, dimension=0), split_dimension=0, concat_dimension=0,
        split_count=count, replica_groups=groups, **params["channel_handle"],
    )  # fmt: skip
    outs = tuple([reshaped(part(found, i), x.spec.shape) for i, x in enumerate(xs)])
    return outs if count != 1 else outs[0]


all_to_all_op = register(Op(
    name="all_to_all",
    section="AllToAll",
    infer=infer_all_to_all,
    hlo=Hlo(
        "stablehlo.all_to_all",
        {"split_dimension": I64, "concat_dimension": I64, "split_count": I64, **_AMONG},
        read=read_all_to_all,
    ),
    kernel=kernel_all_to_all,
    ad=linear(transpose_all_to_all),
    batch=batch_one("split_dimension", "concat_dimension"),
))  # fmt: skip
register_reader("mhlo.all_to_all", read_tuple_all_to_all)


def all_to_all(
    operand: Any,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: Any = None,
    layout: Any = None,
    channel_id: int | None = None,
) -> Any:
    """Each device's array split into parts, one for each device of its group, and what it gets joined.

    Parameters
    ----------
    operand : array or sequence of arrays
        A sequence is exchanged array by array.
    split_dimension : int
        The i-th part along it goes to the i-th device of the group.
    concat_dimension : int
        Along which the parts are joined, in the order of the group.
    split_count : int
        How many devices are in each group.
    replica_groups : sequence of sequences of int, optional
        All replicas in groups of one size; by default one group of all.
    layout : sequence of int, optional
        Dimensions from minor to major; it changes no value.
    channel_id : int, optional
        A number above 0 makes the groups ones of partitions, within each replica.

    Returns
    -------
    Tensor or tuple of Tensor
        A tuple where `operand` is a sequence.

    Raises
    ------
    ShapeError, DTypeError, ConstraintError
        [C1] to [C8] If operand, dimensions and groups do not fit together; [C6] when it is compiled, if the groups do
        not fit the devices.

    Notes
    -----
    Section AllToAll of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.all_to_all(ops.constant([1, 2]), 0, 0, split_count=1)
    Tensor([1, 2], s32[2])
    """
    xs, several = operands_of(operand)
    check_layout(layout, xs)
    count = as_int(split_count, "split_count", "C4")
    require(count < _MANY, "C4", f"split_count must be a number of devices, below {_MANY}", count)
    groups = normal_groups(replica_groups) or (tuple(range(count)),)
    channel = normal_channel(channel_id)
    results = tuple([
        bind(
            all_to_all_op, x, split_dimension=dimension_of(split_dimension, x, "split_dimension", "C1"),
            concat_dimension=dimension_of(concat_dimension, x, "concat_dimension", "C3"), split_count=count,
            replica_groups=groups, channel_id=channel,
        )
        for x in xs
    ])  # fmt: skip
    return results if several else results[0]
