"""Cases of the collectives on one device, which is a group of its own; several are in tests/ops/test_collectives.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, body
from cases.reduction import element_type
from cases.values import EIGHT_BITS, numpy_dtype
from xlapy import ops
from xlapy.ops.scalar_bodies import scalar_operation

ONE = ((0,),)
#: devices named by replica, by replica with all partitions, and by both at once
WAYS: dict[str, dict[str, Any]] = {
    "replicas": {"replica_groups": ONE, "channel_id": 0, "use_global_device_ids": False},
    "all": {"replica_groups": (), "channel_id": 0, "use_global_device_ids": False},
    "both": {"replica_groups": ONE, "channel_id": 7, "use_global_device_ids": False},
    "flattened": {"replica_groups": ONE, "channel_id": 1, "use_global_device_ids": True},
}
#: of the operations that know no global ids
MOVES: dict[str, dict[str, Any]] = {
    "replicas": {"replica_groups": ONE, "channel_id": 0},
    "partitions": {"replica_groups": ONE, "channel_id": 3},
    "all": {"replica_groups": (), "channel_id": 0},
}
NO_GROUPS = {"reference": "StableHLO's interpreter finds no group where none is written"}
TO_ITSELF = {"reference": "StableHLO's interpreter waits for two devices where one sends to itself"}
FAILS: dict[str, dict[str, str]] = {
    way: {} if p["replica_groups"] else NO_GROUPS for way, p in WAYS.items()
}
#: of which several are in a byte of memory, as far as XLA's copies know
PACKED = ("s2", "u2", "s4", "u4", "f4e2m1fn")
KINDS = ("pred", "s2", "s4", "s8", "u64", "bf16", "f8e4m3fn", "f4e2m1fn", "f32", "c64")


def gather(*operands: Any, axis: int = 0, way: str = "replicas", **more: Any) -> OpCase:
    """An all_gather."""
    params = {"all_gather_dim": axis, "shard_count": 1, **WAYS[way]}
    name = f"{way}_{axis}_{'_'.join(map(str, operands))}"
    return OpCase("all_gather", operands, params, **{"name": name, "xfail": FAILS[way], **more})


def reduce(name: str, operands: Sequence[Any], function: Callable[..., Any], way: str = "replicas",
           **more: Any) -> OpCase:  # fmt: skip
    """An all_reduce."""
    scalar = f"{element_type(operands[0])}[]"
    params = {"computation": body(function, scalar, scalar), **WAYS[way]}
    return OpCase(
        "all_reduce", operands, params, **{"name": f"{way}_{name}", "xfail": FAILS[way], **more}
    )


def scatter(name: str, operand: Any, function: Callable[..., Any], axis: int = 0, way: str = "replicas",
            **more: Any) -> OpCase:  # fmt: skip
    """A reduce_scatter."""
    scalar = f"{element_type(operand)}[]"
    params = {
        "computation": body(function, scalar, scalar),
        "scatter_dimension": axis,
        "shard_count": 1,
        **WAYS[way],
    }
    return OpCase(
        "reduce_scatter",
        [operand],
        params,
        **{"name": f"{way}_{name}", "xfail": FAILS[way], **more},
    )


def to_all(
    operand: str, split: int = 0, concat: int = 0, way: str = "replicas", **more: Any
) -> OpCase:
    """An all_to_all."""
    params = {"split_dimension": split, "concat_dimension": concat, "split_count": 1, **MOVES[way]}
    return OpCase(
        "all_to_all", [operand], params, **{"name": f"{way}_{split}{concat}_{operand}", **more}
    )


def permute(operand: str, pairs: Any, channel_id: int = 0, **more: Any) -> OpCase:
    """A collective_permute."""
    params = {"source_target_pairs": pairs, "channel_id": channel_id}
    given = {"name": f"{channel_id}_{len(pairs)}_{operand}", "skip": TO_ITSELF if pairs else {}}
    return OpCase("collective_permute", [operand], params, **given, **more)


def broadcast(operand: str, way: str = "replicas", **more: Any) -> OpCase:
    """A collective_broadcast."""
    return OpCase(
        "collective_broadcast", [operand], MOVES[way], **{"name": f"{way}_{operand}", **more}
    )


def ragged(name: str, x: Any, output: Any, starts: Any, sizes: Any, targets: Any, way: str = "replicas",
           dtype: str = "s32", **more: Any) -> OpCase:  # fmt: skip
    """A ragged_all_to_all."""
    where = [np.array(w, numpy_dtype(dtype)) for w in (starts, sizes, targets, sizes)]
    return OpCase(
        "ragged_all_to_all",
        [x, output, *where],
        MOVES[way],
        **{"name": f"{way}_{name}", "wrt": (0, 1), **more},
    )


def larger(a: Any, b: Any) -> Any:
    """The number of the larger absolute value."""
    return ops.select(ops.gt(ops.abs(b), ops.abs(a)), b, a)


def half(a: Any, b: Any) -> Any:
    """What has no name: a + b + a b."""
    return ops.add(ops.add(a, b), ops.mul(a, b))


LINES = ("replicas", "partitions")
ROLLED = {"vmap": "rolled sizes fit no receiver; see tests/ops/test_collectives.py"}

CASES: list[OpCase] = [
    *[gather("f64[2,3]", axis=axis, way=way) for way in WAYS for axis in (0, 1)],
    *[gather(f"{k}[2,3]", tol=0.0) for k in KINDS],
    *[gather(f"{k}[3,25]", way=way, tol=0.0) for k in PACKED for way in WAYS],
    *[to_all(f"{k}[3,25]", 0, 1, way, tol=0.0) for k in PACKED for way in LINES],
    *[permute(f"{k}[3,25]", pairs, channel, tol=0.0)
      for k in PACKED for pairs in (((0, 0),), ()) for channel in (0, 2)],
    *[broadcast(f"{k}[3,25]", way, tol=0.0) for k in PACKED for way in LINES],
    *[reduce(f"add_{k}", [f"{k}[3,25]"], ops.add, way)
      for k in (*PACKED, *EIGHT_BITS) for way in ("both", "flattened")],
    *[reduce(f"several_{k}", [f"{k}[3,25]", f"{k}[2]"], ops.max, "flattened") for k in (*PACKED, *EIGHT_BITS)],
    *[scatter(f"max_{k}", f"{k}[3,25]", ops.max, 1, "flattened") for k in (*PACKED, *EIGHT_BITS)],
    gather("f64[2,3]", "f64[4]", "s32[1,0]", axis=0),
    gather("f32[2,0]"),
    *[reduce("add", ["f64[2,3]"], ops.add, way) for way in WAYS],
    *[reduce(f"add_{k}", [f"{k}[2,3]"], ops.add) for k in KINDS],
    reduce("mul", ["f64[2,3]"], ops.mul),
    reduce("max", ["f64[2,3]"], ops.max),
    reduce("min", ["f64[2,3]"], ops.min),
    reduce("max_s16", ["s16[2,3]"], ops.max, tol=0.0),
    reduce("max_nan", [np.array([np.nan, -0.0, np.inf], np.float32)], ops.max, tol=0.0),
    reduce("max_c64", ["c64[3]"], ops.max),
    reduce("and", ["u8[5]"], ops.and_, tol=0.0),
    reduce("xor", ["pred[5]"], ops.xor, tol=0.0),
    reduce("larger", ["f64[2,3]"], larger),
    reduce("half_f64", ["f64[2,3]"], half, "flattened"),
    reduce("several", ["f64[2,3]", "f64[]", "f64[0]"], ops.add),
    reduce("several_max", ["f64[2,3]", "f64[4]"], ops.max),
    reduce("several_half", ["f64[2]", "f64[4]"], half),
    *[scatter(f"add_{axis}", "f64[2,3]", ops.add, axis, way) for way in WAYS for axis in (0, 1)],
    *[scatter(f"add_{k}", f"{k}[2,3]", ops.add) for k in KINDS],
    scatter("max", "f64[2,3]", ops.max),
    scatter("min", "f64[2,3]", ops.min, 1),
    scatter("half", "f64[2,3]", half, 1),
    scatter("xor", "u8[5]", ops.xor, tol=0.0),
    *[to_all("f64[2,3,4]", split, concat, way) for way in LINES for split, concat in ((0, 0), (0, 2), (2, 1))],
    *[to_all(f"{k}[2,3]", 1, 0, tol=0.0) for k in KINDS],
    permute("f64[2,3]", ((0, 0),)),
    permute("f64[2,3]", ((0, 0),), 2),
    permute("f64[2,3]", ()),
    *[permute(f"{k}[2,3]", ((0, 0),), tol=0.0) for k in KINDS],
    *[broadcast("f64[2,3]", way) for way in LINES],
    *[broadcast(f"{k}[2,3]", tol=0.0) for k in KINDS],
    broadcast("f32[]"),
    broadcast("f32[2]", "all", xfail=NO_GROUPS),
    ragged("piece", "f64[4,2]", "f64[6,2]", [1], [2], [3]),
    ragged("vector", "f64[4]", "f64[6]", [1], [2], [3], "partitions"),
    ragged("updates", "f64[4,2]", "f64[6,2]", [[1, 0, 3]], [[2, 1, 1]], [[3, 0, 1]], skip=ROLLED),
    ragged("overlap", "f64[4]", "f64[6]", [[1, 1]], [[2, 3]], [[3, 0]], skip=ROLLED),
    ragged("whole", "f64[3]", "f64[3]", [0], [3], [0]),
    ragged("nothing", "f64[3]", "f64[2]", [3], [0], [2]),
    ragged("empty", "f64[0,2]", "f64[2,2]", [0], [0], [0], dtype="s64"),
    ragged("to_nothing", "f64[2,2]", "f64[0,2]", [0], [0], [0], dtype="s64"),
    ragged("u8", "s4[200]", "s4[250]", [[150]], [[40]], [[200]], dtype="u8", tol=0.0),
    ragged("c64", "c64[4]", "c64[6]", [1], [2], [3], dtype="s8"),
    OpCase("replica_id", []),
    OpCase("partition_id", []),
]  # fmt: skip

ADD = scalar_operation("add", ops.constant(0.0).dtype)
SUM = {"computation": ADD, **WAYS["replicas"]}
GATHER = {"all_gather_dim": 0, "shard_count": 1, **WAYS["replicas"]}
SCATTER = {"scatter_dimension": 0, "shard_count": 1, **SUM}
TO_ALL = {"split_dimension": 0, "concat_dimension": 0, "split_count": 1, **MOVES["replicas"]}
PERMUTE = {"source_target_pairs": ((0, 0),), "channel_id": 0}
TWICE, GAP, UNEVEN = ((0, 1), (1,)), ((0, 3),), ((0, 1), (2,))
GLOBAL = {"channel_id": 0, "use_global_device_ids": True}
RAGGED = ["f32[4]", "f32[6]", "s32[1]", "s32[1]", "s32[1]", "s32[1]"]
X = ["f32[4]"]
EMPTY = ((0,), ())

ERRORS: list[ErrorCase] = [
    ErrorCase("all_gather", ["token[]"], GATHER, "I1", "array"),
    ErrorCase("all_gather", [], GATHER, "X2", "operand"),
    ErrorCase("all_gather", ["f32[<=4]"], GATHER, "X2", "known"),
    ErrorCase("all_gather", ["f32[0]"], GATHER, "X2", "empty"),
    ErrorCase("all_gather", X, GATHER | {"channel_id": -1}, "I4", "channel_id"),
    ErrorCase("all_gather", X, GATHER | {"channel_id": 2**63}, "I4", "channel_id"),
    ErrorCase("all_gather", X, GATHER | {"all_gather_dim": 1}, "C1", "all_gather_dim"),
    ErrorCase("all_gather", ["f32[4]", "f32[]"], GATHER, "C1", "all_gather_dim"),
    ErrorCase("all_gather", X, GATHER | {"replica_groups": TWICE}, "C2", "unique"),
    ErrorCase("all_gather", X, GATHER | {"replica_groups": GAP}, "C4", "below 2"),
    ErrorCase("all_gather", X, GATHER | {"replica_groups": EMPTY}, "I3", "non-empty"),
    ErrorCase("all_gather", X, GATHER | GLOBAL, "C5", "channel_id"),
    ErrorCase("all_gather", X, GATHER | {"use_global_device_ids": 1}, "I5", "bool"),
    ErrorCase("all_gather", X, GATHER | {"replica_groups": UNEVEN}, "X1", "one size"),
    ErrorCase("all_gather", X, GATHER | {"shard_count": 0}, "X1", "positive"),
    ErrorCase("all_gather", X, GATHER | {"shard_count": 2}, "X1", "shard_count"),
    ErrorCase("all_gather", X, GATHER | {"replica_groups": ((0, 1),), "shard_count": 3, "channel_id": 1}, "X1",
              "multiple"),
    ErrorCase("all_reduce", ["token[]"], SUM, "I1", "array"),
    ErrorCase("all_reduce", X, SUM | {"channel_id": -1}, "I3", "channel_id"),
    ErrorCase("all_reduce", [], SUM, "X2", "operand"),
    ErrorCase("all_reduce", X, SUM | {"replica_groups": TWICE}, "C1", "unique"),
    ErrorCase("all_reduce", X, SUM | {"replica_groups": GAP}, "C3", "below 2"),
    ErrorCase("all_reduce", X, SUM | {"replica_groups": EMPTY}, "I2", "non-empty"),
    ErrorCase("all_reduce", X, SUM | {"use_global_device_ids": None}, "I4", "bool"),
    ErrorCase("all_reduce", X, SUM | GLOBAL, "C4", "channel_id"),
    ErrorCase("all_reduce", ["f32[4]", "f64[4]"], SUM, "C5", "computation"),
    ErrorCase("all_reduce", X, SUM | {"computation": body(ops.add, "f64[]", "f64[]")}, "C5", "take"),
    ErrorCase("all_reduce", X, SUM | {"computation": body(ops.lt, "f32[]", "f32[]")}, "C5", "give"),
    ErrorCase("all_reduce", X, SUM | {"computation": None}, "I5", "Computation"),
    ErrorCase("all_to_all", ["token[]"], TO_ALL, "I1", "array"),
    ErrorCase("all_to_all", X, TO_ALL | {"channel_id": -1}, "I6", "channel_id"),
    ErrorCase("all_to_all", X, TO_ALL | {"split_dimension": 1}, "C1", "split_dimension"),
    ErrorCase("all_to_all", ["f32[3]"], TO_ALL | {"split_count": 2, "replica_groups": ((0, 1),)}, "C2", "multiple"),
    ErrorCase("all_to_all", X, TO_ALL | {"concat_dimension": -1}, "C3", "concat_dimension"),
    ErrorCase("all_to_all", X, TO_ALL | {"split_count": 0}, "C4", "positive"),
    ErrorCase("all_to_all", X, TO_ALL | {"split_count": 2, "replica_groups": ((0, 0),)}, "C5", "unique"),
    ErrorCase("all_to_all", X, TO_ALL | {"split_count": 2, "replica_groups": GAP}, "C7", "below 2"),
    ErrorCase("all_to_all", X, TO_ALL | {"replica_groups": [(0,)]}, "I5", "non-empty"),
    ErrorCase("all_to_all", X, TO_ALL | {"split_count": 2}, "C8", "split_count"),
    ErrorCase("all_to_all", X, TO_ALL | {"replica_groups": ()}, "C8", "split_count"),
    ErrorCase("all_to_all", ["f32[<=4]"], TO_ALL, "X1", "known"),
    ErrorCase("collective_broadcast", ["token[]"], MOVES["replicas"], "I1", "array"),
    ErrorCase("collective_broadcast", X, {"replica_groups": TWICE, "channel_id": 0}, "C1", "unique"),
    ErrorCase("collective_broadcast", X, {"replica_groups": ((0, -1),), "channel_id": 0}, "C2", "negative"),
    ErrorCase("collective_broadcast", X, {"replica_groups": ((0.0,),), "channel_id": 0}, "I2", "integers"),
    ErrorCase("collective_broadcast", X, {"replica_groups": ONE, "channel_id": -1}, "I3", "channel_id"),
    ErrorCase("collective_permute", ["token[]"], PERMUTE, "I1", "array"),
    ErrorCase("collective_permute", X, PERMUTE | {"source_target_pairs": [(0, 0)]}, "I2", "tuples"),
    ErrorCase("collective_permute", X, PERMUTE | {"channel_id": -1}, "I3", "channel_id"),
    ErrorCase("collective_permute", X, PERMUTE | {"source_target_pairs": ((0, 1, 2),)}, "C1", "two"),
    ErrorCase("collective_permute", X, PERMUTE | {"source_target_pairs": ((0, 1), (0, 2))}, "C2", "sources"),
    ErrorCase("collective_permute", X, PERMUTE | {"source_target_pairs": ((0, 1), (2, 1))}, "C3", "targets"),
    ErrorCase("collective_permute", X, PERMUTE | {"source_target_pairs": ((-1, 0),)}, "C4", "sources"),
    ErrorCase("collective_permute", X, PERMUTE | {"source_target_pairs": ((0, -1),)}, "C4", "targets"),
    ErrorCase("reduce_scatter", ["token[]"], SCATTER, "I1", "array"),
    ErrorCase("reduce_scatter", X, SCATTER | {"channel_id": -1}, "I4", "channel_id"),
    ErrorCase("reduce_scatter", ["f32[3]"], SCATTER | {"shard_count": 2, "replica_groups": ()}, "C1", "multiple"),
    ErrorCase("reduce_scatter", X, SCATTER | {"scatter_dimension": 1}, "C2", "scatter_dimension"),
    ErrorCase("reduce_scatter", X, SCATTER | {"replica_groups": TWICE}, "C3", "unique"),
    ErrorCase("reduce_scatter", X, SCATTER | {"replica_groups": GAP}, "C5", "below 2"),
    ErrorCase("reduce_scatter", X, SCATTER | {"replica_groups": None}, "I3", "non-empty"),
    ErrorCase("reduce_scatter", X, SCATTER | {"use_global_device_ids": 0}, "I5", "bool"),
    ErrorCase("reduce_scatter", X, SCATTER | {"computation": ops.add}, "I6", "Computation"),
    ErrorCase("reduce_scatter", X, SCATTER | GLOBAL, "C6", "channel_id"),
    ErrorCase("reduce_scatter", ["f64[4]"], SCATTER, "C7", "computation"),
    ErrorCase("reduce_scatter", X, SCATTER | {"replica_groups": UNEVEN}, "X1", "one size"),
    ErrorCase("reduce_scatter", X, SCATTER | {"shard_count": 2}, "X1", "shard_count"),
    ErrorCase("reduce_scatter", ["f32[<=4]"], SCATTER, "X2", "known"),
    ErrorCase("reduce_scatter", ["f32[0]"], SCATTER, "X2", "empty"),
    ErrorCase("ragged_all_to_all", ["token[]", *RAGGED[1:]], MOVES["replicas"], "X1", "array"),
    ErrorCase("ragged_all_to_all", ["f64[4]", *RAGGED[1:]], MOVES["replicas"], "X1", "type"),
    ErrorCase("ragged_all_to_all", ["f32[4,2]", *RAGGED[1:]], MOVES["replicas"], "X1", "shape"),
    ErrorCase("ragged_all_to_all", ["f32[]", "f32[]", *RAGGED[2:]], MOVES["replicas"], "X1", "shape"),
    ErrorCase("ragged_all_to_all", [*RAGGED[:5], "token[]"], MOVES["replicas"], "X2", "array"),
    ErrorCase("ragged_all_to_all", [*RAGGED[:5], "s64[1]"], MOVES["replicas"], "X2", "one type"),
    ErrorCase("ragged_all_to_all", [*RAGGED[:2], *["f32[1]"] * 4], MOVES["replicas"], "X2", "integers"),
    ErrorCase("ragged_all_to_all", [*RAGGED[:2], *["s32[1,1,1]"] * 4], MOVES["replicas"], "X2", "num_devices"),
    ErrorCase("ragged_all_to_all", [*RAGGED[:2], *["s32[2]"] * 4], MOVES["replicas"], "X3", "as many"),
    ErrorCase("ragged_all_to_all", RAGGED, {"replica_groups": TWICE, "channel_id": 0}, "X3", "unique"),
    ErrorCase("ragged_all_to_all", RAGGED, {"replica_groups": ONE, "channel_id": -1}, "X4", "channel_id"),
]  # fmt: skip
