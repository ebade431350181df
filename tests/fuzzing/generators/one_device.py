"""What has to do with devices, tokens and bit generators, on one device, where nothing moves and runs agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.draft import Draft, Unfit
from fuzzing.values import DTYPES
from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.errors import XlapyError
from xlapy.specs import TensorSpec
from xlapy.trace.op import registry

from .reduction import body_of, fold_of
from .table import generates

ONE = ((0,),)


def groups(draft: Draft, *, globally: bool = False) -> dict[str, Any]:
    """The ways to name the one device."""
    way: dict[str, Any] = {
        "replica_groups": draft.choose([ONE, ONE, ()]),
        "channel_id": draft.choose([0, 0, 1, 7]),
    }
    if globally:
        way["use_global_device_ids"] = False
        if way["channel_id"] and draft.chance(0.5):
            way.update(replica_groups=ONE, use_global_device_ids=True)
    return way


def filled(draft: Draft, **wanted: Any) -> Any:
    """A tensor that is not empty, which collectives want."""
    x = draft.tensor(**wanted)
    if not x.spec.size:
        raise Unfit
    return x


@generates("all_gather", weight=0.8)
def all_gather(draft: Draft, name: str) -> Any:
    operands = [filled(draft, least=1) for _ in range(draft.choose([1, 1, 2]))]
    axis = draft.integer(0, min(x.spec.rank for x in operands) - 1)
    return draft.bind(
        name, *operands, all_gather_dim=axis, shard_count=1, **groups(draft, globally=True)
    )


@generates("all_reduce", weight=0.8)
def all_reduce(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    operands = [x] if draft.chance(0.7) else [x, draft.tensor(dtype=x.spec.dtype)]
    body = _fold(draft, x)
    return draft.bind(name, *operands, computation=body, **groups(draft, globally=True))


def _fold(draft: Draft, x: Any) -> Any:
    if draft.chance(0.8):
        return fold_of(draft, [x.spec.dtype])[0]
    # On one device it is never applied.
    return body_of(draft, [x.spec.dtype] * 2, lambda inner, a, b: ops.select(ops.eq(a, b), a, b))


@generates("reduce_scatter", weight=0.8)
def reduce_scatter(draft: Draft, name: str) -> Any:
    x = filled(draft, least=1)
    return draft.bind(
        name, x, computation=_fold(draft, x), scatter_dimension=draft.integer(0, x.spec.rank - 1),
        shard_count=1, **groups(draft, globally=True),
    )  # fmt: skip


@generates("all_to_all", weight=0.8)
def all_to_all(draft: Draft, name: str) -> Any:
    x = draft.tensor(least=1)
    split, concat = (draft.integer(0, x.spec.rank - 1) for _ in range(2))
    return draft.bind(
        name, x, split_dimension=split, concat_dimension=concat, split_count=1, replica_groups=ONE,
        channel_id=draft.choose([0, 3]),
    )  # fmt: skip


@generates("collective_permute", weight=0.8)
def collective_permute(draft: Draft, name: str) -> Any:
    """To itself, or nobody sends, which gives zeros."""
    return draft.bind(
        name, draft.tensor(), source_target_pairs=draft.choose([((0, 0),), ((0, 0),), ()]),
        channel_id=draft.choose([0, 2]),
    )  # fmt: skip


@generates("collective_broadcast", weight=0.8)
def collective_broadcast(draft: Draft, name: str) -> Any:
    return draft.bind(name, draft.tensor(), replica_groups=ONE, channel_id=draft.choose([0, 2]))


@generates("ragged_all_to_all", weight=0.8)
def ragged_all_to_all(draft: Draft, name: str) -> Any:
    """A piece of one array in the place of a piece of another one."""
    x = draft.tensor(least=1, most=3)
    length = x.spec.shape[0]
    room = length + draft.integer(0, 3)
    output = draft.tensor(dtype=x.spec.dtype, shape=(room, *x.spec.shape[1:]))
    size = draft.integer(0, length)
    start, target = draft.integer(0, length - size), draft.integer(0, room - size)
    spec = TensorSpec((1,), as_dtype(draft.choose(["s32", "s64"])))
    # Constants: rows of a batch may not fit.
    places = [
        draft.bind("constant", value=np.array([v], spec.dtype.numpy))
        for v in (start, size, target, size)
    ]
    return draft.bind(name, x, output, *places, replica_groups=ONE, channel_id=draft.choose([0, 1]))


@generates("replica_id", "partition_id", weight=0.15)
def device_id(draft: Draft, name: str) -> Any:
    return draft.bind(name)


@generates("add_dependency", "after_all", "create_token", weight=0.2)
def token(draft: Draft, name: str) -> Any:
    """A value that waits for a token, which says nothing of values."""
    if draft.scalars:
        raise Unfit
    x = draft.tensor()
    made = draft.bind("create_token") if draft.chance(0.5) else draft.bind("after_all")
    if name == "after_all" or draft.chance(0.3):
        made = draft.bind("after_all", *[made] * draft.integer(1, 2))
    return draft.bind("add_dependency", x, made)


@generates("rng_bit_generator", weight=1.5)
def rng_bit_generator(draft: Draft, name: str) -> Any:
    algorithm = draft.choose(["THREE_FRY", "PHILOX", "DEFAULT"])
    words = 2 if algorithm == "THREE_FRY" else draft.choose([2, 3])
    spec = TensorSpec((words,), as_dtype("u64"))
    state = draft.rng.integers(0, 2**64 - 1, words, dtype=np.uint64, endpoint=True)
    if draft.chance(0.3):
        # Counters about to run over.
        state[1:] = 2**64 - 1 - draft.rng.integers(0, 3, words - 1, dtype=np.uint64)
    given = draft.choose([t for t in draft.pool if t.spec == spec] or [draft.make(spec, state)])
    names = [n for n in DTYPES if _gives(n)]
    own = [d.name for d in draft.dtypes if d.name in names]
    chosen = draft.choose(own) if own and draft.chance(0.5) else draft.choose(names)
    return draft.bind(
        name, given, rng_algorithm=algorithm, shape=draft.shape(), dtype=as_dtype(chosen)
    )


def _gives(dtype: str) -> bool:
    try:
        registry["rng_bit_generator"].infer(
            TensorSpec((2,), "u64"), rng_algorithm="DEFAULT", shape=(1,), dtype=as_dtype(dtype)
        )
    except XlapyError:
        return False
    return True
