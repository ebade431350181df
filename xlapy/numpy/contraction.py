"""Products of matrices and tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ConstraintError, DTypeError, ShapeError, shown
from xlapy.ops import reduction
from xlapy.specs import DYNAMIC, as_axes, as_axis, as_int, as_ints, broadcast_shapes
from xlapy.staging import composite
from xlapy.tensor import Tensor

from .arithmetic import conj
from .comparison import truth
from .creation import as_array
from .docstrings import MATCHED, document
from .promotion import broadcast_to_shape, broadcast_together, call, convert, filled, promoted
from .shaping import permuted

__all__ = [
    "contracted",
    "dot",
    "einsum",
    "inner",
    "matmul",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vdot",
]

_PRED, _S32 = as_dtype("pred"), as_dtype("s32")


def contracted(
    x: Tensor,
    y: Tensor,
    contracting: tuple[Sequence[int], Sequence[int]],
    batching: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: DType | None = None,
    precision: Any = None,
) -> Tensor:
    """Sums of products: dimensions of the batch first, then what is left of the left and of the right operand.

    Of truth values it says whether any product is true.
    """
    if x.dtype is _PRED:
        found = contracted(convert(x, _S32), convert(y, _S32), contracting, batching)
        return truth(found)
    return call(
        "dot_general",
        x,
        y,
        lhs_batching_dimensions=tuple(batching[0]),
        rhs_batching_dimensions=tuple(batching[1]),
        lhs_contracting_dimensions=tuple(contracting[0]),
        rhs_contracting_dimensions=tuple(contracting[1]),
        precision_config=_precisions(precision),
        preferred_element_type=dtype or x.dtype,
        algorithm=None,
    )


def _precisions(precision: Any) -> tuple[str, str] | None:
    if precision is None:
        return None
    pair = (precision, precision) if isinstance(precision, str) else tuple(precision)
    names = tuple(str(p).upper() for p in pair)
    if len(names) != 2 or any(n not in ("DEFAULT", "HIGH", "HIGHEST") for n in names):
        raise ConstraintError(
            f"precision must be 'default', 'high' or 'highest', or two of them; got {shown(precision)} [X1]"
        )
    return names[0], names[1]


def _key(precision: Any) -> Any:
    if precision is None or isinstance(precision, str):
        return precision
    if not isinstance(precision, list | tuple) or not all(isinstance(p, str) for p in precision):
        raise DTypeError(
            f"precision must be 'default', 'high' or 'highest', or two of them; got {shown(precision)} [X1]"
        )
    return tuple(precision)


def matmul(
    x: Any, y: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The product of matrices; leading dimensions are broadcast.

    Parameters
    ----------
    x, y : array-like
        At least of one dimension; a vector stands for a row on the left and for a column on the right, and the
        dimension goes again.
    precision : str or pair of str, optional
        ``"default"``, ``"high"`` or ``"highest"``: how exactly an accelerator multiplies.
    preferred_element_type : dtype, optional
        Of the result, and of the sums where the backend can; by default the operands' common type.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the sizes do not fit.

    Examples
    --------
    >>> x = xlapy.asarray([[1, 2], [3, 4]])
    >>> xlapy.matmul(x, x), x @ xlapy.asarray([1, 0])
    (Tensor([[ 7, 10],
            [15, 22]], s32[2,2]), Tensor([1, 3], s32[2]))
    """
    if precision is None and preferred_element_type is None:
        return _matmul(x, y)
    kind = None if preferred_element_type is None else as_dtype(preferred_element_type)
    return _matmul_as(x, y, _key(precision), kind)


@composite(arrays=2)
def _matmul(x: Any, y: Any, /) -> Tensor:
    return _matrix_product(x, y, None, None)


@composite(arrays=2, name="matmul")
def _matmul_as(x: Any, y: Any, precision: Any, dtype: DType | None) -> Tensor:
    return _matrix_product(x, y, precision, dtype)


