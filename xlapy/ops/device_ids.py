"""ReplicaId and PartitionID: which of the devices that run a program this one is."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.specs import TensorSpec, parse_spec, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.process_grid import communicating, current_process

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


@communicating
def kernel_partition_id(*, out: Any, site: Instruction) -> Any:
    """The process's partition."""
    return np.uint32(current_process().partition)


partition_id_op = register(Op(
    name="partition_id",
    section="PartitionID",
    infer=lambda: ID,
    hlo=Hlo("stablehlo.partition_id"),
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
    found: Tensor = bind(partition_id_op)
    return found
