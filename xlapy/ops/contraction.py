"""Dot and DotGeneral: sums of products."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_ints,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import EnumList, Optional, Struct
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .dot_algorithm import DotAlgorithm, as_algorithm, as_precision_config, require_precision
from .elementwise_kernels import convert as convert_kernel
from .forms import converted
from .products import compute_dtype, product, product_dtype
from .rules import Rules

__all__ = [
    "DotDimensionNumbers",
    "dot",
    "dot_general",
    "dot_general_op",
]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

#: which XLA on the CPU takes for operands only, or not at all
_SUB_BYTE: Final = frozenset(
    ("s2", "u2", "s4", "u4", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn")
)  # fmt: skip


# --- DotGeneral -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _free(rank: int, *taken: Ints) -> Ints:
    used = {d for dims in taken for d in dims}
    return tuple([d for d in range(rank) if d not in used])


def _same(n: int, m: int) -> bool:
    return n in (m, DYNAMIC) or m is DYNAMIC


@functools.lru_cache(maxsize=512)
def infer_dot_general(
    lhs: TensorSpec,
    rhs: TensorSpec,
    *,
    lhs_batching_dimensions: Ints,
    rhs_batching_dimensions: Ints,
    lhs_contracting_dimensions: Ints,
    rhs_contracting_dimensions: Ints,
    precision_config: tuple[str, str] | None,
    preferred_element_type: DType,
    algorithm: DotAlgorithm | None,
) -> TensorSpec:
    """C1 to C13; the element types may differ as in XLA, which promotes them (`product_dtype`)."""
    require_array(lhs, "I1", "lhs")
    require_array(rhs, "I2", "rhs")
    lb, rb = lhs_batching_dimensions, rhs_batching_dimensions
    lc, rc = lhs_contracting_dimensions, rhs_contracting_dimensions
    require(
        len(lb) == len(rb),
        "C1",
        "there must be as many batching dimensions of lhs as of rhs",
        (lb, rb),
    )
    require(
        len(lc) == len(rc),
        "C2",
        "there must be as many contracting dimensions of lhs as of rhs",
        (lc, rc),
    )
    for label, side, dims in (("C3", "lhs", (*lb, *lc)), ("C4", "rhs", (*rb, *rc))):
        if len(set(dims)) != len(dims):
            require(False, label, f"the dimensions of {side} must be named once", dims)
    for label, name, dims, rank in (
        ("C5", "lhs_batching_dimensions", lb, lhs.rank),
        ("C6", "lhs_contracting_dimensions", lc, lhs.rank),
        ("C7", "rhs_batching_dimensions", rb, rhs.rank),
        ("C8", "rhs_contracting_dimensions", rc, rhs.rank),
    ):
        for d in dims:
            if not 0 <= d < rank:
                require(False, label, f"{name} must be in [0, {rank})", dims)
    left, right = lhs.shape, rhs.shape
    for i, j in zip(lb, rb):
        if left[i] != right[j] and not _same(left[i], right[j]):
            require_shape(False, "C9", "batching dimensions must have equal sizes", (lhs, rhs))
    for i, j in zip(lc, rc):
        if left[i] != right[j] and not _same(left[i], right[j]):
            require_shape(False, "C10", "contracting dimensions must have equal sizes", (lhs, rhs))
    if precision_config is not None:
        require_precision(precision_config, "C11")
    kind: Any = preferred_element_type
    require_dtype(type(kind) is DType, "X1", "preferred_element_type must be an element type", kind)
    if algorithm is not None:
        require(
            type(algorithm) is DotAlgorithm, "X2", "algorithm must be a DotAlgorithm", algorithm
        )
        require(
            precision_config is None or set(precision_config) == {"DEFAULT"},
            "C21",
            "precision_config must be DEFAULT beside an algorithm",
            precision_config,
        )
    lf, rf = _free(lhs.rank, lb, lc), _free(rhs.rank, rb, rc)
    batch = [right[j] if left[i] is DYNAMIC else left[i] for i, j in zip(lb, rb)]
    shape = (*batch, *[left[d] for d in lf], *[right[d] for d in rf])
    if not lhs.dynamic and not rhs.dynamic:
        return TensorSpec(shape, preferred_element_type)
    varies = [i in lhs.dynamic or j in rhs.dynamic for i, j in zip(lb, rb)]
    varies += [d in lhs.dynamic for d in lf] + [d in rhs.dynamic for d in rf]
    dynamic = tuple([i for i, v in enumerate(varies) if v])
    return TensorSpec(shape, preferred_element_type, dynamic)


def kernel_dot_general(
    lhs: Array,
    rhs: Array,
    *,
    lhs_batching_dimensions: Ints,
    rhs_batching_dimensions: Ints,
    lhs_contracting_dimensions: Ints,
    rhs_contracting_dimensions: Ints,
    precision_config: tuple[str, str] | None,
    preferred_element_type: DType,
    algorithm: DotAlgorithm | None,
    out: TensorSpec,
) -> Array:
    """result[b, i, j] = sum over k of lhs[b, i, k] * rhs[b, k, j], each letter being several dimensions.

    As XLA on the CPU does, it sums in the operands' precision (`compute_dtype`, narrow floats in float32), whatever
    `precision_config` and `algorithm` allow.
    """
    lb, rb = lhs_batching_dimensions, rhs_batching_dimensions
    lc, rc = lhs_contracting_dimensions, rhs_contracting_dimensions
    lf, rf = _free(lhs.ndim, lb, lc), _free(rhs.ndim, rb, rc)
    batch = [lhs.shape[d] for d in lb]
    rows, columns = [lhs.shape[d] for d in lf], [rhs.shape[d] for d in rf]
    size = math.prod([lhs.shape[d] for d in lc])
    left = lhs.transpose((*lb, *lf, *lc)).reshape((*batch, math.prod(rows), size))
    right = rhs.transpose((*rb, *rc, *rf)).reshape((*batch, size, math.prod(columns)))
    kind = compute_dtype(as_dtype(lhs.dtype), as_dtype(rhs.dtype), preferred_element_type)
    found = product(left, right, kind)
    if found.dtype != preferred_element_type.numpy:
        found = convert_kernel(found, preferred_element_type.numpy)
    return found.reshape((*batch, *rows, *columns))


# --- derivative and batching ----------------------------------------------------------------------


def _cotangent(
    g: Any,
    x: Any,
    y: Any,
    dims: tuple[Ints, Ints, Ints, Ints],
    g_free: Ints,
    params: dict[str, Any],
) -> Any:
    """The cotangent of x: g times y, summed over the dimensions of y that the result has.

    Parameters
    ----------
    g, x, y : Tensor
    dims : tuple
        Batching and contracting dimensions of x, and of y.
    g_free : tuple of int
        Those of g that come from y.
    params : dict
        precision_config and algorithm.
    """
    xb, _, yb, yc = dims
    y_free = _free(y.ndim, yb, yc)
    # One element type for both operands, which not every consumer of StableHLO promotes.
    kind = product_dtype(g.dtype, y.dtype)
    target = x.dtype
    found = bind(
        dot_general_op,
        converted(g, kind),
        converted(y, kind),
        lhs_batching_dimensions=tuple(range(len(xb))),
        rhs_batching_dimensions=yb,
        lhs_contracting_dimensions=g_free,
        rhs_contracting_dimensions=y_free,
        # A complex result for a real operand: of its cotangent the real part counts.
        preferred_element_type=kind if kind.kind == "complex" != target.kind else target,
        **params,
    )
    if found.dtype is not target:
        found = converted(bind(lookup("real"), found), target)
    place = _in_place(x.ndim, dims)
    return found if place is None else bind(lookup("transpose"), found, permutation=place)


@functools.lru_cache(maxsize=1024)
def _in_place(rank: int, dims: tuple[Ints, Ints, Ints, Ints]) -> Ints | None:
    """Where each dimension of x has got to in its cotangent; None if all are in their place."""
    xb, xc, _, yc = dims
    # Dimensions now: batch, x's free ones, and those contracted, in y's order.
    order = (*xb, *_free(rank, xb, xc), *[xc[yc.index(d)] for d in sorted(yc)])
    if order == tuple(range(len(order))):
        return None
    return tuple([order.index(d) for d in range(len(order))])


def vjp_dot_general(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """Each side's transpose: the cotangent times the other operand, conjugating neither."""
    x, y = operands
    (g,) = cotangents
    xb, yb = params["lhs_batching_dimensions"], params["rhs_batching_dimensions"]
    xc, yc = params["lhs_contracting_dimensions"], params["rhs_contracting_dimensions"]
    kept = {"precision_config": params["precision_config"], "algorithm": params["algorithm"]}
    swapped = dict(kept)
    if kept["precision_config"] is not None:
        swapped["precision_config"] = kept["precision_config"][::-1]
    batch, rows = len(xb), x.ndim - len(xb) - len(xc)
    from_x = tuple(range(batch, batch + rows))
    from_y = tuple(range(batch + rows, g.ndim))
    of_x = _cotangent(g, x, y, (xb, xc, yb, yc), from_y, kept) if x.dtype.inexact else None
    of_y = _cotangent(g, y, x, (yb, yc, xb, xc), from_x, swapped) if y.dtype.inexact else None
    return of_x, of_y


