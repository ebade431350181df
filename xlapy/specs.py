"""What is known of a value before it exists: specs, their notation, and the arithmetic of shapes."""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn, TypeAlias, cast, final

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ConstraintError, DTypeError, ShapeError, XlapyError, shown

__all__ = [
    "DYNAMIC",
    "Spec",
    "TensorSpec",
    "TokenSpec",
    "TupleSpec",
    "as_axes",
    "as_axis",
    "as_flag",
    "as_int",
    "as_ints",
    "as_items",
    "as_real",
    "as_shape",
    "as_word",
    "broadcast_shapes",
    "has_unknown",
    "parse_spec",
    "require",
    "require_array",
    "require_dtype",
    "require_shape",
]


@final
class _UnknownSize:
    """The size of a dimension that is known only when the program runs; it equals -1, which `reshape` takes for it.

    What computes with it, counts to it or makes an array of it gets an error, for it would get something wrong.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other is self or (type(other) is int and other == -1)

    def __hash__(self) -> int:
        return hash(-1)

    def __repr__(self) -> str:
        return "?"

    def __format__(self, spec: str) -> str:
        return format("?", spec)

    def __reduce__(self) -> str:
        return "DYNAMIC"

    def _refuse(self, *_: object) -> NoReturn:
        require_shape(
            False,
            "X2",
            "a size must be known, or bounded as in 'f32[<=8]', for this to be computed from it",
            self,
        )
        raise AssertionError

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _refuse
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _refuse
    __int__ = __index__ = __float__ = __array__ = _refuse


#: the size of a dimension of which nothing is known
DYNAMIC: Final = cast("int", _UnknownSize())
# XLA counts elements and bytes in signed 64-bit numbers; beyond them it aborts.
_MAX_SIZE: Final = 1 << 62
#: numpy, which holds the values on the host, has no more dimensions
MAX_RANK: Final = 64
# How deep tuples may lie in each other: what goes through them calls itself.
_DEEPEST: Final = 100
# Beyond any use, and Python does not write them out.
_LONGEST: Final = 1024


@final
class TensorSpec:
    """The shape and element type of an array; interned, so that equal specs are the same object.

    Parameters
    ----------
    shape : sequence of int
        The size of each dimension; where `dynamic` names the axis, its upper bound.
    dtype : DType or anything `as_dtype` takes
    dynamic : sequence of int, optional
        The axes whose size varies at run time up to the bound in `shape`.

    Examples
    --------
    >>> TensorSpec((8, 4), "f32")
    f32[8,4]
    >>> TensorSpec((8, 4), "f32") is TensorSpec([8, 4], "float32")
    True
    """

    __slots__ = (
        "__weakref__", "dtype", "dynamic", "is_static", "mlir", "rank", "shape", "size", "spec",
    )  # fmt: skip

    shape: tuple[int, ...]
    dtype: DType
    dynamic: tuple[int, ...]
    rank: int
    size: int
    mlir: str
    #: whether every size is known before the program runs
    is_static: bool
    #: the spec itself, so that a spec and a `Placed` (a spec and a place) read alike
    spec: TensorSpec

    _interned: dict[Any, TensorSpec] = {}  # noqa: RUF012 - the one table, filled by __new__

    def __new__(cls, shape: Sequence[int], dtype: Any, dynamic: Sequence[int] = ()) -> TensorSpec:
        """Give the one spec of a shape and element type."""
        try:
            found = cls._interned[shape, dtype, dynamic]
            for size in shape:
                if type(size) is not int:  # 2.0 and True are equal to integers, and are no sizes
                    break
            else:
                return found
        except (KeyError, TypeError, ValueError):
            pass
        key = (as_shape(shape), as_dtype(dtype), tuple(dynamic))
        self = cls._interned.get(key)
        if self is None:
            self = object.__new__(cls)
            self.shape, self.dtype, self.dynamic = key
            self.rank = len(self.shape)
            known = [d for d in self.shape if d is not DYNAMIC]
            self.size = math.prod(known)
            if self.size and len(known) < len(self.shape):
                self.size = DYNAMIC
            self.is_static = not self.dynamic and len(known) == len(self.shape)
            self.mlir = _mlir_type(self)
            if self.rank > MAX_RANK:
                raise ShapeError(
                    f"an array must have at most {MAX_RANK} dimensions; got {self.rank} [X1]"
                )
            if any(not 0 <= axis < self.rank for axis in self.dynamic):
                raise ShapeError(
                    f"dynamic must name axes of {self.rank} dimensions; got {self.dynamic} [X1]"
                )
            # Of an empty array the other sizes count: strides are products of them.
            if math.prod([d for d in known if d]) * self.dtype.bits > _MAX_SIZE:
                raise ShapeError(f"an array must have fewer than 2**62 bits; got {self} [X1]")
            self.spec = self
            cls._interned[key] = self
        # By the names it was asked for as well, such as numpy's: constants ask again and again.
        with contextlib.suppress(TypeError):
            cls._interned[shape, dtype, dynamic] = self
        return self

    def __repr__(self) -> str:
        dims = (
            "?" if d is DYNAMIC else f"<={d}" if i in self.dynamic else str(d)
            for i, d in enumerate(self.shape)
        )
        return f"{self.dtype.name}[{','.join(dims)}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorSpec, (self.shape, self.dtype, self.dynamic)

    def with_shape(self, shape: Sequence[int], dynamic: Sequence[int] = ()) -> TensorSpec:
        """A spec of the same element type."""
        return TensorSpec(tuple(shape), self.dtype, tuple(dynamic))

    def with_dtype(self, dtype: Any) -> TensorSpec:
        """A spec of the same shape."""
        return TensorSpec(self.shape, as_dtype(dtype), self.dynamic)


@final
class TupleSpec:
    """The specs of a tuple's elements, themselves tuples perhaps."""

    __slots__ = ("depth", "elements", "mlir", "spec")

    def __init__(self, elements: Iterable[Spec]) -> None:
        self.elements: tuple[Spec, ...] = tuple(elements)
        #: how many tuples lie in each other
        self.depth: int = 1 + max(
            [e.depth for e in self.elements if type(e) is TupleSpec], default=0
        )
        _require_depth(self.depth)
        self.mlir: str = f"tuple<{', '.join(e.mlir for e in self.elements)}>"
        self.spec: TupleSpec = self

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.elements))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleSpec) and self.elements == other.elements

    def __hash__(self) -> int:
        return hash(self.elements)