def _matrix_product(x: Any, y: Any, precision: Any, dtype: DType | None) -> Tensor:
    x, y = promoted(x, y)
    if not x.ndim or not y.ndim:
        raise ShapeError(
            f"the operands of matmul must not be scalars, use multiply; got {x.spec} and {y.spec} [X1]"
        )
    if y.ndim <= 2:
        # The right operand is one matrix: rows of the left one, however many dimensions they stand in.
        _require_size(x, x.ndim - 1, y, 0)
        return contracted(x, y, ((x.ndim - 1,), (0,)), dtype=dtype, precision=precision)
    if x.ndim == 1:
        _require_size(x, 0, y, y.ndim - 2)
        batch = tuple(range(y.ndim - 2))
        wide = broadcast_to_shape(x, (*y.shape[:-2], x.shape[0]), (y,))
        return contracted(wide, y, ((y.ndim - 2,), (y.ndim - 2,)), (batch, batch), dtype, precision)
    _require_size(x, x.ndim - 1, y, y.ndim - 2)
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (broadcast_to_shape(t, (*lead, *t.shape[-2:]), (x, y)) for t in (x, y))
    batch = tuple(range(len(lead)))
    n = len(lead)
    return contracted(x, y, ((n + 1,), (n,)), (batch, batch), dtype, precision)


def _require_size(x: Tensor, a: int, y: Tensor, b: int) -> None:
    if x.shape[a] != y.shape[b]:
        raise ShapeError(
            f"dimension {a} of {x.spec} must be as long as dimension {b} of {y.spec};"
            f" got {x.shape[a]} and {y.shape[b]} [X1]"
        )


@composite(arrays=2)
def dot(x: Any, y: Any, /) -> Tensor:
    """The sum of products over the last axis of `x` and the last but one of `y`, or its only one.

    With a scalar it multiplies. For stacks of matrices see `matmul`.

    Examples
    --------
    >>> xlapy.dot(xlapy.asarray([1, 2, 3]), xlapy.asarray([1, 0, 2]))
    Tensor(7, s32[])
    """
    x, y = promoted(x, y)
    if not x.ndim or not y.ndim:
        return call("mul", *broadcast_together(x, y))
    last = y.ndim - 2 if y.ndim > 1 else 0
    _require_size(x, x.ndim - 1, y, last)
    return contracted(x, y, ((x.ndim - 1,), (last,)))


