"""ReduceWindow: windows of arrays folded by a computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.specs import TensorSpec, require, require_array
from xlapy.trace.codecs import I64_ARRAY
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .reduction import UFUNCS, identity_of, is_exact, split_operands, together
from .rules import body_name
from .scalar_bodies import in_types_of, on_arrays, require_fold, scalar_body
from .window_geometry import (
    WINDOW_CODECS,
    Window,
    as_window,
    require_window,
    with_defaults,
    write_inline,
)
from .window_rules import batch_reduce_window, composed, reduce_window_derivatives

Array = np.ndarray[Any, Any]

# --- the record -----------------------------------------------------------------------------------

_LABELS: Final = {
    "window_dimensions": ("C4", "C5"),
    "window_strides": ("C6", "C7"),
    "base_dilations": ("C8", "C9"),
    "window_dilations": ("C10", "C11"),
    "padding": ("C12", "C12"),
}


def infer_reduce_window(
    *operands: TensorSpec, body: Computation, **params: Any
) -> tuple[TensorSpec, ...]:
    """C1 to C13."""
    inputs, _ = split_operands(operands, "C1", "C2", "C3")
    x = inputs[0]
    window = require_window(params, x.rank, _LABELS)
    require_fold(body, [i.dtype for i in inputs], "I8", "C13")
    require(not any(i.dynamic for i in inputs), "X1", "the sizes must be known and not vary", x)
    shape = window.counts(x.shape)
    return tuple([i.with_shape(shape) for i in inputs])


#: windows of at most so many elements along a dimension are folded one element after the other
_SHORT: Final = 6


def kernel_reduce_window(*arrays: Array, body: Any, out: Any, **params: Any) -> tuple[Array, ...]:
    """result[o] = body(... body(init, x[o * stride + k * dilation]) ...), over the elements k of the window.

    Padding and holes do not take part, so init enters once, as in XLA on CPU.
    """
    count = len(arrays) // 2
    window = Window.of(params)
    if count == 1:
        name = body_name(body.computation)
        x, init = arrays
        if name in UFUNCS and is_exact(name, x.dtype):
            made = out[0].with_shape(window.counts(x.shape))
            return (_fold_windows(name, x, init, window, made),)
    counts = window.counts(arrays[0].shape)
    return _fold_windows_by_body(arrays[:count], arrays[count:], body, window, counts)


def _fold_windows(name: str, x: Array, init: Array, window: Window, out: TensorSpec) -> Array:
    """By numpy, one dimension after the other; floats narrower than 32 bits in float32."""
    ufunc, dtype = UFUNCS[name], x.dtype
    wide = np.dtype(np.float32) if dtype.itemsize < 4 and dtype.kind not in "biu" else dtype
    if 0 in out.shape:
        return np.zeros(out.shape, dtype)
    fill = np.asarray(identity_of(name, out.dtype)).astype(wide)
    current = window.padded(x.astype(wide, copy=False), fill)
    for axis in range(x.ndim):
        current = _fold_axis(
            ufunc, current, axis, out.shape[axis], window.sizes[axis], window.strides[axis],
            window.window_dilations[axis],
        )  # fmt: skip
    return np.asarray(ufunc(init.astype(wide), current)).astype(dtype, copy=False)


def _fold_axis(
    ufunc: Any, x: Array, axis: int, count: int, size: int, stride: int, dilation: int
) -> Array:
    """result[o] = x[o * stride] + x[o * stride + dilation] + ... along one axis."""

    def part(y: Array, start: int, length: int, step: int = 1) -> Array:
        stop = start + (length - 1) * step + 1
        return y[(slice(None),) * axis + (slice(start, stop, step),)]

    if size == 1:
        return part(x, 0, count, stride)
    if size <= _SHORT:
        total = ufunc(part(x, 0, count, stride), part(x, dilation, count, stride))
        for k in range(2, size):
            ufunc(total, part(x, k * dilation, count, stride), out=total)
        return np.asarray(total)
    # Long windows from those of 1, 2, 4, ... elements: neighbours of each length make one of twice the length.
    length = x.shape[axis]
    power, span = x, 1
    result: Array | None = None
    covered = 0
    while True:
        if size & span:
            room = length - (covered + span - 1) * dilation
            ahead = part(power, covered * dilation, room)
            result = ahead if result is None else ufunc(part(result, 0, room), ahead)
            covered += span
        if covered == size:
            return part(np.asarray(result), 0, count, stride)
        room = length - (2 * span - 1) * dilation
        power = ufunc(part(power, 0, room), part(power, span * dilation, room))
        span *= 2


def _fold_windows_by_body(
    xs: Sequence[Array], inits: Sequence[Array], body: Any, window: Window, counts: tuple[int, ...]
) -> tuple[Array, ...]:
    """All windows at once, one of their elements after the other."""
    shape = xs[0].shape
    totals: tuple[Array, ...] = tuple(np.broadcast_to(i, counts) for i in inits)
    if 0 in counts:
        return totals
    padded = [window.padded(x, np.zeros((), x.dtype)) for x in xs]
    inside = window.is_element(shape) if window.has_padding else None
    for offset in window.offsets():
        at = window.slices(offset, counts)
        found = on_arrays(body, [*totals, *[p[at] for p in padded]])
        if inside is not None:
            mask = inside[at]
            found = tuple(np.where(mask, f, t) for f, t in zip(found, totals, strict=True))
        totals = found
    return totals


_OPTIONAL: Final = ("window_strides", "base_dilations", "window_dilations", "padding")


def read_reduce_window(reader: Reader, operation: Any) -> Any:
    """Read it with the types of the body, and what is left out."""
    params = with_defaults(reader.params(operation, reduce_window_op), _OPTIONAL)
    operands = reader.operands(operation)
    count = len(operands) // 2
    body = params["body"]
    inputs = in_types_of(body, operands[:count], "C13")
    inits = in_types_of(body, operands[count:], "C13")
    return bind(reduce_window_op, *inputs, *inits, **params)


def write_reduce_window(writer: Writer, instruction: Any) -> None:
    """As declared; but XLA aborts on several scalars, so the body of scalars is written in its place.

    And it aborts on windows of one element that leave some out: these are composed.
    """
    params = instruction.params
    if instruction.operands[0].spec.rank:
        window = Window.of(params)
        if set(window.sizes) == {1} and any(n < 0 for pair in window.padding for n in pair):
            body = params["body"]
            writer.composed(instruction, lambda *xs: tuple(composed(xs, body, window)))
        else:
            writer.declared(instruction)
        return
    count = len(instruction.results)
    operands = instruction.operands
    write_inline(writer, instruction, "body", (*operands[count:], *operands[:count]))


reduce_window_op: Op = register(Op(
    name="reduce_window",
    section="ReduceWindow",
    infer=infer_reduce_window,
    hlo=Hlo(
        "stablehlo.reduce_window",
        {**WINDOW_CODECS, "base_dilations": I64_ARRAY, "window_dilations": I64_ARRAY},
        regions=("body",),
        write=write_reduce_window,
        decomposition=lambda *xs, body, **params: tuple(composed(xs, body, Window.of(params))),
        read=read_reduce_window,
    ),
    kernel=kernel_reduce_window,
    ad=reduce_window_derivatives,
    batch=batch_reduce_window,
))  # fmt: skip


def reduce_window(
    operands: Any,
    init_values: Any,
    computation: Any,
    window_dimensions: int | Sequence[int],
    window_strides: int | Sequence[int] | None = None,
    padding: str | int | Sequence[tuple[int, int]] = "kValid",
    base_dilations: int | Sequence[int] | None = None,
    window_dilations: int | Sequence[int] | None = None,
) -> Any:
    """A window that moves over arrays, folded by a computation at each place.

    Parameters
    ----------
    operands : array or sequence of N arrays of one shape
    init_values : scalar or sequence of N scalars
        Together the identity of `computation`; they may enter any number of times.
    computation : function or Computation
        From N accumulated scalars and then N elements to N scalars: `xlapy.ops.max`, or any function that is
        associative.
    window_dimensions : int or sequence of int
        The window's size in each dimension; one number counts for all of them, here and below.
    window_strides : int or sequence of int, optional
        From one place to the next; by default 1.
    padding : str or int or sequence of pairs of int
        ``"kSame"`` (as many places as elements, divided by the stride), ``"kValid"`` (none), or how far the window
        reaches beyond the ends of each dimension.
    base_dilations, window_dilations : int or sequence of int, optional
        The distance between neighbours in the array, and in the window; by default 1.

    Returns
    -------
    Tensor or tuple of Tensor
        A tuple where `operands` is a sequence. Each size is the number of places of the window.

    Raises
    ------
    ShapeError, DTypeError, ConstraintError
        [C1] to [C13] If operands, window and computation do not fit together.

    Notes
    -----
    Section ReduceWindow of the operation semantics. What padding and holes contribute is left open there (by
    StableHLO's formula they hold the init value, in XLA on CPU they take no part), and is the same if the init values
    are the identity of the computation, as they have to be.

    `init_values` have no derivative. That of a maximum or minimum goes to the first of the largest or smallest elements
    of a window, by `select_and_scatter`. Any other computation is differentiated by its own derivative.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_window(ops.constant([10000, 1000, 100, 10, 1]), 2**31 - 1, ops.min, 3, 2, "kSame")
    Tensor([1000,   10,    1], s32[3])
    """
    inputs, inits, several = together(operands, init_values)
    body = scalar_body(computation, inputs, "computation")
    spec = inputs[0].spec
    require_array(spec, "I1", "each input")
    assert type(spec) is TensorSpec
    window = as_window(
        spec.shape, window_dimensions, window_strides, padding, base_dilations, window_dilations
    )
    results = bind(
        reduce_window_op,
        *in_types_of(body, inputs, "C13"),
        *in_types_of(body, inits, "C13"),
        body=body,
        **window.params,
    )
    return results if several else results[0]
