"""Changing elements: ``x[index] = value`` and ``x.at[index].set(value)``.

Values never change: an update makes a new array, and an assignment lets the handle stand for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import DTypeError, ShapeError, TracingError, XlapyError
from xlapy.ops.scatter import ScatterDimensionNumbers, scatter
from xlapy.source import hide_library_frames
from xlapy.specs import TensorSpec
from xlapy.staging import composite
from xlapy.tensor import Placed, Tensor
from xlapy.trace.computation import Value
from xlapy.trace.mode import annotate, current_builder, using

from .any_size import require_known_size
from .comparison import where_elements
from .creation import as_array
from .index_forms import Index, parse
from .indexing import (
    getitem,
    lay_out,
    settled,
    sliced_at,
    unflagged,
    uniform,
    whole,
)
from .promotion import (
    as_tensor,
    at_dtype,
    broadcast_to_shape,
    call,
    convert,
    filled,
    is_weak,
    named,
    operand,
    result_dtype,
)

__all__ = ["Update", "at", "setitem"]

_S32, _S64 = as_dtype("s32"), as_dtype("s64")
_COMBINE: Final[dict[str, str]] = {"add": "add", "multiply": "mul", "min": "min", "max": "max"}


# --- the handle ---------------------------------------------------------------------------------------------------


def setitem(x: Tensor, index: Any, value: Any, /) -> None:
    """Let the handle `x` stand for an array in which the elements that an index picks are `value`.

    Other handles of the same values, and slices taken before, keep theirs.

    Raises
    ------
    TracingError
        In a trace, if the tensor was not made there: an argument, or one from outside.
    OutOfRangeError, ShapeError, DTypeError
        If the index or the value does not fit.

    Examples
    --------
    >>> x = xlapy.zeros(3)
    >>> x[1:] = 2.0
    >>> x
    Tensor([0., 2., 2.], f32[3])
    """
    try:
        if current_builder() is not None or type(x.placed) is not Placed:
            _require_made_here(x)
        new = _update(x, index, value, "set")
    except XlapyError as error:
        error = annotate(error, "setitem", [x.placed.spec])
        hide_library_frames(error)
        raise error from None
    x.placed, x.payload = new.placed, new.payload


def _require_made_here(x: Tensor) -> None:
    """Assignments are for what the trace made itself: nobody else would see them."""
    value = x.payload
    builder = current_builder()
    what = ""
    if type(value) is not Value or (builder is not None and value.scope is not builder.scope):
        what = "a tensor from outside of a trace"
    elif value.scope is not None and any(x is a for a in value.scope.builder.arguments):
        what = f"an argument of {value.scope.name!r}"
    if what:
        raise TracingError(
            f"{what} must not be assigned to, for only the trace would see it; got {x.placed.spec} [X1]\n"
            "  write y = x.copy() and assign to y, or x = x.at[index].set(value)"
        )


# --- the function -------------------------------------------------------------------------------------------------


@final
class Update:
    """``x.at[index]``: updated copies of an array.

    Where an index names an element several times, `set` leaves one of the values there, and the others apply all of
    them. Places in tensors that are out of range are skipped.

    Examples
    --------
    >>> x = xlapy.asarray([1, 2, 3])
    >>> x.at[0].set(9), x.at[[1, 1]].add(10), x.at[::2].multiply(2)
    (Tensor([9, 2, 3], s32[3]), Tensor([ 1, 22,  3], s32[3]), Tensor([2, 2, 6], s32[3]))
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x = x
        self._index = index

    def get(self) -> Tensor:
        """The elements: ``x[index]``."""
        return getitem(self._x, self._index)

    def set(self, value: Any) -> Tensor:
        """With `value` in their place."""
        return self._with(value, "set")

    def add(self, value: Any) -> Tensor:
        """With `value` added to them."""
        return self._with(value, "add")

    def multiply(self, value: Any) -> Tensor:
        """With them multiplied by `value`."""
        return self._with(value, "multiply")

    def min(self, value: Any) -> Tensor:
        """With those greater than `value` lowered to it."""
        return self._with(value, "min")

    def max(self, value: Any) -> Tensor:
        """With those less than `value` raised to it."""
        return self._with(value, "max")

    def _with(self, value: Any, kind: str) -> Tensor:
        try:
            return _update(self._x, self._index, value, kind)
        except XlapyError as error:
            error = annotate(error, f"at[...].{kind}", [self._x.placed.spec])
            hide_library_frames(error)
            raise error from None


