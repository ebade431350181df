"""ApproxTopK and PartialReduce: XLA's custom calls for most of the largest elements along a dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.errors import ConstraintError
from xlapy.trace.op import lookup

from .custom import register_computing_call

Array = np.ndarray[Any, Any]


def approx_top_k(
    *arrays: Array,
    out: Sequence[Any],
    attributes: Mapping[str, Any],
    called: Sequence[Callable[..., Any]],
) -> tuple[Array, ...]:
    """The first elements in the order of the comparator, all of which are right here.

    Where they are not aggregated, XLA gives the best one of each part of the operand: as many, in another order.
    """
    count = len(arrays) // 2
    dimension = attributes.get("reduction_dim")
    operands, inits = arrays[:count], arrays[count:]
    if type(dimension) is not int or len(called) != 1 or not 0 <= dimension < operands[0].ndim:
        raise ConstraintError(
            "custom_call: an approximate top-k must have a comparator and reduction_dim, a dimension of its operands;"
            f" got {dict(attributes)} [X1]"
        )
    found = lookup("sort").kernel(
        *operands, dimension=dimension, is_stable=True, comparator=called[0], out=out
    )
    made = []
    for array, init, spec in zip(found, inits, out, strict=True):
        wanted = spec.shape[dimension]
        part = array[(slice(None),) * dimension + (slice(wanted),)]
        missing = list(part.shape)
        missing[dimension] = wanted - part.shape[dimension]
        made.append(np.concatenate([part, np.full(missing, init, part.dtype)], dimension))
    return tuple(made)


for _target in ("ApproxTopK", "PartialReduce"):
    register_computing_call(_target, approx_top_k)
