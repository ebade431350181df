"""Taking an index apart: what it is, and what of it a program takes as operands.

The form decides the program. The integers and the beginnings of slices are operands outside a trace, so that one
program serves every ``x[i]`` and every slice of one length. Within a trace they are constants.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError, OutOfRangeError, TracingError, XlapyError, shown
from xlapy.specs import DYNAMIC, TensorSpec
from xlapy.tensor import Placed, Tensor
from xlapy.trace.builder import host_array

__all__ = ["Index", "in_range", "parse", "part", "width"]


class Index(NamedTuple):
    """An index taken apart.

    Attributes
    ----------
    form : tuple
        One entry for each part of the index, hashable: ``None`` for a new axis, ``("all", size)``, ``("at",)`` for an
        integer, ``("run", count, step)`` for a slice, ``("array",)`` for integers of an array.
    operands : list
        For each ``"at"`` the integer, for each ``"run"`` where it begins (the element of the lowest place), for each
        ``"array"`` the array; ints, or integer tensors of any place.
    """

    form: tuple[Any, ...]
    operands: list[Any]


# --- taking an index apart ----------------------------------------------------------------------------------------


def parse(index: Any, shape: tuple[int, ...]) -> Index:
    """An index for an array of a shape, taken apart and checked as far as its values are known."""
    parts = list(index) if type(index) is tuple else [index]
    parts = [part(p) for p in parts]
    used = sum([width(p) for p in parts])
    if used > len(shape):
        raise OutOfRangeError(
            f"an index must have at most {len(shape)} parts for {list(shape)}; got {used} [X1]"
        )
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise OutOfRangeError(f"an index must have at most one ellipsis; got {len(dots)} [X1]")
    if not dots:
        dots = [len(parts)]
        parts.append(Ellipsis)
    form: list[Any] = []
    operands: list[Any] = []
    axis = 0
    for p in parts:
        if p is Ellipsis:
            for _ in range(len(shape) - used):
                form.append(("all", shape[axis]))
                axis += 1
            if not len(shape) - used and 0 < dots[0] < len(parts) - 1:
                form.append(("dots",))
        elif p is None:
            form.append(None)
        elif type(p) is int:
            form.append(("at",))
            operands.append(in_range(p, shape[axis], axis))
            axis += 1
        elif type(p) is slice:
            entry, start = _run(p, shape[axis])
            form.append(entry)
            if start is not None:
                operands.append(start)
            axis += 1
        elif type(p) is Tensor:
            form.append(("array",) if p.ndim else ("at",))
            operands.append(p)
            axis += 1
        elif p.dtype == np.bool_:
            axis = _expand_mask(p, shape, axis, form, operands)
        else:
            form.append(("array",))
            operands.append(_checked(p, shape[axis], axis))
            axis += 1
    return Index(tuple(form), operands)


def part(p: Any) -> Any:
    """One part of an index as int, slice, None, Ellipsis, an integer tensor, or a host array of integers or masks."""
    kind = type(p)
    if kind is int or kind is slice or p is None or p is Ellipsis:
        return p
    if kind is Tensor:
        spec = p.placed.spec
        if type(spec) is not TensorSpec or not (spec.dtype.integer or spec.dtype.kind == "bool"):
            raise DTypeError(f"an index must be of integers or truth values; got {spec} [X1]")
        if spec.dtype.kind == "bool":
            if type(p.placed) is not Placed:
                raise TracingError(
                    "a mask must not be an index in a trace, for how many elements it picks is not known yet;"
                    f" got {spec} [X1]\n  use xlapy.where(mask, x, 0), or assign with x[mask] = value"
                )
            return p.numpy()
        return p
    if kind is bool:
        return np.asarray(p)
    if isinstance(p, int) or (isinstance(p, np.integer) and p.dtype.kind in "iu"):
        return int(p)
    if isinstance(p, list) and not p:
        return np.zeros(0, np.int32)
    try:
        found = host_array(p)
    except DTypeError:
        found = None
    if found is None or (found.dtype.kind not in "iub" and not as_dtype(found.dtype).integer):
        raise DTypeError(
            "an index must be of integers, slices, ellipsis, None, and arrays of integers or truth values; got"
            f" {shown(p)} [X1]"
        )
    return int(found) if found.ndim == 0 and found.dtype.kind != "b" else found


def width(p: Any) -> int:
    """How many axes a part of an index takes up."""
    if p is None or p is Ellipsis:
        return 0
    if type(p) is np.ndarray and p.dtype == np.bool_:
        return p.ndim
    return 1


def in_range(i: int, size: int, axis: int) -> int:
    """A place counted from the front, or an error that is an IndexError."""
    if not -size <= i < size:
        raise OutOfRangeError(
            f"index must be in [{-size}, {size}) along axis {axis}; got {shown(i)} [X1]"
        )
    return i + size if i < 0 else i


def _run(p: slice, size: int) -> tuple[Any, int | None]:
    """The form of a slice, and where its lowest element lies."""
    if size is DYNAMIC:
        return ("all", size), None
    try:
        start, stop, step = p.indices(size)
    except XlapyError:
        raise
    except TypeError:
        raise DTypeError(f"a slice must be of integers; got {p} [X1]") from None
    except ValueError:
        raise OutOfRangeError(f"the step of a slice must not be 0; got {p} [X1]") from None
    count = len(range(start, stop, step))
    if count == size and step == 1:
        return ("all", size), None
    if count <= 1:
        step = 1
    return ("run", count, step), 0 if not count else min(start, start + (count - 1) * step)


def _checked(p: np.ndarray[Any, Any], size: int, axis: int) -> np.ndarray[Any, Any]:
    """Known places counted from the front; one that there is not is an error."""
    wide = p.astype(np.int64)
    if wide.size:
        for i in (int(wide.min()), int(wide.max())):
            in_range(i, size, axis)
    wide = np.where(wide < 0, wide + size, wide)
    return wide.astype(np.int32 if size <= 2**31 - 1 else np.int64)


def _expand_mask(
    mask: np.ndarray[Any, Any],
    shape: tuple[int, ...],
    axis: int,
    form: list[Any],
    operands: list[Any],
) -> int:
    """A mask as the places at which it is true."""
    if mask.ndim == 0:
        # A new axis of size 1, of which the one element is taken or not.
        form.append(("flag",))
        operands.append(np.zeros(int(mask), np.int32))
        return axis
    covered = shape[axis : axis + mask.ndim]
    if mask.shape != covered:
        raise OutOfRangeError(
            f"a mask must have the shape of the axes it covers, {list(covered)}; got {list(mask.shape)} [X1]"
        )
    for places in mask.nonzero():
        form.append(("array",))
        operands.append(places.astype(np.int32))
    return axis + mask.ndim
