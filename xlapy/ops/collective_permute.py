"""CollectivePermute and CollectiveBroadcast: arrays sent from device to device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.specs import Spec, TensorSpec, require, require_array
from xlapy.trace.codecs import I64_MATRIX
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.process_grid import communicating, settled_by

from .collective_rules import (
    batch_one,
    collective_broadcast_by_permutes,
    transpose_collective_broadcast,
)
from .collectives import operands_of
from .replica_groups import (
    CHANNEL,
    REPLICA_GROUPS,
    Groups,
    Pairs,
    check_channel,
    check_groups,
    check_pairs,
    count_of,
    group_of,
    meet,
    normal_channel,
    normal_groups,
    normal_pairs,
    not_received,
    settled_groups,
    strategy_of,
)
from .rules import linear

__all__ = ["collective_broadcast", "collective_permute"]

Array = np.ndarray[Any, Any]

# --- CollectivePermute --------------------------------------------------------------------------------------------


def infer_collective_permute(x: Spec, *, source_target_pairs: Pairs, channel_id: int) -> TensorSpec:
    """C1 to C4."""
    require_array(x, "I1")
    assert type(x) is TensorSpec
    check_channel(channel_id, "I3")
    check_pairs(source_target_pairs, "I2")
    return x


def settle_collective_permute(
    specs: Sequence[Spec], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """C4."""
    strategy = strategy_of(params)
    count = count_of(strategy, num_replicas, num_partitions)
    kind = "partitions" if strategy == "cross_partition" else "replicas"
    pairs = params["source_target_pairs"]
    require(
        all(n < count for p in pairs for n in p), "C4",
        f"source_target_pairs must be of the program's {kind} (there are {count})", pairs,
    )  # fmt: skip
    return params


@communicating
@settled_by(settle_collective_permute)
def kernel_collective_permute(
    x: Array, *, source_target_pairs: Pairs, channel_id: int, out: Any, site: Instruction
) -> Array:
    """result@target = operand@source; zeros where nothing arrives."""
    group = group_of({"replica_groups": (), "channel_id": channel_id})
    assert group is not None
    found, own = meet(site, group, channel_id, (x,))
    for source, target in source_target_pairs:
        if target == own:
            received: Array = found[source][0]
            return received
    return not_received(x.shape, x.dtype)


def transpose_collective_permute(
    c: Any, x: Any, *, source_target_pairs: Pairs, channel_id: int
) -> Any:
    """What was received, sent back."""
    back = tuple([(b, a) for a, b in source_target_pairs])
    return bind(collective_permute_op, c, source_target_pairs=back, channel_id=channel_id)


collective_permute_op = register(Op(
    name="collective_permute",
    section="CollectivePermute",
    infer=infer_collective_permute,
    hlo=Hlo(
        "stablehlo.collective_permute", {"source_target_pairs": I64_MATRIX, "channel_handle": CHANNEL}
    ),
    kernel=kernel_collective_permute,
    ad=linear(transpose_collective_permute),
    batch=batch_one(),
))  # fmt: skip


def collective_permute(
    operand: Any, source_target_pairs: Any, channel_id: int | None = None
) -> Any:
    """Arrays sent from devices to devices.

    Parameters
    ----------
    operand : array or sequence of arrays
        A sequence is sent array by array.
    source_target_pairs : sequence of (int, int)
        The replicas that send and those that receive, each at most once.
    channel_id : int, optional
        A number above 0 makes the pairs ones of partitions, within each replica.

    Returns
    -------
    Tensor or tuple of Tensor
        What was received; zeros on devices that are not a target. A tuple where `operand` is a sequence.

    Raises
    ------
    DTypeError, ConstraintError
        [C1] to [C4] If the pairs are none, or name a device twice; [C4] when it is compiled, if there is no such
        device.

    Notes
    -----
    Section CollectivePermute of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.collective_permute(ops.constant([1, 2]), [(0, 0)])
    Tensor([1, 2], s32[2])
    >>> ops.collective_permute(ops.constant([1, 2]), [])
    Tensor([0, 0], s32[2])
    """
    xs, several = operands_of(operand)
    pairs = normal_pairs(source_target_pairs, "I2")
    channel = normal_channel(channel_id)
    results = tuple(
        [bind(collective_permute_op, x, source_target_pairs=pairs, channel_id=channel) for x in xs]
    )
    return results if several else results[0]


# --- CollectiveBroadcast ------------------------------------------------------------------------------------------


def infer_collective_broadcast(x: Spec, *, replica_groups: Groups, channel_id: int) -> TensorSpec:
    """C1, C2."""
    require_array(x, "I1")
    assert type(x) is TensorSpec
    check_channel(channel_id, "I3")
    check_groups(replica_groups, "I2", "C1", "C2", covers=False)
    return x


def settle_collective_broadcast(
    specs: Sequence[Spec], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """C2."""
    return settled_groups(params, num_replicas, num_partitions, "C2", covers=False)


@communicating
@settled_by(settle_collective_broadcast)
def kernel_collective_broadcast(
    x: Array, *, replica_groups: Groups, channel_id: int, out: Any, site: Instruction
) -> Array:
    """Result = the operand of the group's first; zeros outside of every group."""
    group = group_of({"replica_groups": replica_groups, "channel_id": channel_id})
    if group is None:
        return not_received(x.shape, x.dtype)
    found, _ = meet(site, group, channel_id, (x,))
    first: Array = found[0][0]
    return first


collective_broadcast_op = register(Op(
    name="collective_broadcast",
    section="CollectiveBroadcast",
    infer=infer_collective_broadcast,
    hlo=Hlo(
        "stablehlo.collective_broadcast", {"replica_groups": REPLICA_GROUPS, "channel_handle": CHANNEL},
        decomposition=collective_broadcast_by_permutes,
    ),
    kernel=kernel_collective_broadcast,
    ad=linear(transpose_collective_broadcast),
    batch=batch_one(),
))  # fmt: skip


def collective_broadcast(
    operand: Any, replica_groups: Any = None, channel_id: int | None = None
) -> Any:
    """The array of a group's first device, on all of the group.

    Parameters
    ----------
    operand : array or sequence of arrays
        A sequence is sent array by array.
    replica_groups : sequence of sequences of int, optional
        Not every device need be in one; by default one group of all.
    channel_id : int, optional
        A number above 0 makes the groups ones of partitions, within each replica.

    Returns
    -------
    Tensor or tuple of Tensor
        Zeros on devices that are in no group. A tuple where `operand` is a sequence.

    Raises
    ------
    DTypeError, ConstraintError
        [C1], [C2] If the groups are none, or name a device twice; [C2] when it is compiled, if there is no such
        device.

    Notes
    -----
    Section CollectiveBroadcast of the operation semantics. XLA on CPU has none; there it is made of permutes. A
    derivative needs the groups written out.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.collective_broadcast(ops.constant([1, 2]), [[0]])
    Tensor([1, 2], s32[2])
    """
    xs, several = operands_of(operand)
    groups, channel = normal_groups(replica_groups), normal_channel(channel_id)
    results = tuple(
        [bind(collective_broadcast_op, x, replica_groups=groups, channel_id=channel) for x in xs]
    )
    return results if several else results[0]
