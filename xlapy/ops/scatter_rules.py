"""The derivatives of scatter: one rule for each kind of update, and one for any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import NotDifferentiableError
from xlapy.specs import TensorSpec
from xlapy.trace.autodiff import has_tangent, jvp_computation, vjp_computation
from xlapy.trace.batching import batch_computation
from xlapy.trace.builder import as_computation
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead

from .elementwise import and_
from .forms import converted, reshaped
from .gather import index_bounds
from .rules import Rules, by_body, constant_like, zeros_like, zeros_of
from .scalar_bodies import replacement, scalar_operation

Params = Mapping[str, Any]

# --- what scatter and gather share ----------------------------------------------------------------


def window_sizes(x: TensorSpec, update: TensorSpec, params: Params) -> tuple[int, ...]:
    """The window's size in each dimension of the input."""
    sizes = [1] * x.rank
    dropped = (*params["inserted_window_dims"], *params["input_batching_dims"])
    kept = [d for d in range(x.rank) if d not in dropped]
    for d, i in zip(kept, params["update_window_dims"], strict=True):
        sizes[d] = update.shape[i]
    return tuple(sizes)


def windows_of(x: Any, indices: Any, update: TensorSpec, params: Params) -> Any:
    """The elements of `x` that each update meets, in the updates' shape; anything for windows that are skipped."""
    if x.spec.size == 0 or update.size == 0:
        return zeros_of(update.with_dtype(x.spec.dtype))
    return bind(
        lookup("gather"),
        x,
        indices,
        offset_dims=params["update_window_dims"],
        collapsed_slice_dims=params["inserted_window_dims"],
        operand_batching_dims=params["input_batching_dims"],
        start_indices_batching_dims=params["scatter_indices_batching_dims"],
        start_index_map=params["scatter_dims_to_operand_dims"],
        index_vector_dim=params["index_vector_dim"],
        slice_sizes=window_sizes(x.spec, update, params),
        indices_are_sorted=params["indices_are_sorted"],
    )


def is_inside(x: TensorSpec, indices: Any, update: TensorSpec, params: Params) -> Any:
    """For each element of the updates, whether its window is inside the input."""
    if x.size == 0:
        return zeros_of(update.with_dtype("pred"))
    vector = params["index_vector_dim"]
    index_map = params["scatter_dims_to_operand_dims"]
    room = [n - m for n, m in zip(x.shape, window_sizes(x, update, params))]
    low, high = index_bounds(indices.spec, vector, index_map, room)
    compare = lookup("compare")
    kind = "SIGNED" if indices.spec.dtype.kind == "int" else "UNSIGNED"
    mask = bind(
        lookup("and"),
        bind(compare, indices, low, comparison_direction="GE", compare_type=kind),
        bind(compare, indices, high, comparison_direction="LE", compare_type=kind),
    )
    if vector < indices.spec.rank:
        scalar = TensorSpec((), "pred")
        true = bind(lookup("constant"), value=np.array(True))
        body = as_computation(and_, [scalar, scalar])
        (mask,) = bind(lookup("reduce"), mask, true, body=body, dimensions=(vector,))
    outside = tuple(d for d in range(update.rank) if d not in params["update_window_dims"])
    return bind(lookup("broadcast_in_dim"), mask, shape=update.shape, broadcast_dimensions=outside)


def scattered(
    x: Any, indices: Any, update: Any, params: Params, body: Computation | None = None
) -> Any:
    """A scatter of one input with the same dimension numbers: that of `params`, or of another body."""
    if body is not None:
        params = {**params, "update_computation": body}
    (result,) = bind(lookup("scatter"), x, indices, update, **params)
    return result


def _mul(a: Any, b: Any) -> Any:
    return bind(lookup("mul"), a, b)


def _select(mask: Any, a: Any, b: Any = None) -> Any:
    """`a` where the mask is set, elsewhere `b` or zero."""
    return bind(lookup("select"), mask, a, zeros_like(a) if b is None else b)


def _equal(a: Any, b: Any) -> Any:
    kind = {"int": "SIGNED", "uint": "UNSIGNED"}.get(a.spec.dtype.kind, "FLOAT")
    return bind(lookup("compare"), a, b, comparison_direction="EQ", compare_type=kind)


def _converted(x: Any, dtype: Any) -> Any:
    """A value in an element type; None, a symbolic zero, in every one."""
    return None if x is None else converted(x, dtype)


