"""Select and Clamp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.errors import XlapyError
from xlapy.specs import TensorSpec, TupleSpec, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.mode import annotate, bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import sized_like
from xlapy.trace.stablehlo import Writer

from . import elementwise_kernels as kernels
from .comparison import eq, gt, lt, ne
from .families import (
    broadcast_to,
    meet,
    predicate,
    require_equal,
    settle_weak,
)
from .rules import Rules, broadcast_leading, constant_like, linear

# --- Select ---------------------------------------------------------------------------------------


def infer_select(pred: Any, a: Any, b: Any) -> Any:
    """C1: a scalar predicate or one of the operands' shape. C2: operands of one type."""
    if type(pred) is not TensorSpec or pred.dtype.kind != "bool":
        require_dtype(False, "I1", "pred must be an array of truth values", pred)
    if a is not b:
        require_equal(a, b, "C2", "C2", ("I2", "I3"))
    if type(a) is not TensorSpec:
        require_dtype(False, "I2", "on_true and on_false must be arrays", a)
    if pred.rank and (pred.shape != a.shape or pred.dynamic != a.dynamic):
        require_shape(False, "C1", f"pred must be a scalar or of the operands' shape {a}", pred)
    return a


def _transpose_select(g: Any, pred: Any, a: Any, b: Any) -> tuple[Any, Any]:
    zeros = constant_like(g, 0)
    return bind(select_op, pred, g, zeros), bind(select_op, pred, zeros, g)


