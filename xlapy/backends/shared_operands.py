"""Scatters whose operands may be one and the same array.

XLA writes the results of a scatter over its inputs. On the CPU it gives two equal inputs one buffer, which both results
then overwrite, and an input that equals the indices is overwritten while these are read. What is equal it finds out by
itself, so it is no use to copy an array: each input gets further elements, which differ from one input to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation, Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.simplify import eliminate_dead

__all__ = ["apart"]

_KEPT_APART: Final = "the inputs are kept apart"


def apart(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes the same as a scatter that XLA may get wrong; None if there is no danger."""
    body: Computation = instruction.params["update_computation"]
    specs: Sequence[Any] = [v.spec for v in instruction.operands]
    count = len(body.results)
    inputs, indices = specs[:count], specs[count]
    if body.cache.get(_KEPT_APART) or not all(s.is_static for s in specs) or not inputs[0].size:
        return None
    dtypes = [s.dtype for s in inputs]
    alike = len(set(dtypes)) < count
    # XLA makes the indices a matrix first.
    like_indices = any(
        s.rank == 2 and s.dtype is indices.dtype and s.size == indices.size for s in inputs
    )
    if not alike and not like_indices:
        return None
    parts = _separate(body) if alike and not like_indices else None
    if parts is not None:
        return lambda *operands, **params: _one_by_one(parts, operands, params)
    return lambda *operands, **params: _with_room(operands, params)


def _separate(body: Computation) -> list[Computation] | None:
    """A computation for each result, where none depends on what the others are made of."""
    count = len(body.results)
    found = []
    for k, result in enumerate(body.results):
        part = eliminate_dead(Computation(body.parameters, body.instructions, [result], body.name))
        own = [body.parameters[k], body.parameters[count + k]]
        used = {v for i in part.instructions for v in i.operands} | {result}
        if any(v in used and v not in own for v in body.parameters):
            return None
        found.append(Computation(own, part.instructions, [result], body.name))
    return found


def _one_by_one(
    parts: Sequence[Computation], operands: Sequence[Any], params: Mapping[str, Any]
) -> tuple[Any, ...]:
    count = len(parts)
    scatter, indices = lookup("scatter"), operands[count]
    return tuple(
        [
            bind(scatter, x, indices, u, **{**params, "update_computation": part})[0]
            for part, x, u in zip(parts, operands[:count], operands[count + 1 :], strict=True)
        ]
    )


def _with_room(operands: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    """The scatter of inputs with further rows, which are no part of the result."""
    given = params["update_computation"]
    count = len(given.results)
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    shape = inputs[0].spec.shape
    changed = dict(params, unique_indices=False)
    inserted = params["inserted_window_dims"]
    reshape = lookup("reshape")
    if inserted:
        # What was beyond the end, and so was skipped, may be in the further rows, and is dropped.
        axis = inserted[0]
    else:
        axis = 0
        inputs = [bind(reshape, x, shape=(1, *shape)) for x in inputs]
        indices = _at_first_row(indices, params["index_vector_dim"])
        changed["inserted_window_dims"] = (0,)
        changed["input_batching_dims"] = tuple([d + 1 for d in params["input_batching_dims"]])
        changed["scatter_dims_to_operand_dims"] = (
            0, *[d + 1 for d in params["scatter_dims_to_operand_dims"]]
        )  # fmt: skip
    body = Computation(given.parameters, given.instructions, given.results, given.name)
    body.cache[_KEPT_APART] = True
    found = bind(
        lookup("scatter"),
        *[_longer(x, axis, k, count) for k, x in enumerate(inputs)],
        indices,
        *updates,
        **{**changed, "update_computation": body},
    )
    kept = inputs[0].spec.shape
    rank = len(kept)
    results = [
        bind(lookup("slice"), y, start_indices=(0,) * rank, limit_indices=kept, strides=(1,) * rank)
        for y in found
    ]
    return tuple([bind(reshape, y, shape=shape) if y.spec.shape != shape else y for y in results])


def _at_first_row(indices: Any, at: int) -> Any:
    """The index vectors with a 0 in front."""
    spec = indices.spec
    if at == spec.rank:
        indices = bind(lookup("reshape"), indices, shape=(*spec.shape, 1))
        spec = indices.spec
    zeros = np.zeros((*spec.shape[:at], 1, *spec.shape[at + 1 :]), spec.dtype.numpy)
    return bind(lookup("concatenate"), bind(lookup("constant"), value=zeros), indices, dimension=at)


def _longer(x: Any, axis: int, number: int, count: int) -> Any:
    """An array with as many further rows as there are inputs: ones in the row of its own number."""
    spec: TensorSpec = x.spec
    rows = np.zeros((*spec.shape[:axis], count, *spec.shape[axis + 1 :]), spec.dtype.numpy)
    rows[(slice(None),) * axis + (number,)] = np.ones((), spec.dtype.numpy)
    return bind(lookup("concatenate"), x, bind(lookup("constant"), value=rows), dimension=axis)