class _One:
    """The operands of a scatter of one input, in the type of the update computation."""

    __slots__ = ("dtype", "indices", "params", "update", "x")

    def __init__(self, operands: Sequence[Any], outs: Sequence[Any], params: Params) -> None:
        x, self.indices, update = operands
        self.dtype = x.spec.dtype
        self.x = _converted(x, outs[0].spec.dtype)
        self.update = _converted(update, outs[0].spec.dtype)
        self.params = params

    def tangents(self, tangents: Sequence[Any]) -> tuple[Any, Any]:
        dtype = self.x.spec.dtype
        tx, _, tu = tangents
        return _converted(tx, dtype), _converted(tu, dtype)

    def cotangents(self, gx: Any, gu: Any) -> list[Any]:
        return [_converted(gx, self.dtype), None, _converted(gu, self.dtype)]

    def windows(self, a: Any) -> Any:
        return windows_of(a, self.indices, self.update.spec, self.params)

    def inside(self) -> Any:
        return is_inside(self.x.spec, self.indices, self.update.spec, self.params)

    def scattered(self, x: Any, update: Any, body: Computation | None = None) -> Any:
        return scattered(x, self.indices, update, self.params, body)


def _or_zeros(t: Any, like: Any) -> Any:
    return zeros_like(like) if t is None else t


# --- linear bodies --------------------------------------------------------------------------------