def batch_select(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """A scalar predicate that is not batched stays one."""
    pred, a, b = args
    full = [x if m else broadcast_leading(x, size) for x, m in zip((a, b), is_batched[1:])]
    if pred.spec.rank or is_batched[0]:
        if not is_batched[0]:
            pred = broadcast_leading(pred, size)
        elif full[0].spec.rank > 1 and pred.spec.rank == 1:
            pred = bind(
                lookup("broadcast_in_dim"),
                pred,
                shape=full[0].spec.shape,
                broadcast_dimensions=(0,),
            )
    return bind(op, pred, *full)


select_op: Op = register(Op(
    name="select",
    section="Select",
    infer=infer_select,
    hlo=Hlo("stablehlo.select"),
    kernel=lambda pred, a, b, *, out: kernels.select(pred, a, b),
    ad=linear(_transpose_select, wrt=(1, 2)),
    batch=batch_select,
))  # fmt: skip


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of `on_true` where `pred` holds, else of `on_false`.

    Parameters
    ----------
    pred : Tensor or array-like or bool
        Of type pred: a scalar, or of the shape of the others.
    on_true, on_false : Tensor or array-like or scalar, or tuples of these
        Of one element type and shape; a scalar is broadcast. For tuples, of tensors or as a tensor that is a
        tuple, `pred` has to be a scalar.

    Returns
    -------
    Tensor or tuple of Tensor

    Raises
    ------
    DTypeError
        [I1] If `pred` is not of type pred; [C2] if the element types differ.
    ShapeError
        [C1] If `pred` has another shape; [C2] if the shapes of the others differ.

    Notes
    -----
    Section Select of the operation semantics; ``stablehlo.select``. StableHLO has no selection between tuples, so it
    becomes one of each of their elements.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.select(ops.constant([True, False]), ops.constant([1, 2]), ops.constant([10, 20]))
    Tensor([ 1, 20], s32[2])
    >>> ops.select(True, (ops.constant(1), ops.constant(2.0)), (ops.constant(3), ops.constant(4.0)))
    (Tensor(1, s32[]), Tensor(2., f32[]))
    """
    if (
        type(on_true) is not Tensor
        or type(on_false) is not Tensor
        or on_true.placed is not on_false.placed
    ):
        if isinstance(on_true, tuple) and isinstance(on_false, tuple):
            return _of_tuples(_select_tuples, pred, on_true, on_false)
        on_true, on_false = _meet_branches(pred, on_true, on_false)
    spec = on_true.placed.spec
    if type(spec) is TupleSpec:
        return _of_tuples(_select_tuple_tensors, pred, on_true, on_false)
    if type(pred) is not Tensor:
        pred = predicate(pred, on_true)
    return bind(select_op, pred, on_true, on_false)


def _of_tuples(form: Any, pred: Any, on_true: Any, on_false: Any) -> Any:
    try:
        return form(pred, on_true, on_false)
    except XlapyError as error:
        raise annotate(error, "select", None) from None


def _meet_branches(pred: Any, on_true: Any, on_false: Any) -> tuple[Tensor, Tensor]:
    x, y = meet("select", on_true, on_false)
    spec, like = x.placed.spec, getattr(pred, "spec", None)
    if y.placed.spec is spec and type(spec) is TensorSpec and type(like) is TensorSpec:
        if spec.rank or not like.rank:
            return x, y
        like = like.with_dtype(spec.dtype)
        return broadcast_to(x, like, ()), broadcast_to(y, like, ())
    return x, y


def _require_scalar(pred: Any) -> Tensor:
    tensor = pred if type(pred) is Tensor else lift(pred, ())
    spec = tensor.placed.spec
    require_shape(
        type(spec) is TensorSpec and not spec.rank, "C1", "pred must be a scalar for tuples", spec
    )
    return tensor


def _select_tuples(pred: Any, on_true: Any, on_false: Any) -> tuple[Any, ...]:
    require_shape(
        len(on_true) == len(on_false),
        "C2", "the tuples must be of one length", (len(on_true), len(on_false)),
    )  # fmt: skip
    scalar = _require_scalar(pred)
    return tuple(select(scalar, a, b) for a, b in zip(on_true, on_false, strict=True))


def _select_tuple_tensors(pred: Any, on_true: Tensor, on_false: Tensor) -> Tensor:
    spec: Any = on_true.placed.spec
    require_dtype(
        spec == on_false.placed.spec, "C2", "the tuples must be of one type", on_false.placed.spec
    )
    scalar, get = _require_scalar(pred), lookup("get_tuple_element")
    parts = [
        select(scalar, bind(get, on_true, index=i), bind(get, on_false, index=i))
        for i in range(len(spec.elements))
    ]
    result: Tensor = bind(lookup("tuple"), *parts)
    return result


# --- Clamp ----------------------------------------------------------------------------------------


def infer_clamp(low: Any, x: Any, high: Any) -> Any:
    """C1, C2: bounds that are scalars or of the operand's shape. C3: one element type."""
    if type(x) is not TensorSpec:
        require_dtype(False, "I2", "the operand must be an array", x)
    if low is not x:
        _check_bound(low, x, "min", "I1", "C1")
    if high is not x:
        _check_bound(high, x, "max", "I3", "C2")
    return x


def _check_bound(spec: Any, x: TensorSpec, what: str, array_label: str, label: str) -> None:
    if type(spec) is not TensorSpec:
        require_dtype(False, array_label, f"{what} must be an array", spec)
    if spec.dtype is not x.dtype:
        require_dtype(False, "C3", f"{what} must be of the operand's type {x.dtype}", spec.dtype)
    if spec.rank and (spec.shape != x.shape or spec.dynamic != x.dynamic):
        require_shape(False, label, f"{what} must be a scalar or of the operand's shape {x}", spec)


def _clamp_shares(low: Any, x: Any, high: Any) -> tuple[Any, Any, Any]:
    """How the result varies with each operand: as the composition min(max(min, x), max), ties shared equally."""
    one, half, none = constant_like(x, 1), constant_like(x, 0.5), constant_like(x, 0)
    low, high = _full(low, x), _full(high, x)
    inner = bind(lookup("max"), low, x)
    outer = bind(lookup("min"), inner, high) if x.dtype.kind == "complex" else None
    tie = select(eq(inner, high), half, none)
    of_inner = select(_wins(inner, high, outer, lt), one, tie)
    of_high = select(_wins(high, inner, outer, lt), one, tie)
    tie = select(eq(low, x), half, none)
    mul = lookup("mul")
    of_x = bind(mul, of_inner, select(_wins(x, low, inner, gt), one, tie))
    of_low = bind(mul, of_inner, select(_wins(low, x, inner, gt), one, tie))
    return of_low, of_x, of_high


def _wins(x: Any, y: Any, out: Any, relation: Any) -> Any:
    """Where x alone is the result; complex numbers have no order to ask for."""
    if x.dtype.kind != "complex":
        return relation(x, y)
    return bind(lookup("and"), eq(out, x), ne(x, y))


def _full(bound: Any, x: Any) -> Any:
    if bound.spec is x.spec:
        return bound
    spread = lookup("broadcast_in_dim")
    return sized_like(bind(spread, bound, shape=x.spec.shape, broadcast_dimensions=()), x)


def _jvp_clamp(operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any]) -> Any:
    total = None
    for tangent, share in zip(tangents, _clamp_shares(*operands), strict=True):
        if tangent is not None:
            term = bind(lookup("mul"), _full(tangent, operands[1]), share)
            total = term if total is None else bind(lookup("add"), total, term)
    return (total,)


