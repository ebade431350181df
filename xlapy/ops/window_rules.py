"""The derivatives of windows, and their vectorised form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from xlapy.specs import TensorSpec
from xlapy.trace.batching import replay_batched
from xlapy.trace.builder import as_computation, trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.zeros import constant_of

from .reduction import identity
from .reduction_rules import (
    batch_fold,
    jvp_by_body,
    refuse_init,
    require_associative,
    without_leading,
)
from .rules import body_name, broadcast_leading, vjp_through, zeros_like, zeros_of
from .scalar_bodies import applied, scalar_operation
from .window_geometry import Window

Params = Mapping[str, Any]
Ints = tuple[int, ...]

# --- sums -----------------------------------------------------------------------------------------


def window_sum(x: Any, window: Window) -> Any:
    """The sum of each window."""
    dtype = x.spec.dtype
    zero = zeros_of(TensorSpec((), dtype))
    body = scalar_operation("add", dtype)
    return bind(lookup("reduce_window"), x, zero, body=body, **window.params)[0]


def transposed_window(shape: Sequence[int], window: Window) -> Window:
    """The window over the cotangents whose sums are those of the elements.

    Element i of the array is element k of the window at place o where low + i * base = o * stride + k * dilation. So
    the places are the cotangents at a distance of the stride, and the elements those where a window ends.
    """
    pairs = []
    for n, m, low, size, stride, base, dilation in zip(
        shape, window.counts(shape), window.low, window.sizes, window.strides,
        window.base_dilations, window.window_dilations, strict=True,
    ):  # fmt: skip
        before = (size - 1) * dilation - low
        after = (n - 1) * base + low - (m - 1) * stride
        pairs.append((before, after))
    return Window(
        window.sizes, window.base_dilations, window.strides, window.window_dilations, tuple(pairs)
    )


def vjp_window_sum(x: TensorSpec, cotangent: Any, window: Window) -> Any:
    """The sum of the cotangents of the windows that hold each element."""
    if 0 in cotangent.spec.shape or 0 in x.shape:
        return zeros_of(x)
    return window_sum(cotangent, transposed_window(x.shape, window))


# --- maxima and minima ----------------------------------------------------------------------------

_SELECTS: Final = {"max": "GE", "min": "LE"}


def _compare_body(direction: str, dtype: Any) -> Computation:
    """A comparison of two scalars."""
    scalar = TensorSpec((), dtype)
    kind = {"int": "SIGNED", "uint": "UNSIGNED", "bool": "UNSIGNED"}.get(dtype.kind, "FLOAT")
    key = (direction, dtype)
    found = _comparisons.get(key)
    if found is None:
        found = _comparisons[key] = as_computation(
            lambda a, b: bind(
                lookup("compare"), a, b, comparison_direction=direction, compare_type=kind
            ),
            [scalar, scalar],
            name=direction.lower(),
            shared=True,
        )
    return found


_comparisons: dict[Any, Computation] = {}


def select_and_gather(
    operand: Any, values: Any, select: Computation, window: Window, absent: int = 0
) -> Any:
    """The value at the place of the selected element of each window: what select_and_scatter's transpose is.

    Neither the padding nor what starts the fold is selected, for a third operand says what is an element. A window
    without elements gives `absent`.
    """
    spec, dtype = operand.spec, values.spec.dtype
    pred = TensorSpec((), "pred")

    def better(a: Any, v: Any, is_a: Any, b: Any, w: Any, is_b: Any) -> Sequence[Any]:
        (chosen,) = inline(select, [a, b])
        negate, both, either = lookup("not"), lookup("and"), lookup("or")
        first = bind(both, is_a, bind(either, chosen, bind(negate, is_b)))
        return (
            bind(lookup("select"), first, a, b),
            bind(lookup("select"), first, v, w),
            bind(either, is_a, is_b),
        )

    scalars = [TensorSpec((), spec.dtype), TensorSpec((), dtype), pred]
    body = as_computation(better, scalars * 2, name="select")
    inits = [zeros_of(scalars[0]), constant_of(scalars[1], absent), zeros_of(pred)]
    elements = constant_of(spec.with_dtype("pred"), True)
    outs = bind(
        lookup("reduce_window"), operand, values, elements, *inits, body=body, **window.params
    )
    return outs[1]


def jvp_extreme(x: Any, tangent: Any, window: Window, name: str) -> Any:
    """The tangent of the element that is chosen."""
    return select_and_gather(x, tangent, _compare_body(_SELECTS[name], x.spec.dtype), window)


def vjp_extreme(x: Any, cotangent: Any, window: Window, name: str) -> Any:
    """Each cotangent to the element that is chosen, by select_and_scatter; the windows have no holes."""
    spec, dtype = x.spec, x.spec.dtype
    if 0 in cotangent.spec.shape or 0 in spec.shape:
        return zeros_like(x)
    explicit = any(d != 1 for d in window.base_dilations) or any(
        n < 0 for n in (*window.low, *window.high)
    )
    if explicit:
        x = bind(
            lookup("pad"), x, identity(name, dtype), edge_padding_low=window.low,
            edge_padding_high=window.high, interior_padding=window.interior,
        )  # fmt: skip
        padding = ((0, 0),) * spec.rank
    else:
        padding = window.padding
    found = bind(
        lookup("select_and_scatter"), x, cotangent, zeros_of(TensorSpec((), dtype)),
        select=_compare_body(_SELECTS[name], dtype), scatter=scalar_operation("add", dtype),
        window_dimensions=window.sizes, window_strides=window.strides, padding=padding,
    )  # fmt: skip
    return unpadded(found, spec.shape, window) if explicit else found


def unpadded(x: Any, shape: Sequence[int], window: Window) -> Any:
    """What lies at the elements of an array that was padded."""
    edges = [
        (-low, (n - 1) * base + 1 + low - m)
        for n, m, low, base in zip(
            shape, x.spec.shape, window.low, window.base_dilations, strict=True
        )
    ]
    zero = zeros_of(TensorSpec((), x.spec.dtype))
    cut = bind(
        lookup("pad"), x, zero, edge_padding_low=tuple(e[0] for e in edges),
        edge_padding_high=tuple(e[1] for e in edges), interior_padding=(0,) * len(edges),
    )  # fmt: skip
    if all(d == 1 for d in window.base_dilations):
        return cut
    return bind(
        lookup("slice"), cut, start_indices=(0,) * len(edges), limit_indices=cut.spec.shape,
        strides=window.base_dilations,
    )  # fmt: skip


# --- any body -------------------------------------------------------------------------------------


def composed(operands: Sequence[Any], body: Computation, window: Window) -> list[Any]:
    """A reduce_window composed of applications of its body to whole arrays; the elements keep their order.

    One dimension after the other from the last, each by windows of 1, 2, 4, ... elements.
    """
    count = len(operands) // 2
    inputs, inits = list(operands[:count]), operands[count:]
    counts = window.counts(inputs[0].spec.shape)
    broadcast = lookup("broadcast_in_dim")
    totals = [bind(broadcast, i, shape=counts, broadcast_dimensions=()) for i in inits]
    if 0 in counts:
        return totals
    if any((*window.low, *window.high, *window.interior)):
        inputs = [
            bind(
                lookup("pad"), x, i, edge_padding_low=window.low, edge_padding_high=window.high,
                interior_padding=window.interior,
            )
            for x, i in zip(inputs, inits, strict=True)
        ]  # fmt: skip
    for axis in reversed(range(len(counts))):
        inputs = _fold_axis(
            inputs, body, axis, counts[axis], window.sizes[axis], window.strides[axis],
            window.window_dilations[axis],
        )  # fmt: skip
    return applied(body, [*totals, *inputs])


def _fold_axis(
    xs: list[Any], body: Computation, axis: int, count: int, size: int, stride: int, dilation: int
) -> list[Any]:
    """As the kernel's for long windows."""
    length = xs[0].spec.shape[axis]
    power, span = xs, 1
    result: list[Any] | None = None
    covered = 0
    while True:
        if size & span:
            room = length - (covered + span - 1) * dilation
            ahead = _parts(power, axis, covered * dilation, room)
            result = (
                ahead if result is None else applied(body, [*_parts(result, axis, 0, room), *ahead])
            )
            covered += span
        if covered == size:
            assert result is not None
            return _parts(result, axis, 0, count, stride)
        room = length - (2 * span - 1) * dilation
        power = applied(
            body, [*_parts(power, axis, 0, room), *_parts(power, axis, span * dilation, room)]
        )
        span *= 2