def jvp_dot_general(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """The product rule."""
    (x, y), (s, t) = operands, tangents
    if not params["preferred_element_type"].inexact:
        return (None,)
    left = None if s is None else bind(dot_general_op, s, y, **params)
    right = None if t is None else bind(dot_general_op, x, t, **params)
    if left is None or right is None:
        return (right if left is None else left,)
    return (bind(lookup("add"), left, right),)


def batch_dot_general(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    lhs_batching_dimensions: Ints,
    rhs_batching_dimensions: Ints,
    lhs_contracting_dimensions: Ints,
    rhs_contracting_dimensions: Ints,
    **params: Any,
) -> Any:
    """Both operands: one more batching dimension. One of them: a free dimension, moved to the front."""
    left, right = is_batched

    def shifted(dims: Ints, by: bool) -> Ints:
        return tuple([d + 1 for d in dims]) if by else dims

    lb, rb = shifted(lhs_batching_dimensions, left), shifted(rhs_batching_dimensions, right)
    count = len(lb)
    if left and right:
        lb, rb = (0, *lb), (0, *rb)
    found = bind(
        op,
        *args,
        lhs_batching_dimensions=lb,
        rhs_batching_dimensions=rb,
        lhs_contracting_dimensions=shifted(lhs_contracting_dimensions, left),
        rhs_contracting_dimensions=shifted(rhs_contracting_dimensions, right),
        **params,
    )
    if left and right:
        return found
    # The first free dimension of its operand.
    at = count if left else args[0].ndim - len(lhs_contracting_dimensions)
    if not at:
        return found
    order = (at, *range(at), *range(at + 1, found.ndim))
    return bind(lookup("transpose"), found, permutation=order)


# --- text -----------------------------------------------------------------------------------------

_NUMBERS: Final = Struct(
    "stablehlo.dot",
    {
        "lhs_batching_dimensions": (),
        "rhs_batching_dimensions": (),
        "lhs_contracting_dimensions": (),
        "rhs_contracting_dimensions": (),
    },
)
_PRECISION: Final = EnumList("precision")
_ALGORITHM: Final = Optional(DotAlgorithm)


def _wide(dtype: DType) -> DType:
    """A type of at least a byte that holds another one's values."""
    if dtype.name not in _SUB_BYTE:
        return dtype
    return as_dtype({"int": "s8", "uint": "u8", "float": "f32"}[dtype.kind])


def write_dot_general(writer: Writer, instruction: Any) -> None:
    """The preferred type stands in the result's type; types of less than a byte go through wider ones."""
    params = instruction.params
    kinds = [v.spec.dtype for v in (*instruction.operands, *instruction.results)]
    if any(k.name in _SUB_BYTE for k in kinds):

        def wider(x: Any, y: Any) -> Any:
            changed = {**params, "preferred_element_type": _wide(kinds[2])}
            found = bind(dot_general_op, *[converted(v, _wide(v.dtype)) for v in (x, y)], **changed)
            return converted(found, kinds[2])

        writer.composed(instruction, wider)
        return
    attributes = [f"dot_dimension_numbers = {_NUMBERS.print(params)}"]
    for key, codec in (("precision_config", _PRECISION), ("algorithm", _ALGORITHM)):
        text = codec.print(params[key])
        if text is not None:
            attributes.append(f"{key} = {text}")
    writer.line("stablehlo.dot_general", instruction, ", ".join(attributes))


def _read_common(reader: Reader, operation: Any) -> dict[str, Any]:
    spec = reader.result_specs(operation)[0]
    require_array(spec, "C12", "the result")
    assert type(spec) is TensorSpec
    return {
        "precision_config": _PRECISION.parse(reader.attribute(operation, "precision_config")),
        "preferred_element_type": spec.dtype,
        "algorithm": _ALGORITHM.parse(reader.attribute(operation, "algorithm")),
    }


def read_dot_general(reader: Reader, operation: Any) -> Any:
    """The preferred type stands in the result's type."""
    return bind(
        dot_general_op,
        *reader.operands(operation),
        **_NUMBERS.parse(reader.attribute(operation, "dot_dimension_numbers")),
        **_read_common(reader, operation),
    )


dot_general_op: Op = register(Op(
    name="dot_general",
    section="DotGeneral",
    infer=infer_dot_general,
    hlo=Hlo("stablehlo.dot_general", write=write_dot_general, read=read_dot_general),
    kernel=kernel_dot_general,
    ad=Rules(jvp_dot_general, vjp_dot_general),
    batch=batch_dot_general,
))  # fmt: skip


def read_dot(reader: Reader, operation: Any) -> Any:
    """``stablehlo.dot``, an older spelling for vectors and matrices."""
    x, y = reader.operands(operation)
    return bind(
        dot_general_op,
        x,
        y,
        lhs_batching_dimensions=(),
        rhs_batching_dimensions=(),
        lhs_contracting_dimensions=(x.ndim - 1,),
        rhs_contracting_dimensions=(0,),
        **_read_common(reader, operation),
    )


register_reader("stablehlo.dot", read_dot)


# --- public functions -----------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class DotDimensionNumbers:
    """What each dimension of the operands of a product is for; those not named appear in the result.

    Attributes
    ----------
    lhs_contracting_dimensions, rhs_contracting_dimensions : sequence of int
        Pairs of dimensions to sum over.
    lhs_batch_dimensions, rhs_batch_dimensions : sequence of int
        Pairs of dimensions that go along with each other.
    """

    lhs_contracting_dimensions: int | Sequence[int] = ()
    rhs_contracting_dimensions: int | Sequence[int] = ()
    lhs_batch_dimensions: int | Sequence[int] = ()
    rhs_batch_dimensions: int | Sequence[int] = ()


def operands_of(lhs: Any, rhs: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors, scalars and lists in the element type of the other."""
    if type(lhs) is Tensor and type(rhs) is Tensor:
        return lhs, rhs
    x = lift(lhs, (rhs,))
    return x, lift(rhs, (x,))


def require_numbers(dimension_numbers: Any, kind: type) -> None:
    """Dimension numbers of the class that the operation takes."""
    require(
        isinstance(dimension_numbers, kind),
        "X4",
        f"dimension_numbers must be {kind.__name__}",
        dimension_numbers,
    )


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision_config: Any = None,
    preferred_element_type: Any = None,
    algorithm: Any = None,
) -> Tensor:
    """Sums of products over chosen dimensions.

    Parameters
    ----------
    lhs, rhs : array
        Of one element type; or of different ones beside a `preferred_element_type`, and XLA multiplies in that of the
        larger range.
    dimension_numbers : DotDimensionNumbers
    precision_config : str or pair of str, optional
        ``"default"``, ``"high"`` or ``"highest"``, for both operands or each: how exactly an accelerator multiplies.
    preferred_element_type : dtype, optional
        Of the result; by default the operands'. Sums are kept in it or in the operands' type, whichever is wider.
    algorithm : str or DotAlgorithm, optional
        How an accelerator multiplies, in full; such as ``"BF16_BF16_F32_X3"``.

    Returns
    -------
    Tensor
        The batch dimensions, then what is left of `lhs`, then of `rhs`.

    Raises
    ------
    ConstraintError
        [C1] to [C8] If the dimension numbers do not fit the operands; [C11] for another `precision_config`, and
        [C21] for one beside an algorithm; [X2] for an unknown algorithm; [X4] for other dimension numbers.
    ShapeError
        [C9], [C10] If paired dimensions differ in size.
    DTypeError
        [C13] If the element types differ, and nothing says in which one the result is to be.

    Notes
    -----
    Section DotGeneral of the operation semantics. Floats of 16 bits and fewer are summed in f32 and rounded once;
    integers wrap; of truth values the result says whether any product is true. On the CPU and in the interpreter
    `precision_config` and `algorithm` change nothing.

    Examples
    --------
    >>> from xlapy import ops
    >>> x = ops.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> y = ops.constant([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    >>> ops.dot_general(x, y, DotDimensionNumbers([1], [1]))
    Tensor([[ 6., 12.],
            [15., 30.]], f32[2,2])
    """
    require_numbers(dimension_numbers, DotDimensionNumbers)
    x, y = operands_of(lhs, rhs)
    n = dimension_numbers
    result: Tensor = bind(
        dot_general_op,
        x,
        y,
        lhs_batching_dimensions=as_ints(n.lhs_batch_dimensions, "lhs_batch_dimensions", "C5"),
        rhs_batching_dimensions=as_ints(n.rhs_batch_dimensions, "rhs_batch_dimensions", "C7"),
        lhs_contracting_dimensions=as_ints(
            n.lhs_contracting_dimensions, "lhs_contracting_dimensions", "C6"
        ),
        rhs_contracting_dimensions=as_ints(
            n.rhs_contracting_dimensions, "rhs_contracting_dimensions", "C8"
        ),
        precision_config=as_precision_config(precision_config),
        preferred_element_type=preferred(x, y, preferred_element_type),
        algorithm=as_algorithm(algorithm),
    )
    return result


def preferred(x: Tensor, y: Tensor, preferred_element_type: Any, label: str = "C13") -> DType:
    """The element type of a product: the one asked for, or that of the operands; nothing is promoted unasked."""
    if preferred_element_type is not None:
        return as_dtype(preferred_element_type)
    for operand, own in ((x, "I1"), (y, "I2")):
        require_array(operand.spec, own)
    if x.dtype is not y.dtype:
        what = "lhs and rhs must be of one element type unless there is a preferred_element_type"
        require_dtype(False, label, what, (x.spec, y.spec))
    return x.dtype


def dot(
    lhs: Any, rhs: Any, precision_config: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The product of two vectors, a matrix and a vector, or two matrices.

    Parameters
    ----------
    lhs : array
        A vector of size k or a matrix [m, k].
    rhs : array
        A vector of size k or a matrix [k, n].
    precision_config, preferred_element_type
        As of `dot_general`.

    Returns
    -------
    Tensor
        Without the dimension of size k, over which it sums.

    Raises
    ------
    ShapeError
        [X3] Unless both have one or two dimensions; [C10] if the sizes of the summed dimensions differ.
    DTypeError
        [C13] As `dot_general`.

    Notes
    -----
    Section Dot of the operation semantics; ``stablehlo.dot_general``.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.dot(ops.constant([[1, 2], [3, 4]]), [1, 10])
    Tensor([21, 43], s32[2])
    """
    x, y = operands_of(lhs, rhs)
    kind = preferred(x, y, preferred_element_type)
    require_shape(
        x.ndim in (1, 2) and y.ndim in (1, 2),
        "X3",
        "the operands of dot must be vectors or matrices (dot_general takes arrays of any rank)",
        (x.spec, y.spec),
    )
    result: Tensor = bind(
        dot_general_op,
        x,
        y,
        lhs_batching_dimensions=(),
        rhs_batching_dimensions=(),
        lhs_contracting_dimensions=(x.ndim - 1,),
        rhs_contracting_dimensions=(0,),
        precision_config=as_precision_config(precision_config),
        preferred_element_type=kind,
        algorithm=None,
    )
    return result
