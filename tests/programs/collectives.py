"""Programs over four devices, which communicate; each argument has the devices' parts along its first axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xlapy
from programs import Program, normal, whole
from programs.models import PERCEPTRON, perceptron
from xlapy import ops

#: the numbers of replicas and of partitions
GRIDS = {"replicas": (4, 1), "partitions": (1, 4), "grid": (2, 2)}


def across(grid: str) -> dict[str, Any]:
    """What lets a reduction or gather be among all four devices."""
    if grid == "replicas":
        return {"replica_groups": [[0, 1, 2, 3]]}
    return {"replica_groups": [[0, 1, 2, 3]], "channel_id": 1, "use_global_device_ids": True}


def pairwise(grid: str) -> dict[str, Any]:
    """Among two and two of them."""
    return {**across(grid), "replica_groups": [[0, 3], [1, 2]]}


def gradients(grid: str) -> Callable[..., Any]:
    """The means of the devices' gradients, each of its own data."""

    def run(p: Any, x: Any, target: Any) -> Any:
        found = xlapy.value_and_grad(perceptron)(p, x, target)
        return xlapy.tree.map(lambda g: ops.all_reduce(g, ops.add, **across(grid)) / 4.0, found)

    return run


def exchanged(grid: str) -> Callable[..., Any]:
    """Parts to all others, and all to the next; among replicas, or among the partitions of each."""
    count, channel = (4, None) if grid == "replicas" else (GRIDS[grid][1], 1)
    next_ = [(i, (i + 1) % count) for i in range(count)]

    def run(x: Any) -> Any:
        parts = ops.all_to_all(x, 0, 1, count, [list(range(count))], channel_id=channel)
        return parts, ops.collective_permute(ops.sin(x), next_[:-1], channel_id=channel)

    if grid == "grid":  # the groups of partitions, in each replica
        return lambda x: ops.collective_permute(ops.sin(x), next_, channel_id=1)
    return run


def iterated(grid: str) -> Callable[..., Any]:
    """A reduction in each step of a loop."""
    return lambda x: xlapy.fori_loop(
        0, 3, lambda i, y: ops.all_reduce(xlapy.sin(y + x), ops.add, **across(grid)), x
    )


def spread(grid: str) -> Callable[..., Any]:
    """A matrix product of which each device has some rows, and its gradient."""

    def loss(w: Any, x: Any) -> Any:
        return xlapy.sum(ops.all_gather(w, 0, 4, **across(grid)) @ x)

    return lambda w, x: (ops.all_gather(w, 1, 4, **across(grid)), xlapy.grad(loss)(w, x))


def each(x: Any) -> Any:
    """One for each device."""
    return xlapy.tree.map(lambda v: np.stack([v + 0.1 * i for i in range(4)]).astype(v.dtype), x)


X = normal(4, 8, 4)

COLLECTIVES = {
    f"{name}_{grid}": Program(make(grid), arguments)
    for grid in GRIDS
    for name, make, arguments in (
        ("all_reduce", lambda g: lambda x: ops.all_reduce([x, ops.cos(x)], ops.add, **across(g)), [X]),
        ("all_reduce_pairwise", lambda g: lambda x: ops.all_reduce(x, ops.max, **pairwise(g)), [X]),
        ("all_reduce_f16", lambda g: lambda x: ops.all_reduce(ops.convert(x, "bf16"), ops.mul, **across(g)), [X]),
        ("reduce_scatter", lambda g: lambda x: ops.reduce_scatter(x, ops.add, 0, 4, **across(g)), [X]),
        ("exchanged", exchanged, [X]),
        ("iterated", iterated, [X]),
        ("spread", spread, [normal(4, 2, 4), each(normal(4, 3))]),
        ("gradients", gradients, [each(PERCEPTRON), normal(4, 4, 6), whole(4, 4, high=5)]),
        ("places", lambda g: lambda x: x + ops.convert(ops.replica_id(), "f32") * 10
         + ops.convert(ops.partition_id(), "f32"), [X]),
    )
}  # fmt: skip
