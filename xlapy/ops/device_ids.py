"""ReplicaId and PartitionID: which of the devices that run a program this one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.specs import Spec, TensorSpec, parse_spec, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.process_grid import communicating, current_process, settled_by
from xlapy.trace.stablehlo_reader import Reader

from .collective_rules import part, reshaped
from .rules import unsupported, zero

__all__ = ["partition_id", "replica_id"]

ID = TensorSpec((), "u32")


@communicating
def kernel_replica_id(*, out: Any, site: Instruction) -> Any:
    """The process's replica."""
    return np.uint32(current_process().replica)


replica_id_op = register(Op(
    name="replica_id",
    section="ReplicaId",
    infer=lambda: ID,
    hlo=Hlo("stablehlo.replica_id"),
    kernel=kernel_replica_id,
    ad=zero,
    batch=unsupported("it has no operands"),
))  # fmt: skip


def replica_id() -> Tensor:
    """The number of the replica that runs.

    Returns
    -------
    Tensor
        A u32 scalar.

    Notes
    -----
    Section ReplicaId of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.replica_id()
    Tensor(0, u32[])
    """
    found: Tensor = bind(replica_id_op)
    return found


def settle_partition_id(
    specs: Sequence[Spec], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """How many there are."""
    return {"num_partitions": num_partitions}


@communicating
@settled_by(settle_partition_id)
def kernel_partition_id(*, num_partitions: int, out: Any, site: Instruction) -> Any:
    """The process's partition."""
    return np.uint32(current_process().partition)


def partition_id_by_exchange(*, num_partitions: int) -> Any:
    """The partitions send each other the numbers of the receivers."""
    if num_partitions < 2:
        return bind(lookup("constant"), value=np.zeros((), np.uint32))
    numbers = bind(lookup("iota"), shape=(num_partitions,), dtype=ID.dtype, iota_dimension=0)
    own = bind(
        lookup("all_to_all"), numbers, split_dimension=0, concat_dimension=0, split_count=num_partitions,
        replica_groups=(tuple(range(num_partitions)),), channel_id=1,
    )  # fmt: skip
    return reshaped(part(own, 0), ())


def read_partition_id(reader: Reader, operation: Any) -> Any:
    """Without the number of partitions, which no program says."""
    return bind(partition_id_op, num_partitions=0)


partition_id_op = register(Op(
    name="partition_id",
    section="PartitionID",
    # How many there are is not part of the program: 0 until it is compiled for a grid.
    infer=lambda *, num_partitions: ID,
    hlo=Hlo(
        "stablehlo.partition_id",
        read=read_partition_id,
        decomposition=partition_id_by_exchange,
    ),
    kernel=kernel_partition_id,
    ad=zero,
    batch=unsupported("it has no operands"),
))  # fmt: skip


def partition_id(shape: Any = "u32[]") -> Tensor:
    """The number of the partition that runs.

    Parameters
    ----------
    shape : spec
        Of the result: ``u32[]``.

    Returns
    -------
    Tensor
        A u32 scalar.

    Raises
    ------
    ShapeError
        If another shape is asked for.

    Notes
    -----
    Section PartitionID of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.partition_id()
    Tensor(0, u32[])
    """
    require_shape(parse_spec(shape) == ID, "X1", "shape must be u32[]", shape)
    found: Tensor = bind(partition_id_op, num_partitions=0)
    return found