@final
class TokenSpec:
    """What orders side effects; it carries no data."""

    __slots__ = ("mlir", "spec")

    def __init__(self) -> None:
        self.mlir: str = "!stablehlo.token"
        self.spec: TokenSpec = self

    def __repr__(self) -> str:
        return "token[]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenSpec)

    def __hash__(self) -> int:
        return hash("token")


def _require_depth(depth: int) -> None:
    require_shape(
        depth <= _DEEPEST,
        "X1",
        f"tuples must not lie more than {_DEEPEST} deep in each other",
        depth,
    )


Spec: TypeAlias = TensorSpec | TupleSpec | TokenSpec


def _mlir_type(spec: TensorSpec) -> str:
    dims = "".join(
        "?x" if d is DYNAMIC or i in spec.dynamic else f"{d}x" for i, d in enumerate(spec.shape)
    )
    bounds = ""
    if spec.dynamic:
        entries = ", ".join(str(d) if i in spec.dynamic else "?" for i, d in enumerate(spec.shape))
        bounds = f", #stablehlo.bounds<{entries}>"
    return f"tensor<{dims}{spec.dtype.mlir}{bounds}>"


_SPEC = re.compile(r"\s*([a-z]\w*)\s*\[\s*([^\]]*)\]\s*")


def parse_spec(text: str | Spec) -> Spec:
    """Read the notation that specs print as.

    Parameters
    ----------
    text : str or spec
        ``"f32[8,4]"``, ``"pred[]"``, ``"s32[<=8]"``, ``"token[]"`` or a tuple of these in parentheses.

    Returns
    -------
    TensorSpec or TupleSpec or TokenSpec

    Examples
    --------
    >>> parse_spec("f32[8, 4]").shape
    (8, 4)
    >>> parse_spec("(f32[2], token[])")
    (f32[2], token[])
    """
    if not isinstance(text, str):
        if isinstance(text, TensorSpec | TupleSpec | TokenSpec):
            return text
        raise DTypeError(
            f"a spec must be written as 'f32[8,4]' or be a TensorSpec; got {shown(text)} [X1]"
        )
    spec, rest = _parse_prefix(text, 1)
    if rest.strip():
        _bad_spec(text)
    return spec


