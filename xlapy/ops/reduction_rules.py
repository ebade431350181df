"""The derivatives of reductions, and their vectorised form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from xlapy.errors import NotDifferentiableError
from xlapy.specs import TensorSpec, has_unknown
from xlapy.trace.autodiff import jvp_computation
from xlapy.trace.builder import as_computation, trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.sizes import broadcast_any, sized_like
from xlapy.trace.zeros import constant_of

from .regions import rearranged
from .rules import body_name, broadcast_leading, constant_like, vjp_through, zeros_like, zeros_of
from .scalar_bodies import applied

Ints = tuple[int, ...]
Params = Mapping[str, Any]

#: operations that a reduction may meet as its body though no order of the elements gives the same
_NOT_ASSOCIATIVE: Final = frozenset(
    {"sub", "div", "pow", "rem", "atan2", "next_after", "complex", "shift_left"}
)

# --- small parts ----------------------------------------------------------------------------------


def refuse_init(op: Op, wanted: Sequence[bool]) -> None:
    """An init value is the identity of the body: it may enter any number of times, and has no derivative."""
    if any(wanted):
        raise NotDifferentiableError(
            f"{op.name}: init_values must be constants: they are the body's identity, and have no derivative;"
            f" got one that is differentiated [X4]"
        )


def repeated(x: Any, like: Any, dimensions: Ints) -> Any:
    """A reduction's result along the dimensions of its operand that were reduced."""
    spec = like.spec
    kept = tuple(d for d in range(spec.rank) if d not in dimensions)
    if has_unknown(spec.shape):
        return broadcast_any(x, spec.shape, kept, (like,))
    made = bind(lookup("broadcast_in_dim"), x, shape=spec.shape, broadcast_dimensions=kept)
    return sized_like(made, like)


def compared(a: Any, b: Any, direction: str) -> Any:
    """A comparison of two floats or complex numbers."""
    return bind(lookup("compare"), a, b, comparison_direction=direction, compare_type="FLOAT")


def where(mask: Any, x: Any) -> Any:
    """`x` where the mask is set, elsewhere zero."""
    return bind(lookup("select"), mask, x, zeros_like(x))


def summed(x: Any, dimensions: Ints) -> Any:
    """The sum over dimensions."""
    from .reduction import reduce_sum

    return reduce_sum(x, dimensions) if dimensions else x


# --- add ------------------------------------------------------------------------------------------


def jvp_sum(x: Any, tangent: Any, out: Any, dimensions: Ints) -> Any:
    """The sum of the tangents."""
    return summed(tangent, dimensions)


def vjp_sum(x: Any, cotangent: Any, out: Any, dimensions: Ints) -> Any:
    """The cotangent at every element."""
    return repeated(cotangent, x, dimensions)


# --- max and min ----------------------------------------------------------------------------------


def _chosen(x: Any, out: Any, dimensions: Ints) -> tuple[Any, Any]:
    """Which elements are the result (where that is nan, the nans), and how many of them."""
    mask = bind(lookup("or"), compared(x, repeated(out, x, dimensions), "EQ"), compared(x, x, "NE"))
    ones = bind(lookup("convert_element_type"), mask, dtype=x.spec.dtype)
    count = summed(ones, dimensions)
    # None is chosen if the init value was better than all.
    return mask, bind(lookup("max"), count, constant_like(count, 1))


def jvp_extreme(x: Any, tangent: Any, out: Any, dimensions: Ints) -> Any:
    """The mean of the tangents of the chosen."""
    mask, count = _chosen(x, out, dimensions)
    return bind(lookup("div"), summed(where(mask, tangent), dimensions), count)


def vjp_extreme(x: Any, cotangent: Any, out: Any, dimensions: Ints) -> Any:
    """Equal shares for the chosen."""
    mask, count = _chosen(x, out, dimensions)
    share = bind(lookup("div"), cotangent, count)
    return where(mask, repeated(share, x, dimensions))


_PLAIN: Final = {
    "add": (jvp_sum, vjp_sum), "max": (jvp_extreme, vjp_extreme), "min": (jvp_extreme, vjp_extreme)
}  # fmt: skip