def _parts(xs: Sequence[Any], axis: int, start: int, length: int, step: int = 1) -> list[Any]:
    shape = xs[0].spec.shape
    if start == 0 and length == shape[axis] and step == 1:
        return list(xs)
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, start + (length - 1) * step + 1, step
    return [
        bind(
            lookup("slice"),
            x,
            start_indices=tuple(starts),
            limit_indices=tuple(limits),
            strides=tuple(steps),
        )
        for x in xs
    ]


def vjp_of(
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    cotangents: Sequence[Any],
    needed: Sequence[bool],
) -> list[Any]:
    """The way back through a composition of other operations."""
    forward = trace(function, [x.spec for x in operands], name="composed").computation
    return vjp_through(forward, operands, cotangents, needed)


@final
class ReduceWindowDerivatives:
    """By the body: sums, maxima and minima by formulas, any other one by its own derivative."""

    kind: Final = "by body"
    __slots__ = ()

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The tangents of the results."""
        count = len(operands) // 2
        refuse_init(op, [t is not None for t in tangents[count:]])
        name = body_name(params["body"])
        window = Window.of(params)
        if name == "add":
            return [window_sum(tangents[0], window)]
        if name in _SELECTS and operands[0].spec.dtype.kind == "float":
            return [jvp_extreme(operands[0], tangents[0], window, str(name))]
        return jvp_by_body(op, operands, tangents, params)

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The cotangents of the operands."""
        count = len(operands) // 2
        refuse_init(op, needed[count:])
        name = body_name(params["body"])
        window = Window.of(params)
        x = operands[0]
        if name == "add":
            return [vjp_window_sum(x.spec, cotangents[0], window), None]
        if name in _SELECTS and x.spec.dtype.kind == "float":
            if all(d == 1 for d in window.window_dilations):
                return [vjp_extreme(x, cotangents[0], window, str(name)), None]
            select = _compare_body(_SELECTS[str(name)], x.spec.dtype)
            found = scatter_to_selected(x, cotangents[0], select, window)
            return [found, None]
        require_associative(op, name or "")
        body = params["body"]
        return vjp_of(lambda *xs: composed(xs, body, window), operands, cotangents, needed)