@final
class _At:
    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> Update:
        return Update(self._x, index)


def at(x: Tensor, /) -> Any:
    """What is indexed to get an `Update`."""
    return _At(x)


def _update(x: Tensor, index: Any, value: Any, kind: str) -> Tensor:
    spec = x.placed.spec
    if type(spec) is not TensorSpec:
        raise DTypeError(f"what is indexed must be an array; got {spec} [X1]")
    if current_builder() is None and type(x.placed) is not Placed:
        # A value of an explicit builder.
        scope = x.payload.scope
        if scope is None or not scope.open:
            x._refuse("used outside its trace")
        with using(scope.builder):
            return _update(x, index, value, kind)
    value = as_array(value)
    mask = _mask_of(index)
    if mask is not None and _is_uniform(value, spec.rank - mask.ndim):
        return _masked(x, mask, value, kind)
    parsed = parse(index, spec.shape)
    if current_builder() is None and type(x.placed) is Placed:
        placement = x.placed.placement
        operands = [settled(v, placement) for v in parsed.operands]
        found: Tensor = _updated(x, value, operands, parsed.form, kind)
        return found
    return write(x, value, parsed, kind)


def _mask_of(index: Any) -> Any:
    """The mask, where the index is nothing else."""
    while type(index) is tuple and len(index) == 1:
        (index,) = index
    if isinstance(index, list):
        try:
            index = np.asarray(index)
        except (TypeError, ValueError, XlapyError):
            return None
    if type(index) is Tensor:
        return index if index.dtype.kind == "bool" and index.ndim else None
    if isinstance(index, np.ndarray) and index.dtype == np.bool_ and index.ndim:
        return index
    return None


def _is_uniform(value: Any, rank: int) -> bool:
    """Whether every element of a mask gets the same value, of so many dimensions at most."""
    shape = value.shape if hasattr(value, "shape") else np.shape(value)
    return len(shape) <= rank or (len(shape) == rank + 1 and shape[0] == 1)


@composite(arrays=3, name="setitem")
def _masked(x: Any, mask: Any, value: Any, kind: str) -> Tensor:
    mask = as_tensor(mask)
    if mask.shape != x.shape[: mask.ndim]:
        raise ShapeError(
            f"a mask must have the shape of the axes it covers, {list(x.shape[: mask.ndim])}; got {mask.spec} [X1]"
        )
    value = _fitted(value, x.dtype)
    rest = x.shape[mask.ndim :]
    if value.ndim > len(rest):
        value = call("reshape", value, shape=value.shape[1:])
    if len(value.shape) > len(rest):
        raise ShapeError(f"the value must broadcast to {list(rest)}; got {value.spec} [X1]")
    value = _broadcast(_broadcast(value, rest), x.shape)
    if kind != "set":
        value = call(_COMBINE[kind], x, value)
    wide = call(
        "broadcast_in_dim", mask, shape=x.shape, broadcast_dimensions=tuple(range(mask.ndim))
    )
    return where_elements(wide, value, x)


@composite(arrays=3, nested=True, name="setitem")
def _updated(x: Any, value: Any, operands: list[Any], form: tuple[Any, ...], kind: str) -> Tensor:
    return write(x, value, Index(form, operands), kind)