def _vjp_clamp(operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any]) -> Any:
    found = []
    for operand, share in zip(operands, _clamp_shares(*operands), strict=True):
        ct = bind(lookup("mul"), cotangents[0], share)
        if operand.spec is not operands[1].spec:
            from .reduction import reduce_sum

            ct = reduce_sum(ct, tuple(range(ct.spec.rank)))
        found.append(ct)
    return found


def batch_clamp(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """Scalar bounds that are not batched stay scalars."""
    low, x, high = args
    if not is_batched[1]:
        x = broadcast_leading(x, size)
    bounds = []
    for bound, batched in ((low, is_batched[0]), (high, is_batched[2])):
        rank = bound.spec.rank
        if not batched and rank:
            bound = broadcast_leading(bound, size)
        elif batched and rank == 1 and x.spec.rank > 1:
            bound = bind(
                lookup("broadcast_in_dim"), bound, shape=x.spec.shape, broadcast_dimensions=(0,)
            )
        bounds.append(bound)
    return bind(op, bounds[0], x, bounds[1])


def write_clamp(writer: Writer, instruction: Any) -> None:
    """XLA clamps complex numbers by their real parts alone, and orders them otherwise by both."""
    if instruction.results[0].spec.dtype.kind != "complex":
        writer.line("stablehlo.clamp", instruction)
        return
    writer.composed(
        instruction,
        lambda low, x, high: bind(
            lookup("min"), bind(lookup("max"), _full(low, x), x), _full(high, x)
        ),
    )


clamp_op: Op = register(Op(
    name="clamp",
    section="Clamp",
    infer=infer_clamp,
    hlo=Hlo("stablehlo.clamp", write=write_clamp),
    kernel=lambda low, x, high, *, out: kernels.clamp(low, x, high),
    ad=Rules(_jvp_clamp, _vjp_clamp),
    batch=batch_clamp,
))  # fmt: skip


def clamp(min: Any, operand: Any, max: Any) -> Tensor:
    """The operand brought into a range: ``min(max(min, operand), max)``.

    Parameters
    ----------
    min, max : Tensor or array-like or scalar
        The bounds: scalars, or of the operand's shape. Where `min` is above `max` the result is `max`.
    operand : Tensor or array-like or scalar
        Of any element type; complex numbers are ordered by their real parts, and by the imaginary ones among equal
        ones. nan stays nan.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [C3] If the element types differ.
    ShapeError
        [C1], [C2] If a bound has another shape.

    Notes
    -----
    Section Clamp of the operation semantics; ``stablehlo.clamp``. At a bound the derivative is shared equally between
    the operand and the bound, as that of Max and Min.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.clamp(0, ops.constant([-1, 5, 9]), 6)
    Tensor([0, 5, 6], s32[3])
    """
    x = operand
    if type(x) is not Tensor:
        x = lift(x, [b for b in (min, max) if type(b) is Tensor])
    low, high = _bound(min, x), _bound(max, x)
    result: Tensor = bind(clamp_op, low, x, high)
    return result


def _bound(bound: Any, x: Tensor) -> Tensor:
    """A bound as a tensor of the operand's element type, if it has none of its own."""
    tensor = bound if type(bound) is Tensor else lift(bound, (x,))
    return settle_weak(tensor, x)[0]