def _parse_prefix(text: str, depth: int) -> tuple[Spec, str]:
    stripped = text.lstrip()
    if stripped.startswith("("):
        _require_depth(depth)
        elements: list[Spec] = []
        rest = stripped[1:].lstrip()
        while not rest.startswith(")"):
            element, rest = _parse_prefix(rest, depth + 1)
            elements.append(element)
            rest = rest.lstrip()
            if rest.startswith(","):
                rest = rest[1:].lstrip()
            elif not rest.startswith(")"):
                _bad_spec(text)
        return TupleSpec(elements), rest[1:]
    match = _SPEC.match(stripped)
    if match is None:
        _bad_spec(text)
    name, dims = match.groups()
    rest = stripped[match.end() :]
    if name == "token" and not dims.strip():
        return TokenSpec(), rest
    shape: list[int] = []
    dynamic: list[int] = []
    for axis, dim in enumerate(dims.split(",") if dims.strip() else ()):
        digits = dim.strip()
        if digits == "?":
            shape.append(DYNAMIC)
            continue
        if digits.startswith("<="):
            dynamic.append(axis)
            digits = digits[2:].strip()
        if not digits.isdecimal():
            _bad_spec(text)
        shape.append(int(digits))
    return TensorSpec(tuple(shape), as_dtype(name), tuple(dynamic)), rest


def _bad_spec(text: str) -> NoReturn:
    raise ShapeError(
        f"a spec must be written as in 'f32[8,4]', 's32[<=8]' or '(f32[], token[])'; got {shown(text)} [X1]"
    )


# --- checks -----------------------------------------------------------------------------------------------------


def require(
    ok: bool, label: str, what: str, got: object = None, error: type[XlapyError] = ConstraintError
) -> None:
    """Raise unless a constraint holds; the caller adds the op, its operands and the user's line.

    Parameters
    ----------
    ok : bool
    label : str
        The constraint's label in the StableHLO specification, or ``X..``.
    what : str
        What must hold, as a sentence: ``"window_dimensions must be positive"``.
    got : object
        The value that was found instead.
    error : type
        The class to raise.

    Examples
    --------
    >>> require(False, "C5", "window_dimensions must be positive", got=(0, 1))
    Traceback (most recent call last):
    xlapy.errors.ConstraintError: window_dimensions must be positive; got (0, 1) [C5]
      at ...
    """
    if not ok:
        raised = error(f"{what}; got {shown(got)} [{label}]")
        raised.label = label
        raise raised


def require_shape(ok: bool, label: str, what: str, got: object = None) -> None:
    """`require` for shapes: raises `ShapeError`."""
    if not ok:
        require(False, label, what, got, ShapeError)


def require_dtype(ok: bool, label: str, what: str, got: object = None) -> None:
    """`require` for element types: raises `DTypeError`."""
    if not ok:
        require(False, label, what, got, DTypeError)


def require_array(spec: object, label: str, what: str = "the operand") -> None:
    """Refuse the spec of a tuple or token."""
    if type(spec) is not TensorSpec:
        require_dtype(False, label, f"{what} must be an array", spec)


def as_int(value: Any, what: str = "a size", label: str = "X1") -> int:
    """An exact Python int; floats, strings and traced values are refused rather than truncated."""
    if type(value) is int:
        if value.bit_length() > _LONGEST:
            require(False, label, f"{what} must have {_LONGEST} bits at most", value)
        return value
    if type(value) is _UnknownSize:
        return DYNAMIC
    if isinstance(value, bool) or (
        hasattr(value, "dtype") and getattr(value.dtype, "kind", "i") == "b"
    ):
        require(False, label, f"{what} must be an integer", value, DTypeError)
    try:
        return as_int(operator.index(value), what, label)
    except XlapyError:
        raise
    except TypeError:
        require(False, label, f"{what} must be an integer", value, DTypeError)
        raise


