"""Compare, and the relations that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xlapy.dtypes import pred
from xlapy.specs import TensorSpec, require, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.codecs import Enum
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register

from . import elementwise_kernels as kernels
from .families import (
    binary_parameters,
    complete_docstring,
    meet,
    require_equal,
)
from .rules import batch_elementwise, zero

# --- Compare --------------------------------------------------------------------------------------

_DIRECTIONS: Final = ("EQ", "NE", "GE", "GT", "LE", "LT")
_EQUALITY: Final = ("EQ", "NE")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("UNSIGNED",),
    "uint": ("UNSIGNED",),
    "int": ("SIGNED",),
    "float": ("FLOAT", "TOTALORDER"),
    "complex": ("FLOAT",),
}


def infer_compare(
    x: Any, y: Any, *, comparison_direction: str, compare_type: str | None = None
) -> TensorSpec:
    """C1: one element type. C2: one shape. C3: a type of comparison that the element type has."""
    if x is not y:
        require_equal(x, y, "C1", "C2")
    if type(x) is not TensorSpec:
        require_dtype(False, "I1", "the operands must be arrays", x)
    if comparison_direction not in _DIRECTIONS:
        names = ", ".join(_DIRECTIONS)
        require(False, "I3", f"comparison_direction must be one of {names}", comparison_direction)
    kind = x.dtype.kind
    if compare_type is not None and compare_type not in _TYPES[kind]:
        names = " or ".join(_TYPES[kind])
        require_dtype(False, "C3", f"compare_type must be {names} for {x.dtype}", compare_type)
    if kind == "complex" and comparison_direction not in _EQUALITY:
        what = "complex numbers have no order: comparison_direction must be EQ or NE"
        require_dtype(False, "X1", what, comparison_direction)
    result: TensorSpec = x.with_dtype(pred)
    return result


def kernel_compare(
    x: Any, y: Any, *, comparison_direction: Any, compare_type: str | None = None, out: TensorSpec
) -> Any:
    """The comparison; in the total order -nan < -inf < ... < -0 < +0 < ... < inf < nan."""
    return kernels.compare(x, y, direction=comparison_direction, compare_type=compare_type)


compare_op: Op = register(Op(
    name="compare",
    section="Compare",
    infer=infer_compare,
    hlo=Hlo(
        "stablehlo.compare",
        {"comparison_direction": Enum("comparison_direction"), "compare_type": Enum("comparison_type")},
    ),
    kernel=kernel_compare,
    ad=zero,
    batch=batch_elementwise,
))  # fmt: skip


def compare(
    lhs: Any,
    rhs: Any,
    comparison_direction: str,
    compare_type: str | None = None,
    broadcast_dimensions: Sequence[int] | None = None,
) -> Tensor:
    """Whether a relation holds between two operands, element by element.

    Parameters
    ----------
    lhs, rhs : Tensor or array-like or scalar
        Of one element type and shape; a scalar is broadcast. Of complex numbers only equality can be asked.
    comparison_direction : str
        ``"EQ"``, ``"NE"``, ``"GE"``, ``"GT"``, ``"LE"`` or ``"LT"``.
    compare_type : str, optional
        ``"FLOAT"``, ``"TOTALORDER"``, ``"SIGNED"`` or ``"UNSIGNED"``; by default what the element type has. With
        ``"FLOAT"`` nan is unequal to everything; in the total order -nan < -inf < -0 < +0 < inf < nan.
    broadcast_dimensions : sequence of int, optional
        For operands of different rank: the dimension of the result for each dimension of the operand of lower
        rank, in increasing order.

    Returns
    -------
    Tensor
        Of type pred.

    Raises
    ------
    DTypeError
        [C1] If the element types differ; [C3] if `compare_type` is for another kind; [X1] for an order of complex
        numbers.
    ShapeError
        [C2] If the shapes differ.
    ConstraintError
        [I3] If there is no such direction; [X1] if `broadcast_dimensions` does not fit.

    Notes
    -----
    Section Compare of the operation semantics; ``stablehlo.compare``.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.compare(ops.constant([1, 2, 3]), 2, "LT")
    Tensor([ True, False, False], pred[3])
    >>> ops.compare(ops.constant([0.0]), ops.constant([-0.0]), "GT", "TOTALORDER")
    Tensor([ True], pred[1])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("compare", lhs, rhs, broadcast_dimensions)
    if compare_type is None:
        spec = lhs.placed.spec
        compare_type = _TYPES[spec.dtype.kind][0] if type(spec) is TensorSpec else None
    result: Tensor = bind(
        compare_op, lhs, rhs, comparison_direction=comparison_direction, compare_type=compare_type
    )
    return result