# --- any body -------------------------------------------------------------------------------------


def dual_body(body: Computation, active: Sequence[bool]) -> tuple[Computation, list[bool]]:
    """The body on values and tangents: it folds (values, tangents) as the body folds values.

    Parameters
    ----------
    body : Computation
        Of N accumulated scalars and N elements.
    active : sequence of bool
        Which of the N have tangents.

    Returns
    -------
    body : Computation
        Of N values, the active ones' tangents, and the same again.
    active : list of bool
        Those that have tangents once the tangents have gone through the body.
    """
    found = list(active)
    while True:
        _, outs = jvp_computation(body, found * 2)
        grown = [a or o for a, o in zip(found, outs, strict=True)]
        if grown == found:
            break
        found = grown
    dual, _ = jvp_computation(body, found * 2, found)
    count, extra = len(found), sum(found)
    specs = list(body.parameter_specs[:count])
    specs += [s for s, a in zip(specs, found, strict=True) if a]
    taken = [
        *range(count),
        *range(count + extra, 2 * count + extra),
        *range(count, count + extra),
        *range(2 * count + extra, 2 * (count + extra)),
    ]
    return eliminate_dead(rearranged(dual, specs * 2, taken)), found


def jvp_by_body(
    op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Params
) -> list[Any]:
    """One fold of the values and their tangents together."""
    count = len(operands) // 2
    inputs, inits = operands[:count], operands[count:]
    body, active = dual_body(params["body"], [t is not None for t in tangents[:count]])
    pairs = [
        (zeros_like(x) if t is None else t, zeros_like(i))
        for x, t, i, a in zip(inputs, tangents, inits, active, strict=False)
        if a
    ]
    outs = bind(
        op,
        *inputs, *[t for t, _ in pairs],
        *inits, *[z for _, z in pairs],
        **{**params, "body": body},
    )  # fmt: skip
    found = iter(outs[count:])
    return [next(found) if a else None for a in active]


def tree(operands: Sequence[Any], body: Computation, dimensions: Ints) -> list[Any]:
    """A reduction composed of applications of its body to whole arrays, by halves; the elements keep their order."""
    count = len(operands) // 2
    spec = operands[0].spec
    axes = tuple(sorted(dimensions))
    kept = tuple(d for d in range(spec.rank) if d not in axes)
    shape = tuple(spec.shape[d] for d in kept)
    length, size = math.prod(spec.shape[d] for d in axes), math.prod(shape)
    inits = [
        bind(lookup("broadcast_in_dim"), i, shape=shape, broadcast_dimensions=())
        for i in operands[count:]
    ]
    if not length:
        return inits
    rows = []
    for x in operands[:count]:
        if axes + kept != tuple(range(spec.rank)):
            x = bind(lookup("transpose"), x, permutation=axes + kept)
        rows.append(bind(lookup("reshape"), x, shape=(length, size)))
    last = folded_rows(rows, body)
    return applied(body, [*inits, *[bind(lookup("reshape"), r, shape=shape) for r in last]])


def folded_rows(rows: Sequence[Any], body: Computation) -> list[Any]:
    """The rows of matrices folded into one each, neighbours first."""
    found = list(rows)
    length = found[0].spec.shape[0]
    while length > 1:
        even = length // 2 * 2
        halves = [_rows(r, i, even, 2) for i in (0, 1) for r in found]
        pairs = applied(body, halves)
        if even < length:
            pairs = [
                bind(lookup("concatenate"), p, _rows(r, even, length, 1), dimension=0)
                for p, r in zip(pairs, found, strict=True)
            ]
        found = pairs
        length -= length // 2
    return found


def _rows(x: Any, start: int, limit: int, stride: int) -> Any:
    return bind(
        lookup("slice"),
        x,
        start_indices=(start, 0),
        limit_indices=(limit, x.spec.shape[1]),
        strides=(stride, 1),
    )