def _fitted(value: Any, dtype: DType) -> Tensor:
    """The value in the array's type; one of a higher kind is refused."""
    value = operand(value)
    if type(value) is not Tensor or (not value.ndim and is_weak(value)):
        if result_dtype(value, dtype) is not dtype:
            raise DTypeError(
                f"the value must fit the array's type {dtype}: convert one of them; got {named(value)} [X3]"
            )
        return at_dtype(value, dtype)
    order = ("bool", "integer", "float", "complex")
    kinds = ["integer" if d.integer else d.kind for d in (value.dtype, dtype)]
    if order.index(kinds[0]) > order.index(kinds[1]):
        raise DTypeError(
            f"the value must not be of a higher kind than the array: convert one of them; got {value.dtype} for"
            f" {dtype} [X1]"
        )
    return convert(value, dtype)


def _broadcast(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The value repeated to a shape; further dimensions of size 1 in front are dropped, as numpy does it."""
    own = value.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if own != value.shape:
        value = call("reshape", value, shape=own)
    lead = len(shape) - len(own)
    if lead < 0 or any(n not in (1, m) for n, m in zip(own, shape[lead:], strict=True)):
        raise ShapeError(f"the value must broadcast to {list(shape)}; got {value.spec} [X1]")
    return broadcast_to_shape(value, shape)


# --- recording ----------------------------------------------------------------------------------------------------


def write(x: Tensor, value: Any, index: Index, kind: str) -> Tensor:
    """The updated array, recorded."""
    shape = x.shape
    if x.spec.dynamic:
        _require_whole(x, index.form)
    x, index = unflagged(x, index)
    form, operands = index
    value = _fitted(value, x.dtype)
    has_arrays = any(e is not None and e[0] == "array" for e in form)
    strided = any(e is not None and e[0] == "run" and abs(e[2]) != 1 for e in form)
    if has_arrays or strided:
        found = _scattered(x, value, form, operands, kind)
    else:
        found = _pasted(x, value, form, operands, kind)
    return found if found.shape == shape else call("reshape", found, shape=shape)


def _require_whole(x: Tensor, form: Sequence[Any]) -> None:
    """Places along an axis whose size varies are not counted."""
    axis = 0
    for entry in form:
        if entry is not None and entry not in (("flag",), ("dots",)):
            if entry[0] != "all":
                require_known_size(x, axis, "what is assigned to")
            axis += 1


def _pasted(
    x: Tensor, value: Tensor, form: Sequence[Any], operands: Sequence[Any], kind: str
) -> Tensor:
    """An update of one box of elements."""
    given = iter(operands)
    starts: list[Any] = []
    counts: list[int] = []
    backwards: list[int] = []
    result: list[int] = []
    for entry in form:
        if entry is None:
            result.append(1)
        elif entry[0] == "at":
            starts.append(next(given))
            counts.append(1)
        elif entry[0] != "dots":
            starts.append(0 if entry[0] == "all" else next(given))
            counts.append(entry[1])
            result.append(entry[1])
            if entry[0] == "run" and entry[2] < 0:
                backwards.append(len(counts) - 1)
    value = _broadcast(value, tuple(result))
    if 0 in counts:
        return x
    if value.shape != tuple(counts):
        value = call("reshape", value, shape=tuple(counts))
    if backwards:
        value = call("rev", value, dimensions=tuple(backwards))
    if kind != "set":
        value = call(_COMBINE[kind], sliced_at(x, starts, counts, [1] * x.ndim), value)
    if tuple(counts) == x.shape:
        return value
    places = [s if type(s) is int else whole(s, n) for s, n in zip(starts, x.shape, strict=True)]
    if all(type(p) is int for p in places):
        wide = max(x.shape) > 2**31 - 1
        scalars: list[Any] = [
            call("constant", value=np.asarray(p, np.int64 if wide else np.int32)) for p in places
        ]
    else:
        scalars = uniform(places)
    return call("dynamic_update_slice", x, value, *scalars)


def _scattered(
    x: Tensor, value: Tensor, form: Sequence[Any], operands: Sequence[Any], kind: str
) -> Tensor:
    """An update of elements at any places."""
    layout = lay_out(x, form, operands)
    value = _broadcast(value, layout.shape)
    if 0 in layout.shape:
        return x
    picked = [axis for axis, _ in layout.arrays]
    rest = [a for a in range(x.ndim) if a not in picked]
    # The value without new axes: the axes that are not picked from, and the block among them.
    sizes = [layout.counts[a] for a in rest]
    inner = (*sizes[: layout.place], *layout.block, *sizes[layout.place :])
    if value.shape != inner:
        value = call("reshape", value, shape=inner)
    depth = len(layout.block)
    dim_of = {a: i if i < layout.place else i + depth for i, a in enumerate(rest)}
    backwards = tuple([dim_of[a] for a in rest if layout.steps[a] < 0])
    if backwards:
        value = call("rev", value, dimensions=backwards)
    # Axes with a stride are walked element by element, like those picked from; the others are windows.
    strided = [a for a in rest if abs(layout.steps[a]) != 1]
    walked = sorted([dim_of[a] for a in strided] + list(range(layout.place, layout.place + depth)))
    outer = tuple([inner[d] for d in walked])
    columns: list[tuple[int, Tensor]] = []
    block_at = tuple([walked.index(d) for d in range(layout.place, layout.place + depth)])
    for axis, a in layout.arrays:
        if type(a) is int:
            columns.append((axis, call("constant", value=np.asarray(a, np.int32))))
            continue
        places = _as_places(a, x.shape[axis])
        lead = depth - places.ndim
        columns.append((axis, _spread(places, outer, block_at[lead:])))
    for a in rest:
        count, start = layout.counts[a], layout.starts[a]
        if a in strided:
            column = call("iota", shape=(count,), dtype=_S32, iota_dimension=0)
            column = call("mul", column, filled(column, abs(layout.steps[a])))
            if type(start) is int:
                column = call("add", column, filled(column, start))
            else:
                begin = whole(start, x.shape[a])
                column = convert(column, begin.dtype)
                column = call("add", column, broadcast_to_shape(begin, (count,)))
            columns.append((a, _spread(column, outer, (walked.index(dim_of[a]),))))
        elif count != x.shape[a]:
            begin = (
                call("constant", value=np.asarray(start, np.int32))
                if type(start) is int
                else whole(start, x.shape[a])
            )
            columns.append((a, begin))
    dtype = _S64 if any(c.dtype is _S64 for _, c in columns) else _S32
    vectors = [
        call("reshape", _full(convert(c, dtype), outer), shape=(*outer, 1)) for _, c in columns
    ]
    axes = tuple([a for a, _ in columns])
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple([d for d in range(len(inner)) if d not in walked]),
        inserted_window_dims=tuple(sorted([*picked, *strided])),
        scatter_dims_to_operand_dims=axes,
        index_vector_dim=len(outer),
    )
    indices = (
        vectors[0] if len(vectors) == 1 else call("concatenate", *vectors, dimension=len(outer))
    )
    unique = not any(e is not None and e[0] == "array" for e in form)
    found: Tensor = scatter(x, indices, value, _bodies[kind], numbers, unique_indices=unique)
    return found


def _as_places(a: Any, size: int) -> Tensor:
    return whole(a, size) if type(a) is Tensor else as_tensor(a)


def _spread(x: Tensor, shape: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    """An array along some dimensions of a shape."""
    return call("broadcast_in_dim", x, shape=shape, broadcast_dimensions=dims)


def _full(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.shape == shape else _spread(x, shape, ())


def _body(name: str) -> Callable[[Any, Any], Any]:
    def combine(old: Any, new: Any) -> Any:
        return call(name, old, new)

    combine.__name__ = name
    return combine


def _replace(old: Any, new: Any) -> Any:
    del old
    return new


_bodies: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "set": _replace,
    **{kind: _body(name) for kind, name in _COMBINE.items()},
}
