"""Which devices take part in a collective together: groups of replicas, of partitions, or of both."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np

from xlapy.errors import BackendError, UnsupportedOpError
from xlapy.specs import as_int, as_ints, require, require_dtype
from xlapy.trace.codecs import I64_MATRIX, Group, Simple
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import annotate
from xlapy.trace.process_grid import Place, current_process

__all__ = [
    "CHANNEL",
    "GLOBAL_IDS",
    "REPLICA_GROUPS",
    "check_channel",
    "check_groups",
    "check_ids_are_global",
    "check_pairs",
    "count_of",
    "group_of",
    "group_size",
    "meet",
    "normal_channel",
    "normal_flag",
    "normal_groups",
    "normal_pairs",
    "not_received",
    "settled_groups",
    "strategy_of",
]

Groups: TypeAlias = tuple[tuple[int, ...], ...]
Pairs: TypeAlias = tuple[tuple[int, int], ...]

# --- spelling -----------------------------------------------------------------------------------------------------


def _print_groups(groups: Groups) -> str:
    if not groups:
        return "dense<> : tensor<0x0xi64>"
    # Groups of several sizes are filled up.
    width = max(map(len, groups))
    text: str | None = I64_MATRIX.print([(*g, *[-1] * (width - len(g))) for g in groups])
    assert text is not None
    return text


def _parse_groups(text: str) -> Groups:
    rows = [tuple([n for n in row if n != -1]) for row in I64_MATRIX.parse(text)]
    return tuple([r for r in rows if r])


#: groups of ids; empty for one group of all
REPLICA_GROUPS: Final = Simple(_print_groups, _parse_groups, default=())


@final
class _ChannelHandle:
    """The number of a channel between devices; 0 is none."""

    __slots__ = ()

    def print(self, value: Mapping[str, Any]) -> str | None:
        """The attribute's text."""
        number = value["channel_id"]
        return f"#stablehlo.channel_handle<handle = {number}, type = 1>" if number else None

    def parse(self, attribute: Any) -> dict[str, Any]:
        """The number."""
        if attribute is None:
            return {"channel_id": 0}
        text = str(attribute).split("handle = ", 1)[1]
        return {"channel_id": max(int(text.split(",")[0].rstrip("> ")), 0)}


CHANNEL: Final = Group(("channel_id",), _ChannelHandle())


@final
class _GlobalIds:
    """Unit, and only beside groups: the spelling."""

    __slots__ = ()

    def print(self, value: Mapping[str, Any]) -> str | None:
        """The attribute's text."""
        if not value["use_global_device_ids"]:
            return None
        if not value["replica_groups"]:  # which stand for all devices otherwise
            raise UnsupportedOpError(
                "replica_groups must be written out for use_global_device_ids in StableHLO; got () [X6]\n"
                "  xlapy.replicate does so for the number of devices that it is given"
            )
        return "unit"

    def parse(self, attribute: Any) -> dict[str, Any]:
        """Whether it is there."""
        return {"use_global_device_ids": attribute is not None}


GLOBAL_IDS: Final = Group(("use_global_device_ids",), _GlobalIds())

# --- arguments ----------------------------------------------------------------------------------------------------


def normal_groups(replica_groups: Any) -> Groups:
    """Groups as tuples."""
    if replica_groups is None:
        return ()
    require_dtype(
        isinstance(replica_groups, list | tuple | np.ndarray), "X1",
        "replica_groups must be a sequence of sequences of ids", replica_groups,
    )  # fmt: skip
    return tuple([as_ints(g, "each of replica_groups", "X1") for g in replica_groups])


def normal_pairs(source_target_pairs: Any, label: str) -> Pairs:
    """Pairs as tuples."""
    require_dtype(
        isinstance(source_target_pairs, list | tuple | np.ndarray), label,
        "source_target_pairs must be a sequence of pairs of ids", source_target_pairs,
    )  # fmt: skip
    found: Any = [as_ints(p, "each of source_target_pairs", label) for p in source_target_pairs]
    return tuple(found)


def normal_channel(channel_id: Any) -> int:
    """A channel's number; 0 for none."""
    return 0 if channel_id is None else as_int(channel_id, "channel_id", "X1")


