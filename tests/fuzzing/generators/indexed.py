"""What stands in brackets: parts of arrays, assignments to them and updated copies, against what numpy does."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.draft import Draft, Unfit
from fuzzing.values import LARGEST
from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec

from .table import generates


def _slice(draft: Draft, n: int) -> slice:
    """A slice with ends that may lie outside, from the back, or be left out."""
    ends = [draft.choose([None, draft.integer(-n - 1, n + 1)]) for _ in range(2)]
    return slice(*ends, draft.choose([None, None, 1, 2, 3, -1, -2]))


def _index(draft: Draft, shape: tuple[int, ...], *, unique: bool = False) -> tuple[Any, Any]:
    """An index for arrays of a shape: as a program has it, and as numpy takes it.

    Parameters
    ----------
    draft : Draft
    shape : tuple of int
    unique : bool
        Whether no element may be picked twice.
    """
    ours: list[Any] = []
    theirs: list[Any] = []

    def add(part: Any, other: Any = None) -> None:
        ours.append(part)
        theirs.append(part if other is None else other)

    dots = draft.integer(0, len(shape)) if draft.chance(0.3) else None
    axes = range(draft.integer(0, len(shape)))
    arrays = draft.shape(draft.choose([0, 1, 1, 2])) if draft.chance(0.4) else None
    if arrays is not None and np.prod(arrays) > 40:
        arrays = (3,)
    for axis in axes:
        if axis == dots:
            add(Ellipsis)
        n = shape[axis if dots is None or axis < dots else axis + len(shape) - len(axes)]
        if draft.chance(0.1):
            add(None)
        count = 1 if arrays is None else int(np.prod(arrays))
        if arrays is not None and n and draft.chance(0.6) and not (unique and count > n):
            values = draft.rng.permutation(n)[:count] if unique else None
            if values is None:
                values = draft.rng.integers(-n, n, count)
            dtype = as_dtype(draft.choose(["s32", "s32", "s64"]))
            array = np.asarray(values, dtype.numpy).reshape(arrays)
            if draft.chance(0.5):
                add(draft.make(TensorSpec(arrays, dtype), array), array)
            else:
                add(array)
        elif n and draft.chance(0.4):
            add(draft.integer(-n, n - 1))
        else:
            add(_slice(draft, n))
    if dots is not None and dots >= len(axes):
        add(Ellipsis)
    return tuple(ours), tuple(theirs)


def _same(draft: Draft, found: Any, expected: Any) -> None:
    """What was recorded has the values that numpy says."""
    actual, wanted = draft.array(found), np.asarray(expected)
    assert actual.shape == wanted.shape, f"shape {actual.shape} for {wanted.shape}"
    same = actual.tobytes() == np.ascontiguousarray(wanted).tobytes()
    assert same, f"{actual!r} for {wanted!r}"


def _picked(array: Any, index: Any) -> Any:
    found = np.asarray(array[index])
    if found.size > LARGEST:
        raise Unfit
    return found


@generates("getitem", weight=3)
def getitem(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=4)
    ours, theirs = _index(draft, x.spec.shape)
    expected = _picked(draft.array(x), theirs)
    if draft.chance(0.3):
        return _same(draft, x.at[ours].get(), expected)
    return _same(draft, x[ours[0] if len(ours) == 1 else ours], expected)


@generates("setitem", weight=3)
def setitem(draft: Draft, name: str) -> Any:
    """Assigned to a copy, or an updated copy; elements that are picked twice are not assigned to."""
    x = draft.tensor(most=4)
    ours, theirs = _index(draft, x.spec.shape, unique=True)
    expected = np.array(draft.array(x))
    picked = _picked(expected, theirs).shape
    kept = picked[draft.integer(0, len(picked)) :]
    shape = tuple(1 if draft.chance(0.2) else n for n in kept)
    value = draft.tensor(dtype=x.spec.dtype, shape=shape)
    expected[theirs] = draft.array(value)
    if draft.chance(0.5):
        y = ops.copy(x)
        y[ours] = value
    else:
        y = x.at[ours].set(value)
    return _same(draft, y, expected)


@generates("masked", weight=1)
def masked(draft: Draft, name: str) -> Any:
    """Assigned where a mask holds."""
    x = draft.tensor(least=1, most=4)
    mask = draft.tensor(dtype=as_dtype("pred"), shape=x.spec.shape)
    value = draft.tensor(dtype=x.spec.dtype, shape=())
    y = ops.copy(x)
    y[mask] = value
    expected = np.where(draft.array(mask), draft.array(value), draft.array(x))
    return _same(draft, y, expected.astype(x.spec.dtype.numpy))