_RAISES: Final = "[I1] If an operand is of another kind; [C1] if the element types differ."
_PARAMETERS: Final = {
    total: binary_parameters(kinds)
    .replace(_RAISES, "[C1] If the element types differ; " + refused)
    .replace("[C1] If the shapes", "[C2] If the shapes")
    for total, kinds, refused in (
        (False, "any; complex for eq and ne only", "[X1] for an order of complex numbers."),
        (True, "float", "[C3] for other types than floats."),
    )
}


def eq(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is equal to `rhs`, element by element.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.eq(ops.constant([1, 2, 3]), 2)
    Tensor([False,  True, False], pred[3])
    """
    return compare(lhs, rhs, "EQ", None, broadcast_dimensions)


def ne(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is unequal to `rhs`, element by element.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.ne(ops.constant([1, 2, 3]), 2)
    Tensor([ True, False,  True], pred[3])
    """
    return compare(lhs, rhs, "NE", None, broadcast_dimensions)


def ge(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is greater than or equal to `rhs`, element by element.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.ge(ops.constant([1, 2, 3]), 2)
    Tensor([False,  True,  True], pred[3])
    """
    return compare(lhs, rhs, "GE", None, broadcast_dimensions)


def gt(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is greater than `rhs`, element by element.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.gt(ops.constant([1, 2, 3]), 2)
    Tensor([False, False,  True], pred[3])
    """
    return compare(lhs, rhs, "GT", None, broadcast_dimensions)


def le(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is less than or equal to `rhs`, element by element.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.le(ops.constant([1, 2, 3]), 2)
    Tensor([ True,  True, False], pred[3])
    """
    return compare(lhs, rhs, "LE", None, broadcast_dimensions)


def lt(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is less than `rhs`, element by element.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.lt(ops.constant([1, 2, 3]), 2)
    Tensor([ True, False, False], pred[3])
    """
    return compare(lhs, rhs, "LT", None, broadcast_dimensions)


def eq_total_order(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is equal to `rhs` in the total order of the floats.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.eq_total_order(ops.constant([-0.0, float("nan")]), ops.constant([0.0, 1.0]))
    Tensor([False, False], pred[2])
    """
    return compare(lhs, rhs, "EQ", "TOTALORDER", broadcast_dimensions)


def ne_total_order(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is unequal to `rhs` in the total order of the floats.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.ne_total_order(ops.constant([-0.0, float("nan")]), ops.constant([0.0, 1.0]))
    Tensor([ True,  True], pred[2])
    """
    return compare(lhs, rhs, "NE", "TOTALORDER", broadcast_dimensions)


def ge_total_order(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is greater than or equal to `rhs` in the total order of the floats.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.ge_total_order(ops.constant([-0.0, float("nan")]), ops.constant([0.0, 1.0]))
    Tensor([False,  True], pred[2])
    """
    return compare(lhs, rhs, "GE", "TOTALORDER", broadcast_dimensions)


def gt_total_order(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is greater than `rhs` in the total order of the floats.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.gt_total_order(ops.constant([-0.0, float("nan")]), ops.constant([0.0, 1.0]))
    Tensor([False,  True], pred[2])
    """
    return compare(lhs, rhs, "GT", "TOTALORDER", broadcast_dimensions)


def le_total_order(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is less than or equal to `rhs` in the total order of the floats.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.le_total_order(ops.constant([-0.0, float("nan")]), ops.constant([0.0, 1.0]))
    Tensor([ True, False], pred[2])
    """
    return compare(lhs, rhs, "LE", "TOTALORDER", broadcast_dimensions)


def lt_total_order(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Whether `lhs` is less than `rhs` in the total order of the floats.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.lt_total_order(ops.constant([-0.0, float("nan")]), ops.constant([0.0, 1.0]))
    Tensor([ True, False], pred[2])
    """
    return compare(lhs, rhs, "LT", "TOTALORDER", broadcast_dimensions)


for _relation in (
    eq, ne, ge, gt, le, lt, eq_total_order, ne_total_order, ge_total_order, gt_total_order,
    le_total_order, lt_total_order,
):  # fmt: skip
    _name = _relation.__name__
    complete_docstring(
        _relation,
        _PARAMETERS[_name.endswith("_total_order")],
        f"Compare ({''.join(word.capitalize() for word in _name.split('_'))})",
        compare_op,
    )