def jvp_linear(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """The same scatter of the tangents."""
    one = _One(operands, outs, params)
    tx, tu = one.tangents(tangents)
    return (one.scattered(_or_zeros(tx, one.x), _or_zeros(tu, one.update)),)


def vjp_add(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """The cotangent, and the windows of it that are inside."""
    one = _One(operands, outs, params)
    (g,) = cotangents
    return one.cotangents(g, _select(one.inside(), one.windows(g)))


def vjp_sub(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """As of a sum, with the sign."""
    one = _One(operands, outs, params)
    (g,) = cotangents
    return one.cotangents(g, _select(one.inside(), one.windows(bind(lookup("neg"), g))))


def vjp_second(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """Zero where an update came to stand; of several updates, the one that stayed gets the cotangent."""
    one = _One(operands, outs, params)
    (g,) = cotangents
    body = replacement(g.spec.dtype)
    gx = one.scattered(g, zeros_like(one.update), body)
    if params["unique_indices"]:
        stayed = one.inside()
    else:
        # Each update leaves its number; those that find it again stayed. A window outside finds others.
        spec = one.update.spec
        number = TensorSpec((), "u32" if spec.size < 2**32 - 1 else "u64").dtype
        count = bind(lookup("iota"), shape=(spec.size,), dtype=number, iota_dimension=0)
        count = bind(lookup("add"), count, constant_like(count, 1))
        numbers = bind(lookup("reshape"), count, shape=spec.shape)
        left = one.scattered(zeros_of(one.x.spec.with_dtype(number)), numbers, replacement(number))
        stayed = _equal(one.windows(left), numbers)
    return one.cotangents(gx, _select(stayed, one.windows(g)))


def vjp_first(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """The updates have no effect."""
    return _One(operands, outs, params).cotangents(cotangents[0], None)


# --- products -------------------------------------------------------------------------------------


def other_factors(one: _One) -> Any:
    """For each update, the product of what else comes to the element that it meets.

    A quotient would fail where factors are zero, so the others are multiplied: in order of their places, all those of
    the same place before and after each.
    """
    x_at = one.windows(one.x)
    spec = one.update.spec
    count = spec.size
    if one.params["unique_indices"] or count < 2:
        return x_at
    reshape, sort, iota = lookup("reshape"), lookup("sort"), lookup("iota")
    number = TensorSpec((), "s32" if max(one.x.spec.size, count) < 2**31 - 1 else "s64").dtype
    places = bind(iota, shape=(one.x.spec.size,), dtype=number, iota_dimension=0)
    places = one.windows(bind(reshape, places, shape=one.x.spec.shape))
    # The windows outside have a place of their own.
    nowhere = constant_like(places, one.x.spec.size)
    places = bind(reshape, _select(one.inside(), places, nowhere), shape=(count,))
    factors = bind(reshape, one.update, shape=(count,))
    rows = bind(iota, shape=(count,), dtype=number, iota_dimension=0)
    places, order = bind(
        sort, places, rows, dimension=0, is_stable=True, comparator=_ascending(number)
    )
    factors = _taken(factors, order)
    before = _products(factors, places, 1)
    after = _products(factors, places, -1)
    _, back = bind(sort, order, rows, dimension=0, is_stable=True, comparator=_ascending(number))
    others = _taken(_mul(before, after), back)
    return _mul(x_at, bind(reshape, others, shape=spec.shape))


def _ascending(dtype: Any) -> Computation:
    scalar = TensorSpec((), dtype)

    def compare_first(a: Any, b: Any, c: Any, d: Any) -> Any:
        return bind(lookup("compare"), a, b, comparison_direction="LT", compare_type="SIGNED")

    return as_computation(compare_first, [scalar] * 4, name="ascending")


def _taken(x: Any, order: Any) -> Any:
    """x[order], for a permutation."""
    return bind(
        lookup("gather"),
        x,
        order,
        offset_dims=(),
        collapsed_slice_dims=(0,),
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1,),
        indices_are_sorted=False,
    )


def _shifted(x: Any, by: int, fill: int) -> Any:
    value = bind(lookup("constant"), value=np.array(fill).astype(x.spec.dtype.numpy))
    return bind(
        lookup("pad"),
        x,
        value,
        edge_padding_low=(by,),
        edge_padding_high=(-by,),
        interior_padding=(0,),
    )


def _products(factors: Any, places: Any, direction: int) -> Any:
    """The products of the factors at the same place before each (after, in the other direction), without its own.

    By doubling: after the step d each entry holds the product of the d to its side.
    """

    def at_distance(x: Any, d: int) -> Any:
        same = _equal(places, _shifted(places, direction * d, -1))
        return _select(same, _shifted(x, direction * d, 1), constant_like(x, 1))

    count = factors.spec.shape[0]
    total = factors
    d = 1
    while d < count:
        total = _mul(total, at_distance(total, d))
        d *= 2
    return at_distance(total, 1)


def jvp_mul(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """Each factor's tangent times the other factors."""
    one = _One(operands, outs, params)
    tx, tu = one.tangents(tangents)
    total = zeros_like(one.x) if tx is None else one.scattered(tx, one.update)
    if tu is not None:
        total = one.scattered(
            total, _mul(tu, other_factors(one)), scalar_operation("add", total.spec.dtype)
        )
    return (total,)


def vjp_mul(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """The cotangent times the other factors."""
    one = _One(operands, outs, params)
    (g,) = cotangents
    gu = _select(one.inside(), _mul(one.windows(g), other_factors(one)))
    return one.cotangents(one.scattered(g, one.update), gu)


# --- maximum and minimum --------------------------------------------------------------------------


def _shares(one: _One, out: Any) -> tuple[Any, Any, Any]:
    """Which elements of the input and of the updates attain the result, and how many attain each."""
    x_attains = _equal(one.x, out)
    u_attains = bind(lookup("and"), _equal(one.update, one.windows(out)), one.inside())
    dtype = out.spec.dtype
    number = bind(lookup("select"), x_attains, constant_like(one.x, 1), zeros_like(one.x))
    ones = bind(lookup("select"), u_attains, constant_like(one.update, 1), zeros_like(one.update))
    return x_attains, u_attains, one.scattered(number, ones, scalar_operation("add", dtype))


def jvp_extreme(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """The mean of the tangents of those that attain the result."""
    one = _One(operands, outs, params)
    tx, tu = one.tangents(tangents)
    x_attains, u_attains, number = _shares(one, outs[0])
    total = zeros_like(one.x) if tx is None else _select(x_attains, tx)
    if tu is not None:
        total = one.scattered(
            total, _select(u_attains, tu), scalar_operation("add", total.spec.dtype)
        )
    return (bind(lookup("div"), total, _at_least_one(number)),)


def vjp_extreme(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """Those that attain the result share the cotangent equally."""
    one = _One(operands, outs, params)
    x_attains, u_attains, number = _shares(one, outs[0])
    share = bind(lookup("div"), cotangents[0], _at_least_one(number))
    return one.cotangents(_select(x_attains, share), _select(u_attains, one.windows(share)))


def _at_least_one(number: Any) -> Any:
    """Where the result is nan nothing attains it."""
    return bind(lookup("max"), number, constant_like(number, 1))


# --- any other computation ------------------------------------------------------------------------


def _parts(body: Computation) -> list[Computation] | None:
    """The body as one for each input, if these do not mix."""
    count = len(body.results)
    found = []
    for i, result in enumerate(body.results):
        own = (body.parameters[i], body.parameters[count + i])
        part = eliminate_dead(Computation(body.parameters, body.instructions, (result,), body.name))
        used = {v for instruction in part.instructions for v in instruction.operands} | {result}
        if any(p in used for p in body.parameters if p not in own):
            return None
        found.append(Computation(own, part.instructions, (result,), body.name))
    return found


def _apart(params: Params, part: Computation) -> dict[str, Any]:
    return {**params, "update_computation": part}


def _elementwise(body: Computation, size: int) -> Computation:
    """The body on arrays of one dimension."""
    return batch_computation(body, [True] * len(body.parameters), size, [True] * len(body.results))[
        0
    ]


def _flat(xs: Sequence[Any]) -> list[Any]:
    return [reshaped(x, (x.spec.size,)) for x in xs]


def _as(xs: Sequence[Any], like: TensorSpec) -> list[Any]:
    return [reshaped(x, like.shape) for x in xs]


def jvp_any(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """Scatter the values together with their tangents."""
    count = len(outs)
    op = lookup("scatter")
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    tx, tu = tangents[:count], tangents[count + 1 :]
    body = params["update_computation"]
    parts = _parts(body) if count > 1 else None
    if parts is not None:
        return [
            None
            if a is None and b is None
            else op.ad.jvp(op, [x, indices, u], [a, None, b], [out], _apart(params, part))[0]
            for x, u, a, b, out, part in zip(inputs, updates, tx, tu, outs, parts)
        ]
    active = [has_tangent(out.spec) for out in outs]
    wide = [out.spec.dtype for out in outs]
    inputs = [_converted(x, t) for x, t in zip(inputs, wide)]
    updates = [_converted(u, t) for u, t in zip(updates, wide)]
    tx = [_converted(_or_zeros(t, x), x.spec.dtype) for t, x, a in zip(tx, inputs, active) if a]
    tu = [_converted(_or_zeros(t, u), u.spec.dtype) for t, u, a in zip(tu, updates, active) if a]
    if params["unique_indices"]:
        like = updates[0].spec
        forward, _ = jvp_computation(_elementwise(body, like.size), active * 2, active)
        at = [windows_of(a, indices, like, params) for a in (*inputs, *tx)]
        arguments = [*at[:count], *updates, *at[count:], *tu]
        new = _as(inline(forward, _flat(arguments))[count:], like)
        made = (
            scattered(t, indices, n, params, replacement(t.spec.dtype))
            for t, n in zip(tx, new, strict=True)
        )
        return [next(made) if a else None for a in active]
    # The body and its tangents, with the parameters in the order of the new scatter.
    forward, _ = jvp_computation(body, active * 2, active)
    some = sum(active)
    old, old_t = forward.parameters[: 2 * count], forward.parameters[2 * count :]
    together = Computation(
        [*old[:count], *old_t[:some], *old[count:], *old_t[some:]],
        forward.instructions,
        forward.results,
        forward.name,
    )
    found = bind(op, *inputs, *tx, indices, *updates, *tu, **_apart(params, together))
    rest = iter(found[count:])
    return [next(rest) if a else None for a in active]


def vjp_any(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """If no element is updated twice, the body's own way back between a gather and a scatter."""
    count = len(outs)
    op = lookup("scatter")
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    body = params["update_computation"]
    parts = _parts(body) if count > 1 else None
    gx: list[Any] = [None] * count
    gu: list[Any] = [None] * count
    if parts is not None:
        for i, (x, u, g, out, part) in enumerate(zip(inputs, updates, cotangents, outs, parts)):
            if g is not None:
                found = op.ad.vjp(
                    op, [x, indices, u], [g], [out], _apart(params, part), [True, False, True]
                )
                gx[i], _, gu[i] = found
        return [*gx, None, *gu]
    if not params["unique_indices"]:
        raise NotDifferentiableError(
            "scatter: update_computation must, for a derivative in reverse mode, be one of add, sub, mul, max, min or a"
            " replacement, or unique_indices True; got a larger one without [X4]"
        )
    active = [has_tangent(out.spec) for out in outs]
    types = [x.spec.dtype for x in inputs]
    inputs = [_converted(x, out.spec.dtype) for x, out in zip(inputs, outs)]
    updates = [_converted(u, out.spec.dtype) for u, out in zip(updates, outs)]
    like = updates[0].spec
    given = [_or_zeros(g, out) for g, out, a in zip(cotangents, outs, active) if a]
    backward = vjp_computation(_elementwise(body, like.size), active * 2, active)
    at = [windows_of(a, indices, like, params) for a in (*inputs, *given)]
    new = _as(inline(backward, _flat([*at[:count], *updates, *at[count:]])), like)
    inside = is_inside(inputs[0].spec, indices, like, params)
    which = [i for i, a in enumerate(active) if a]
    for i, g, of_x, of_u in zip(which, given, new[: len(which)], new[len(which) :], strict=True):
        replaced = scattered(g, indices, of_x, params, replacement(g.spec.dtype))
        gx[i] = _converted(replaced, types[i])
        gu[i] = _converted(_select(inside, of_u), types[i])
    return [*gx, None, *gu]


scatter_derivatives: Final = by_body(
    "update_computation",
    generic=Rules(jvp_any, vjp_any),
    add=Rules(jvp_linear, vjp_add),
    sub=Rules(jvp_linear, vjp_sub),
    second=Rules(jvp_linear, vjp_second),
    first=Rules(jvp_linear, vjp_first),
    mul=Rules(jvp_mul, vjp_mul),
    max=Rules(jvp_extreme, vjp_extreme),
    min=Rules(jvp_extreme, vjp_extreme),
)
