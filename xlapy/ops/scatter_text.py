"""How a scatter is written and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.specs import TensorSpec
from xlapy.trace.codecs import BOOL, Group, Struct
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, lookup
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

__all__ = ["SCATTER_HLO", "in_types_of"]


def write_scatter(writer: Writer, instruction: Any) -> None:
    """One whose places are given by no index at all is written with indices: XLA loses updates of it, or fails."""
    params = instruction.params
    known = all(v.spec.is_static for v in instruction.operands)
    if params["scatter_dims_to_operand_dims"] or not known:
        writer.declared(instruction)
    else:
        writer.composed(instruction, lambda *operands: at_origin(operands, params))


def at_origin(operands: Sequence[Any], params: Any) -> tuple[Any, ...]:
    """The scatter into the only row of the inputs, by indices that are 0."""
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    reshape = lookup("reshape")
    shape = inputs[0].spec.shape
    rows = [bind(reshape, x, shape=(1, *shape)) for x in inputs]
    at = params["index_vector_dim"]
    given = indices.spec
    zeros = np.zeros((*given.shape[:at], 1, *given.shape[at + 1 :]), given.dtype.numpy)
    found = bind(
        lookup("scatter"),
        *rows,
        bind(lookup("constant"), value=zeros),
        *updates,
        **{
            **params,
            "inserted_window_dims": (0, *[d + 1 for d in params["inserted_window_dims"]]),
            "input_batching_dims": tuple([d + 1 for d in params["input_batching_dims"]]),
            "scatter_dims_to_operand_dims": (0,),
        },
    )
    return tuple([bind(reshape, x, shape=shape) for x in found])


def in_types_of(body: Computation, inputs: Sequence[Any]) -> list[Any]:
    """Inputs or updates converted to what the computation takes: XLA does not promote them."""
    types = [s.dtype for s in body.result_specs if type(s) is TensorSpec]
    convert = lookup("convert_element_type")
    return [x if x.dtype is t else bind(convert, x, dtype=t) for x, t in zip(inputs, types)]


def read_scatter(reader: Reader, operation: Any) -> Any:
    """Read it with the types of the update computation."""
    op = lookup("scatter")
    operands = reader.operands(operation)
    params = reader.params(operation, op)
    body = params["update_computation"]
    count = len(operands) // 2
    op.infer(*[x.spec for x in operands], **params)
    inputs, updates = operands[:count], operands[count + 1 :]
    operands = [*in_types_of(body, inputs), operands[count], *in_types_of(body, updates)]
    return bind(op, *operands, **params)


SCATTER_HLO: Final = Hlo(
    "stablehlo.scatter",
    {
        "scatter_dimension_numbers": Group(
            (
                "update_window_dims", "inserted_window_dims", "input_batching_dims",
                "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim",
            ),
            Struct("stablehlo.scatter", {
                "update_window_dims": (), "inserted_window_dims": (), "input_batching_dims": (),
                "scatter_indices_batching_dims": (), "scatter_dims_to_operand_dims": (),
                "index_vector_dim": 0,
            }),
        ),
        "indices_are_sorted": BOOL,
        "unique_indices": BOOL,
    },
    regions=("update_computation",),
    write=write_scatter,
    read=read_scatter,
)  # fmt: skip