def normal_flag(use_global_device_ids: Any) -> Any:
    """False for none; what is no flag is refused with the operation."""
    return False if use_global_device_ids is None else use_global_device_ids


# --- checks -------------------------------------------------------------------------------------------------------


def check_channel(channel_id: int, label: str) -> None:
    """A channel is a number of 63 bits."""
    require(
        type(channel_id) is int and 0 <= channel_id < 2**63, label, "channel_id must be in [0, 2**63)", channel_id
    )  # fmt: skip


def check_ids_are_global(
    channel_id: int, use_global_device_ids: bool, own: str, label: str
) -> None:
    """Global ids need a channel; `own` is the label of the flag itself."""
    require_dtype(
        type(use_global_device_ids) is bool, own, "use_global_device_ids must be a bool", use_global_device_ids
    )  # fmt: skip
    require(
        channel_id > 0 or not use_global_device_ids, label, "channel_id must be above 0 for use_global_device_ids",
        channel_id,
    )  # fmt: skip


def check_groups(
    groups: Groups, own: str, unique: str, ids: str, *, covers: bool = True, one_size: str = ""
) -> None:
    """What holds of groups whatever the grid.

    Parameters
    ----------
    groups : tuple of tuples of int
    own, unique, ids : str
        The labels of the groups themselves, of uniqueness, and of the range of the ids.
    covers : bool
        Whether every device must be in a group.
    one_size : str
        The label of the groups being of one size; empty if they need not be.
    """
    ok = type(groups) is tuple and all(
        type(g) is tuple and g and all(type(n) is int for n in g) for g in groups
    )
    require_dtype(ok, own, "replica_groups must be non-empty tuples of integers", groups)
    flat = [n for g in groups for n in g]
    require(len(set(flat)) == len(flat), unique, "replica_groups must be unique", groups)
    if covers:
        size = len(flat)
        ok = all(0 <= n < size for n in flat)
        require(ok, ids, f"replica_groups must hold the ids below {size}, each once", groups)
    else:
        require(all(n >= 0 for n in flat), ids, "replica_groups must not be negative", groups)
    if one_size:
        sizes = {len(g) for g in groups}
        require(len(sizes) < 2, one_size, "replica_groups must be of one size", groups)


def check_pairs(pairs: Pairs, own: str) -> None:
    """What holds of pairs whatever the grid: C1 to C4; `own` is the label of the pairs themselves."""
    ok = type(pairs) is tuple and all(
        type(p) is tuple and all(type(n) is int for n in p) for p in pairs
    )
    require_dtype(ok, own, "source_target_pairs must be tuples of two integers", pairs)
    require(all(len(p) == 2 for p in pairs), "C1", "each of source_target_pairs must be two", pairs)
    for label, what, ids in (
        ("C2", "sources", [p[0] for p in pairs]), ("C3", "targets", [p[1] for p in pairs])
    ):  # fmt: skip
        require(len(set(ids)) == len(ids), label, f"the {what} must be unique", ids)
        require(all(n >= 0 for n in ids), "C4", f"the {what} must not be negative", ids)


# --- strategies ---------------------------------------------------------------------------------------------------


def strategy_of(params: Mapping[str, Any]) -> str:
    """StableHLO's name for how the ids in the groups name devices.

    ``cross_replica``: replicas, within each partition by itself. ``cross_partition``: partitions, within each
    replica. ``cross_replica_and_partition``: replicas, with all their partitions. ``flattened_ids``: both at once, as
    ``replica * num_partitions + partition``.
    """
    has_channel = params["channel_id"] > 0
    if "use_global_device_ids" not in params:
        return "cross_partition" if has_channel else "cross_replica"
    if not has_channel:
        return "cross_replica"
    return "flattened_ids" if params["use_global_device_ids"] else "cross_replica_and_partition"


def count_of(strategy: str, num_replicas: int, num_partitions: int) -> int:
    """How many ids there are."""
    if strategy == "cross_partition":
        return num_partitions
    return num_replicas * num_partitions if strategy == "flattened_ids" else num_replicas