def vjp_by_body(
    operands: Sequence[Any], cotangents: Sequence[Any], needed: Sequence[bool], params: Params
) -> list[Any]:
    """The way back through a tree of the body."""
    specs = [x.spec for x in operands]
    if not all(s.is_static for s in specs):
        raise NotDifferentiableError(
            f"a reduction's derivative must have known sizes; got {specs[0]} [X4]"
        )
    forward = trace(
        lambda *xs: tree(xs, params["body"], params["dimensions"]), specs, name="tree"
    ).computation
    return vjp_through(forward, operands, cotangents, needed)


@final
class ReduceDerivatives:
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
        rules = _PLAIN.get(body_name(params["body"]) or "")
        if rules is not None:
            return [rules[0](operands[0], tangents[0], outs[0], params["dimensions"])]
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
        name = body_name(params["body"]) or ""
        rules = _PLAIN.get(name)
        if rules is not None:
            found = rules[1](operands[0], cotangents[0], outs[0], params["dimensions"])
            return [found, None]
        require_associative(op, name)
        return vjp_by_body(operands, cotangents, needed, params)


reduce_derivatives: Final = ReduceDerivatives()


def require_associative(op: Op, name: str) -> None:
    """The way back needs a body of which the order does not matter."""
    if name in _NOT_ASSOCIATIVE:
        raise NotDifferentiableError(
            f"{op.name}: a body that is differentiated must be associative; got {name} [X4]"
        )


# --- batching -------------------------------------------------------------------------------------


def batch_reduce(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    body: Computation,
    dimensions: Ints,
) -> Any:
    """One more dimension that is kept."""
    rows = tuple(d + 1 for d in dimensions)
    return batch_fold(op, args, is_batched, size, body, {"dimensions": rows})


def batch_fold(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    body: Computation,
    params: Params,
) -> tuple[Any, ...]:
    """The operation with parameters for one more dimension in front.

    Init values that differ by row have no place in it: the fold goes without any, and they come to its result.
    """
    count = len(args) // 2
    inputs = [
        a if b else broadcast_leading(a, size)
        for a, b in zip(args[:count], is_batched[:count], strict=True)
    ]
    inits = args[count:]
    if not any(is_batched[count:]):
        found: tuple[Any, ...] = bind(op, *inputs, *inits, body=body, **params)
        return found
    scalars = [TensorSpec((), x.spec.dtype) for x in inputs]
    elements = constant_of(inputs[0].spec.with_dtype("pred"), True)
    *results, is_any = bind(
        op,
        *inputs,
        elements,
        *map(zeros_of, scalars),
        zeros_of(TensorSpec((), "pred")),
        body=_body_without_init(body, scalars),
        **params,
    )
    shape = is_any.spec.shape
    rows = [
        bind(lookup("broadcast_in_dim"), i, shape=shape, broadcast_dimensions=(0,) if b else ())
        for i, b in zip(inits, is_batched[count:], strict=True)
    ]
    folded = applied(body, [*rows, *results])
    select = lookup("select")
    return tuple(bind(select, is_any, f, r) for f, r in zip(folded, rows, strict=True))


def _body_without_init(body: Computation, scalars: Sequence[TensorSpec]) -> Computation:
    """The body on values and whether there are any: its identity is that there are none."""
    count = len(scalars)

    def fold(*operands: Any) -> list[Any]:
        xs, x_is, ys, y_is = (
            operands[:count],
            operands[count],
            operands[count + 1 : -1],
            operands[-1],
        )
        select, both = lookup("select"), bind(lookup("and"), x_is, y_is)
        found = inline(body, [*xs, *ys])
        one = [bind(select, x_is, x, y) for x, y in zip(xs, ys, strict=True)]
        kept = [bind(select, both, f, o) for f, o in zip(found, one, strict=True)]
        return [*kept, bind(lookup("or"), x_is, y_is)]

    return as_computation(fold, [*scalars, TensorSpec((), "pred")] * 2, name="fold")


def without_leading(spec: TensorSpec) -> TensorSpec:
    """The spec of a row of a batched operand."""
    return TensorSpec(spec.shape[1:], spec.dtype, tuple(d - 1 for d in spec.dynamic))