def as_ints(values: Any, what: str = "sizes", label: str = "X1") -> tuple[int, ...]:
    """A tuple of exact Python ints; a single integer counts as one entry."""
    if type(values) is tuple:
        for value in values:
            if type(value) is not int:
                break
        else:
            return values
    if (
        isinstance(values, str | bytes | bytearray | set | frozenset | dict)
        or not isinstance(values, Iterable)
        or getattr(values, "ndim", 1) == 0
    ):
        return (as_int(values, what, label),)
    return tuple(as_int(v, what, label) for v in values)


def as_flag(value: Any, what: str, label: str = "X1") -> bool:
    """True or False, also as numpy's, 1 or 0; other things, which Python would take for one of them, are refused."""
    if type(value) is bool:
        return value
    if isinstance(value, np.bool_) or (type(value) is int and value in (0, 1)):
        return bool(value)
    require(False, label, f"{what} must be True or False", value, DTypeError)
    raise AssertionError


def as_real(value: Any, what: str, label: str = "X1") -> float:
    """A Python float of a real number, or of an array of one."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        real = getattr(value, "size", 0) == 1 and as_dtype(dtype).kind in ("int", "uint", "float")
    else:
        real = isinstance(value, int | float) and type(value) is not bool
    require(real, label, f"{what} must be a real number", value, DTypeError)
    try:
        return float(value)
    except OverflowError:
        require(False, label, f"{what} must not be larger than every float", value)
        raise


def as_items(values: Any, what: str, label: str = "X1") -> tuple[Any, ...]:
    """The items of a sequence, or of an array's first dimension; anything else is refused."""
    is_sequence = isinstance(values, Iterable) and not isinstance(
        values, str | bytes | bytearray | set | frozenset | dict
    )
    if not is_sequence:
        require_dtype(False, label, f"{what} must be a sequence", values)
    return tuple(values)


def as_word(value: Any, prefix: str = "") -> Any:
    """A word in capitals, without a prefix that it may have; anything else itself, for a check to refuse."""
    return value.upper().removeprefix(prefix) if isinstance(value, str) else value


def as_shape(shape: Any) -> tuple[int, ...]:
    """A checked shape: a tuple of sizes that are not negative (`DYNAMIC` apart)."""
    sizes = as_ints(shape, "shape")
    if has_unknown(sizes):
        sizes = tuple([DYNAMIC if n == DYNAMIC else n for n in sizes])
    for size in sizes:
        if size is not DYNAMIC and size < 0:
            require_shape(False, "X1", "sizes must not be negative", sizes)
    return sizes


def has_unknown(sizes: Sequence[int]) -> bool:
    """Whether one of some sizes is `DYNAMIC`."""
    return -1 in sizes  # which it equals: integers find that sooner than it would


def as_axis(axis: Any, rank: int, label: str = "X1", what: str = "axis") -> int:
    """An axis counted from the front; negative ones count from the back."""
    number = as_int(axis, what, label)
    if not -rank <= number < rank:
        require_shape(False, label, f"{what} must be in the range of the {rank} dimensions", number)
    return number + rank if number < 0 else number


def as_axes(axes: Any, rank: int, label: str = "X1") -> tuple[int, ...]:
    """Axes counted from the front, each once; None stands for all of them."""
    if axes is None:
        return tuple(range(rank))
    if type(axes) is int and 0 <= axes < rank:
        return (axes,)
    found = tuple([as_axis(a, rank, label) for a in as_ints(axes, "axis", label)])
    if len(found) > 1:
        require_shape(len(set(found)) == len(found), label, "axes must be unique", axes)
    return found


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape on which numpy's broadcasting makes shapes meet.

    Examples
    --------
    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for i, size in enumerate(shape, offset):
            if size != 1:
                if result[i] not in (1, size):
                    require_shape(False, "X1", "shapes must broadcast together", shapes)
                result[i] = size
    return tuple(result)