def group_size(params: Mapping[str, Any]) -> int | None:
    """How many devices are in each group, where the parameters say so."""
    groups = params["replica_groups"]
    if not groups or strategy_of(params) == "cross_replica_and_partition":
        return None
    sizes = {len(g) for g in groups}
    return sizes.pop() if len(sizes) == 1 else None


def settled_groups(
    params: Mapping[str, Any],
    num_replicas: int,
    num_partitions: int,
    size: str,
    *,
    covers: bool = True,
) -> Mapping[str, Any]:
    """The parameters with the groups written out for a grid.

    Replicas with all their partitions are named by global ids, for StableHLO and XLA order them differently: StableHLO
    takes the first partition of each replica before the second ones.

    Parameters
    ----------
    params : mapping
    num_replicas, num_partitions : int
    size : str
        The label of the number of ids.
    covers : bool
        Whether every device must be in a group.
    """
    strategy = strategy_of(params)
    count = count_of(strategy, num_replicas, num_partitions)
    groups: Groups = params["replica_groups"]
    given = [n for g in groups for n in g]
    kind = {"cross_partition": "partitions", "flattened_ids": "devices"}.get(strategy, "replicas")
    if covers:
        require(
            not groups or len(given) == count, size, f"replica_groups must name each of the program's {kind} "
            f"(there are {count})", groups,
        )  # fmt: skip
    else:
        require(
            all(n < count for n in given), size, f"replica_groups must be of the program's {kind} (there are {count})",
            groups,
        )  # fmt: skip
    if not groups:
        groups = (tuple(range(count)),)
    if strategy == "cross_replica_and_partition" and num_partitions > 1:
        flat = tuple(
            [tuple([r * num_partitions + p for p in range(num_partitions) for r in g]) for g in groups]
        )  # fmt: skip
        return {**params, "replica_groups": flat, "use_global_device_ids": True}
    if groups is params["replica_groups"]:
        return params
    return {**params, "replica_groups": groups}


@functools.lru_cache(maxsize=256)
def _process_groups(
    strategy: str, groups: Groups, num_replicas: int, num_partitions: int
) -> dict[Place, tuple[Place, ...]]:
    """The group of each process that is in one."""
    made: list[list[Place]] = []
    for group in groups:
        if strategy == "cross_replica":
            made += [[(r, p) for r in group] for p in range(num_partitions)]
        elif strategy == "cross_partition":
            made += [[(r, p) for p in group] for r in range(num_replicas)]
        elif strategy == "flattened_ids":
            made.append([divmod(n, num_partitions) for n in group])
        else:
            made.append([(r, p) for p in range(num_partitions) for r in group])
    return {place: tuple(group) for group in made for place in group}


def group_of(params: Mapping[str, Any]) -> tuple[Place, ...] | None:
    """The group that the process which runs is in; None if it is in none."""
    process = current_process()
    grid = process.num_replicas, process.num_partitions
    strategy = strategy_of(params)
    groups = params["replica_groups"] or (tuple(range(count_of(strategy, *grid))),)
    return _process_groups(strategy, groups, *grid).get(process.place)


def not_received(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """What a device gets that nobody sends to: zeros; nan in f8e8m0fnu, which has no zero."""
    return np.zeros(shape, np.float32).astype(dtype)


def meet(
    site: Instruction, group: Sequence[Place], channel_id: int, arrays: tuple[Any, ...]
) -> tuple[Sequence[tuple[Any, ...]], int]:
    """The arrays of each process of a group, and the own place in it.

    Raises
    ------
    BackendError
        If arrays differ in shape or type: processes met at different instructions of one channel.
    """
    process = current_process()
    found = process.exchange(site, channel_id, group, arrays)
    own = [(a.shape, a.dtype) for a in arrays]
    for values in found:
        if values is not arrays and [(a.shape, a.dtype) for a in values] != own:
            what = "devices that meet must bring arrays of the same types"
            got = [[f"{a.dtype.name}{list(a.shape)}" for a in v] for v in found]
            error = BackendError(f"{what}; got {got} [X1]")
            specs = [v.spec for v in site.operands]
            raise annotate(error, site.op.name, specs, site.source)
    return found, group.index(process.place)