@composite(arrays=2)
def inner(x: Any, y: Any, /) -> Tensor:
    """The sum of products over the last axes.

    Examples
    --------
    >>> xlapy.inner(xlapy.asarray([[1, 2], [3, 4]]), xlapy.asarray([1, 0]))
    Tensor([1, 3], s32[2])
    """
    x, y = promoted(x, y)
    if not x.ndim or not y.ndim:
        return call("mul", *broadcast_together(x, y))
    _require_size(x, x.ndim - 1, y, y.ndim - 1)
    return contracted(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@composite(arrays=2)
def outer(x: Any, y: Any, /) -> Tensor:
    """The products of every element of `x` with every one of `y`.

    Examples
    --------
    >>> xlapy.outer(xlapy.asarray([1, 2]), xlapy.asarray([3, 4]))
    Tensor([[3, 4],
            [6, 8]], s32[2,2])
    """
    x, y = promoted(x, y)
    shape = (x.size, y.size)
    pair = [
        call("broadcast_in_dim", call("reshape", t, shape=(t.size,)), shape=shape, broadcast_dimensions=(i,))
        for i, t in enumerate((x, y))
    ]  # fmt: skip
    return call("mul", *pair)


@composite(arrays=2)
def vdot(x: Any, y: Any, /) -> Tensor:
    """The sum of products of all elements, those of `x` conjugated.

    Examples
    --------
    >>> xlapy.vdot(xlapy.asarray([1j]), xlapy.asarray([1j]))
    Tensor(1.+0.j, c64[])
    """
    x, y = (call("reshape", t, shape=(t.size,)) for t in promoted(x, y))
    _require_size(x, 0, y, 0)
    return contracted(conj(x), y, ((0,), (0,)))


def vecdot(x: Any, y: Any, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, elements of `x` conjugated; the other dimensions are broadcast.

    Parameters
    ----------
    x, y : array-like
    axis : int
        It counts from the back where the ranks differ.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.vecdot(xlapy.asarray([[1, 2], [3, 4]]), xlapy.asarray([1, 1]))
    Tensor([3, 7], s32[2])
    """
    return _vecdot(x, y, as_int(axis, "axis"))


@composite(arrays=2)
def _vecdot(x: Any, y: Any, axis: int) -> Tensor:
    x, y = promoted(x, y)
    if x.ndim != y.ndim and not -min(x.ndim, y.ndim) <= axis < 0:
        raise ShapeError(f"axis must count from the back where ranks differ; got {axis} [X1]")
    a, b = as_axis(axis, x.ndim), as_axis(axis, y.ndim)
    _require_size(x, a, y, b)
    x, y = broadcast_together(conj(x), y)
    place = as_axis(axis, x.ndim)
    batch = tuple(i for i in range(x.ndim) if i != place)
    return contracted(x, y, ((place,), (place,)), (batch, batch))


def tensordot(x: Any, y: Any, /, axes: Any = 2) -> Tensor:
    """The sum of products over several axes.

    Parameters
    ----------
    x, y : array-like
    axes : int or pair of sequences of int
        How many of the last of `x` and the first of `y`; or which of each.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.tensordot(xlapy.ones((2, 3)), xlapy.ones((3, 2)), axes=([1, 0], [0, 1]))
    Tensor(6., f32[])
    """
    if isinstance(axes, list | tuple):
        if len(axes) != 2:
            raise ConstraintError(
                f"tensordot: axes must be a number or a pair; got {shown(axes)} [X1]"
            )
        return _tensordot(x, y, (as_ints(axes[0], "axes"), as_ints(axes[1], "axes")))
    return _tensordot(x, y, as_int(axes, "axes"))


@composite(arrays=2)
def _tensordot(x: Any, y: Any, axes: Any) -> Tensor:
    x, y = promoted(x, y)
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise ConstraintError(f"axes must be at most the number of dimensions; got {axes} [X1]")
        axes = (tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes)))
    left, right = as_axes(axes[0], x.ndim), as_axes(axes[1], y.ndim)
    if len(left) != len(right):
        raise ConstraintError(f"axes must be pairs; got {axes} [X1]")
    for a, b in zip(left, right, strict=True):
        _require_size(x, a, y, b)
    return contracted(x, y, (left, right))


def trace(x: Any, /, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum along the diagonals of matrices.

    Parameters
    ----------
    x : array-like
        The matrices are the last two dimensions.
    offset : int
        Which diagonal: 0 is the main one, positive numbers are above it.
    axis1, axis2 : int
        The axes of the rows and the columns.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.numpy.trace(xlapy.asarray([[1, 2], [3, 4]]))
    Tensor(5, s32[])
    """
    from .reductions import sum
    from .shaping import diagonal

    return sum(diagonal(x, offset, axis1, axis2), axis=-1)


# --- einsum -------------------------------------------------------------------------------------------------------


def einsum(subscripts: str, /, *operands: Any, precision: Any = None) -> Tensor:
    """Sums of products, by Einstein's convention.

    Parameters
    ----------
    subscripts : str
        ``"ij,jk->ik"``: a letter for each dimension. A letter twice in one operand takes the diagonal, one that the
        result lacks is summed over. ``...`` stands for further dimensions, which are broadcast. Without an arrow
        the result has the letters that occur once, in alphabetical order.
    *operands : array-like
    precision : str or pair of str, optional
        As for `matmul`.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError
        If the subscripts are not well formed, or do not fit the operands.

    Examples
    --------
    >>> xlapy.einsum("ij,jk->ik", xlapy.ones((2, 3)), xlapy.ones((3, 2)))
    Tensor([[3., 3.],
            [3., 3.]], f32[2,2])
    >>> xlapy.einsum("ii", xlapy.asarray([[1, 2], [3, 4]]))
    Tensor(5, s32[])
    """
    if not isinstance(subscripts, str):
        raise DTypeError(f"einsum: subscripts must be a string; got {shown(subscripts)} [X1]")
    return _einsum([as_array(x) for x in operands], subscripts.replace(" ", ""), _key(precision))


@composite(arrays=1, nested=True)
def _einsum(operands: list[Any], subscripts: str, precision: Any) -> Tensor:
    tensors = promoted(*operands) if operands else []
    terms, output = _parse(subscripts, [t.ndim for t in tensors])
    sizes = _sizes(terms, tensors, subscripts)
    for i, (t, term) in enumerate(zip(tensors, terms, strict=True)):
        tensors[i], terms[i] = _squeezed(*_on_diagonals(t, term), sizes)
    for left, right in _order(terms, output, sizes):
        y, second = tensors.pop(right), terms.pop(right)
        x, first = tensors.pop(left), terms.pop(left)
        wanted = set(output).union(*terms)
        product, term = _pair(x, first, y, second, wanted, precision)
        tensors.append(product)
        terms.append(term)
    (x,), (term,) = tensors, terms
    x, term = _summed(x, term, set(output))
    # What is left: the order, and sizes of 1 that were dropped and are repeated.
    present = [c for c in output if c in term]
    x = permuted(x, tuple(term.index(c) for c in present))
    shape = tuple(sizes[c] for c in output)
    if len(present) == len(output):
        return x
    return call(
        "broadcast_in_dim",
        x,
        shape=shape,
        broadcast_dimensions=tuple(output.index(c) for c in present),
    )


def _parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """A letter for each dimension of each operand and of the result; an ellipsis gets letters of its own."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise ConstraintError(
            f"subscripts must have a term for each of {len(ranks)} operands; got {shown(subscripts)} [X1]"
        )
    for text in (*terms, output):
        letters = text.replace("...", "", 1)
        if not all(c.isalpha() for c in letters):
            raise ConstraintError(
                f"subscripts must be letters, commas, '...' and '->'; got {shown(subscripts)} [X1]"
            )
    extra = [r - len(t.replace("...", "")) for t, r in zip(terms, ranks, strict=True)]
    for term, rank, more in zip(terms, ranks, extra, strict=True):
        if more < 0 or (more and "..." not in term):
            raise ShapeError(
                f"a term must have a letter for each dimension of its operand, {rank}; got {shown(term)} [X1]"
            )
    widest = max((m for t, m in zip(terms, extra, strict=True) if "..." in t), default=0)
    # Characters that are no letters, so that none of the user's is taken.
    names = "".join(chr(0x2460 + i) for i in range(widest))
    full = [
        t.replace("...", names[widest - m :]) if "..." in t else t
        for t, m in zip(terms, extra, strict=True)
    ]
    if arrow:
        result = output.replace("...", names)
        unknown = set(result) - set("".join(full)) - set(names)
        if unknown or len(set(result)) != len(result):
            raise ConstraintError(
                f"the result must name letters of the operands, each once; got {shown(subscripts)} [X1]"
            )
        if "..." not in output and widest:
            raise ConstraintError(
                f"the result must have '...' as well; got {shown(subscripts)} [X1]"
            )
        return full, result
    joined = "".join(terms).replace("...", "")
    return full, names + "".join(sorted(c for c in set(joined) if joined.count(c) == 1))


def _sizes(terms: Sequence[str], tensors: Sequence[Tensor], subscripts: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, t in zip(terms, tensors, strict=True):
        for c, n in zip(term, t.shape, strict=True):
            known = sizes.get(c, 1)
            if known != n and 1 not in (known, n):
                raise ShapeError(
                    f"{c!r} must have one size in {subscripts!r}; got {known} and {n} [X1]"
                )
            sizes[c] = n if known == 1 else known
    return sizes


def _on_diagonals(x: Tensor, term: str) -> tuple[Tensor, str]:
    """Letters that occur twice taken on the diagonal."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            a = term.index(c)
            b = term.index(c, a + 1)
            if x.shape[a] != x.shape[b]:
                raise ShapeError(
                    f"{c!r} must have one size; got {x.shape[a]} and {x.shape[b]} [X1]"
                )
            rows = call("iota", shape=x.shape, dtype=_S32, iota_dimension=a)
            columns = call("iota", shape=x.shape, dtype=_S32, iota_dimension=b)
            same = call("compare", rows, columns, comparison_direction="EQ")
            kept = call("select", same, x, filled(x, 0))
            fold = reduction.reduce_or if x.dtype is _PRED else reduction.reduce_sum
            x = fold(kept, (b,))
            term = term[:b] + term[b + 1 :]
    return x, term


def _squeezed(x: Tensor, term: str, sizes: dict[str, int]) -> tuple[Tensor, str]:
    """Without dimensions of size 1 that others broadcast."""
    gone = [i for i, c in enumerate(term) if x.shape[i] == 1 and sizes[c] != 1]
    if not gone:
        return x, term
    shape = tuple(n for i, n in enumerate(x.shape) if i not in gone)
    return call("reshape", x, shape=shape), "".join(c for i, c in enumerate(term) if i not in gone)


def _summed(x: Tensor, term: str, wanted: set[str]) -> tuple[Tensor, str]:
    axes = tuple(i for i, c in enumerate(term) if c not in wanted)
    if not axes:
        return x, term
    fold = reduction.reduce_or if x.dtype is _PRED else reduction.reduce_sum
    return fold(x, axes), "".join(c for c in term if c in wanted)


def _pair(
    x: Tensor, first: str, y: Tensor, second: str, wanted: set[str], precision: Any
) -> tuple[Tensor, str]:
    """The product of two operands, summed over what nobody else wants."""
    x, first = _summed(x, first, wanted | set(second))
    y, second = _summed(y, second, wanted | set(first))
    shared = [c for c in first if c in second]
    batch = [c for c in shared if c in wanted]
    summed = [c for c in shared if c not in wanted]

    def places(term: str, letters: list[str]) -> tuple[int, ...]:
        return tuple(term.index(c) for c in letters)

    product = contracted(
        x, y,
        (places(first, summed), places(second, summed)),
        (places(first, batch), places(second, batch)),
        precision=precision,
    )  # fmt: skip
    rest = [c for c in first if c not in shared] + [c for c in second if c not in shared]
    return product, "".join([*batch, *rest])


#: what a size that is not known is taken for where costs are compared
_TYPICAL: Final = 64


def _order(terms: Sequence[str], output: str, sizes: dict[str, int]) -> list[tuple[int, int]]:
    """Which two operands are multiplied next, of those that are left: the cheapest ones first."""
    sizes = {c: _TYPICAL if n is DYNAMIC else n for c, n in sizes.items()}
    left = list(terms)
    steps: list[tuple[int, int]] = []
    while len(left) > 1:
        best: tuple[Any, ...] | None = None
        for i in range(len(left)):
            for j in range(i + 1, len(left)):
                others = set(output).union(*(t for k, t in enumerate(left) if k not in (i, j)))
                union = set(left[i]) | set(left[j])
                result = math.prod(sizes[c] for c in union & others)
                removed = math.prod(sizes[c] for c in left[i]) + math.prod(
                    sizes[c] for c in left[j]
                )
                cost = (result - removed, math.prod(sizes[c] for c in union), i, j)
                if best is None or cost < best:
                    best = cost
        assert best is not None
        i, j = best[2], best[3]
        others = set(output).union(*(t for k, t in enumerate(left) if k not in (i, j)))
        merged = "".join(c for c in dict.fromkeys(left[i] + left[j]) if c in others)
        left.pop(j)
        left.pop(i)
        left.append(merged)
        steps.append((i, j))
    return steps


document(MATCHED, dot, inner, outer, vdot)