reduce_window_derivatives: Final = ReduceWindowDerivatives()


# --- by the places of what is selected ------------------------------------------------------------


def selected_places(operand: Any, select: Computation, window: Window) -> Any:
    """The number of the selected element of each window, counting the operand's in order; their count if none is."""
    spec = operand.spec
    number = TensorSpec((), "s32" if spec.size < 2**31 else "s64").dtype
    places = bind(lookup("iota"), shape=(spec.size,), dtype=number, iota_dimension=0)
    places = bind(lookup("reshape"), places, shape=spec.shape)
    return select_and_gather(operand, places, select, window, spec.size)


def scattered(
    operand: Any, source: Any, init: Any, select: Computation, scatter: Computation, window: Window
) -> Any:
    """select_and_scatter composed of a search for the places and a scatter."""
    spec = operand.spec
    places = selected_places(operand, select, window)
    count = places.spec.size
    flat = bind(lookup("broadcast_in_dim"), init, shape=(spec.size,), broadcast_dimensions=())
    (found,) = bind(
        lookup("scatter"),
        flat,
        bind(lookup("reshape"), places, shape=(count, 1)),
        bind(lookup("reshape"), source, shape=(count,)),
        update_computation=scatter,
        update_window_dims=(),
        inserted_window_dims=(0,),
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        indices_are_sorted=False,
        unique_indices=False,
    )
    return bind(lookup("reshape"), found, shape=spec.shape)


def scatter_to_selected(x: Any, cotangent: Any, select: Computation, window: Window) -> Any:
    """The sum of the cotangents of the windows in which each element is selected."""
    dtype = cotangent.spec.dtype
    if 0 in cotangent.spec.shape or 0 in x.spec.shape:
        return zeros_like(x)
    zero = zeros_of(TensorSpec((), dtype))
    return scattered(x, cotangent, zero, select, scalar_operation("add", dtype), window)


# --- batching -------------------------------------------------------------------------------------


def batch_reduce_window(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, body: Any, **params: Any
) -> Any:
    """A window of 1 over the new dimension."""
    wider = Window.of(params).widened().params
    return batch_fold(op, args, is_batched, size, body, wider)


def batch_composed(
    function: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
) -> tuple[Any, ...]:
    """The vectorised form of a composition of other operations."""
    specs = [
        without_leading(a.spec) if b else a.spec for a, b in zip(args, is_batched, strict=True)
    ]
    forward = trace(function, specs, name="composed").computation
    results, found = replay_batched(forward, args, is_batched, size)
    return tuple(
        r if b else broadcast_leading(r, size) for r, b in zip(results, found, strict=True)
    )
