"""Derivatives and vectorisation of ragged products, and the three modes that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from xlapy.dtypes import DType
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup

from .contraction import dot_general_op
from .forms import converted, permuted
from .products import product_dtype
from .rules import broadcast_leading

__all__ = [
    "DOT_DIMENSIONS",
    "batch_ragged_dot",
    "dot_params",
    "free_dimensions",
    "jvp_ragged_dot",
    "mode_of",
    "prefix_of",
    "vjp_ragged_dot",
]

Ints = tuple[int, ...]
Params = Mapping[str, Any]

DOT_DIMENSIONS: Final = (
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
)


# --- the three modes ------------------------------------------------------------------------------


def free_dimensions(rank: int, *taken: Ints) -> Ints:
    """The dimensions that none of the others take."""
    used = {d for dims in taken for d in dims}
    return tuple([d for d in range(rank) if d not in used])


def mode_of(p: Params) -> str:
    """What the ragged dimension is: "free", "contracting" or "batching"."""
    (ragged,) = p["lhs_ragged_dimensions"]
    if ragged in p["lhs_contracting_dimensions"]:
        return "contracting"
    return "batching" if ragged in p["lhs_batching_dimensions"] else "free"


def prefix_of(rank: int, p: Params) -> Ints:
    """The dimensions of lhs that group sizes may be given for, one by one: all before the ragged one."""
    (ragged,) = p["lhs_ragged_dimensions"]
    batching, contracting = p["lhs_batching_dimensions"], p["lhs_contracting_dimensions"]
    mode = mode_of(p)
    if mode == "batching":
        return tuple(batching[: batching.index(ragged)])
    if mode == "contracting":
        return (*batching, *contracting[: contracting.index(ragged)])
    return (*batching, *[d for d in free_dimensions(rank, batching, contracting) if d < ragged])


def dot_params(p: Params) -> dict[str, Any]:
    """The parameters of the product of one group, from which the group dimension is gone."""
    group = p["rhs_group_dimensions"]

    def without(dims: Ints) -> Ints:
        return tuple([d - 1 if group and d > group[0] else d for d in dims])

    return {
        "lhs_batching_dimensions": p["lhs_batching_dimensions"],
        "rhs_batching_dimensions": without(p["rhs_batching_dimensions"]),
        "lhs_contracting_dimensions": p["lhs_contracting_dimensions"],
        "rhs_contracting_dimensions": without(p["rhs_contracting_dimensions"]),
        "precision_config": p["precision_config"],
        "preferred_element_type": p["preferred_element_type"],
        "algorithm": None,
    }


# --- derivative -----------------------------------------------------------------------------------


def jvp_ragged_dot(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **p: Any
) -> Sequence[Any]:
    """The product rule."""
    lhs, rhs, sizes = operands
    left, right = tangents[0], tangents[1]
    if not p["preferred_element_type"].inexact:
        return (None,)
    terms = [
        bind(lookup("ragged_dot"), *pair, sizes, **p)
        for pair, tangent in (((left, rhs), left), ((lhs, right), right))
        if tangent is not None
    ]
    if len(terms) == 2:
        return (bind(lookup("add"), *terms),)
    return (terms[0] if terms else None,)


def _product(x: Any, y: Any, sizes: Any, target: DType, precision: Any, **dims: Any) -> Any:
    """A ragged product whose result belongs to a value of type `target`."""
    kind = product_dtype(x.dtype, y.dtype)
    real = kind.kind == "complex" != target.kind
    found = bind(
        lookup("ragged_dot"),
        converted(x, kind),
        converted(y, kind),
        sizes,
        precision_config=precision,
        preferred_element_type=kind if real else target,
        **dims,
    )
    return converted(bind(lookup("real"), found), target) if real else found


def vjp_ragged_dot(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **p: Any
) -> Sequence[Any]:
    """The transposes of a free ragged dimension are one of these and one contracting, and of that two free ones."""
    lhs, rhs, sizes = operands
    (g,) = cotangents
    mode, precision = mode_of(p), p["precision_config"]
    back = None if precision is None else precision[::-1]
    if mode == "batching":
        rule: Any = dot_general_op.ad
        found = rule.vjp(dot_general_op, (lhs, rhs), cotangents, outs, dot_params(p), (True, True))
        return (*found, None)
    lb, rb = p["lhs_batching_dimensions"], p["rhs_batching_dimensions"]
    lc, rc = p["lhs_contracting_dimensions"], p["rhs_contracting_dimensions"]
    lf = free_dimensions(lhs.ndim, lb, lc)
    rf = free_dimensions(rhs.ndim, rb, rc, p["rhs_group_dimensions"])
    batch, count = tuple(range(len(lb))), len(lb)
    (ragged,) = p["lhs_ragged_dimensions"]
    # In this order of dimensions those before the ragged one stay before it.
    x = permuted(lhs, (*lb, *lc, *lf))
    y = permuted(rhs, (*p["rhs_group_dimensions"], *rb, *rc, *rf))
    nc, nl, nr = len(lc), len(lf), len(rf)
    if mode == "free":
        # g is [batch, lf, rf], y [group, batch, contracting, rf], x [batch, contracting, lf].
        place = lf.index(ragged)
        of_x = _product(
            g, y, sizes, lhs.dtype, precision,
            lhs_batching_dimensions=batch, rhs_batching_dimensions=tuple(d + 1 for d in batch),
            lhs_contracting_dimensions=tuple(range(count + nl, count + nl + nr)),
            rhs_contracting_dimensions=tuple(range(1 + count + nc, 1 + count + nc + nr)),
            lhs_ragged_dimensions=(count + place,), rhs_group_dimensions=(0,),
        )  # fmt: skip
        of_x = permuted(of_x, _inverse((*lb, *lf, *lc)))
        of_y = _product(
            x, g, sizes, rhs.dtype, back,
            lhs_batching_dimensions=batch, rhs_batching_dimensions=batch,
            lhs_contracting_dimensions=tuple(range(count + nc, count + nc + nl)),
            rhs_contracting_dimensions=tuple(range(count, count + nl)),
            lhs_ragged_dimensions=(count + nc + place,), rhs_group_dimensions=(),
        )  # fmt: skip
        of_y = permuted(of_y, _inverse((*p["rhs_group_dimensions"], *rb, *rc, *rf)))
        return _wanted(lhs, of_x), _wanted(rhs, of_y), None
    # g is [group, batch, lf, rf]; y [batch, contracting, rf] and x [batch, contracting, lf] are in one order.
    place = count + lc.index(ragged)
    later = tuple(d + 1 for d in batch)
    outer_x = tuple(range(1 + count, 1 + count + nl))
    outer_y = tuple(range(1 + count + nl, 1 + count + nl + nr))
    last = tuple(range(count + nc, count + nc + nr))
    of_x = _product(
        y, g, sizes, lhs.dtype, back,
        lhs_batching_dimensions=batch, rhs_batching_dimensions=later,
        lhs_contracting_dimensions=last, rhs_contracting_dimensions=outer_y,
        lhs_ragged_dimensions=(place,), rhs_group_dimensions=(0,),
    )  # fmt: skip
    last = tuple(range(count + nc, count + nc + nl))
    of_y = _product(
        x, g, sizes, rhs.dtype, precision,
        lhs_batching_dimensions=batch, rhs_batching_dimensions=later,
        lhs_contracting_dimensions=last, rhs_contracting_dimensions=outer_x,
        lhs_ragged_dimensions=(place,), rhs_group_dimensions=(0,),
    )  # fmt: skip
    of_x = permuted(of_x, _inverse((*lb, *lc, *lf)))
    of_y = permuted(of_y, _inverse((*rb, *rc, *rf)))
    return _wanted(lhs, of_x), _wanted(rhs, of_y), None


def _inverse(order: Sequence[int]) -> Ints:
    return tuple([order.index(d) for d in range(len(order))])


def _wanted(x: Any, cotangent: Any) -> Any:
    return cotangent if x.dtype.inexact else None


# --- batching -------------------------------------------------------------------------------------


def batch_ragged_dot(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **p: Any
) -> Any:
    """One operand: a free dimension more, in front of all. Otherwise a batching dimension more."""
    lhs, rhs, sizes = args
    left, right, grouped = is_batched
    mode = mode_of(p)
    if mode == "batching":
        # Groups make no difference.
        return (
            dot_general_op.batch(dot_general_op, (lhs, rhs), (left, right), size, **dot_params(p))
            if left or right
            else broadcast_leading(bind(dot_general_op, lhs, rhs, **dot_params(p)), size)
        )
    alone = left != right and not grouped and sizes.ndim == 1
    if not alone:
        lhs = lhs if left else broadcast_leading(lhs, size)
        rhs = rhs if right else broadcast_leading(rhs, size)
        left = right = True
        if grouped or sizes.ndim > 1:
            sizes = sizes if grouped else broadcast_leading(sizes, size)
            rank = lhs.ndim - 1
            prefix = tuple([lhs.spec.shape[d + 1] for d in prefix_of(rank, p)])
            if sizes.ndim == 2 and prefix:
                count = sizes.spec.shape[-1]
                sizes = bind(
                    lookup("broadcast_in_dim"),
                    sizes,
                    shape=(size, *prefix, count),
                    broadcast_dimensions=(0, len(prefix) + 1),
                )

    def moved(name: str, by: bool) -> Ints:
        return tuple([d + 1 for d in p[name]]) if by else p[name]

    dims = {
        name: moved(name, left if name.startswith("lhs") else right)
        for name in (*DOT_DIMENSIONS, "lhs_ragged_dimensions", "rhs_group_dimensions")
    }
    if not alone:
        dims["lhs_batching_dimensions"] = (0, *dims["lhs_batching_dimensions"])
        dims["rhs_batching_dimensions"] = (0, *dims["rhs_batching_dimensions"])
    found = bind(op, lhs, rhs, sizes, **{**p, **dims})
    at = int(mode == "contracting")
    if alone:
        at += len(p["lhs_batching_dimensions"])
        if right:  # behind what is left of lhs
            at += (
                lhs.ndim - len(p["lhs_batching_dimensions"]) - len(p["lhs_contracting_dimensions"])
            )
    if not at:
        return found
    return permuted(found, (at, *range(at), *range(at + 1, found.ndim)))
