"""Making arrays: from data, and by rule.

Outside a trace the values are made on the host and copied, so that no shape is compiled for; within one they are
recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.backends.base import Backend
from xlapy.backends.eager import put
from xlapy.backends.registry import backend_of, current_backend, get_backend
from xlapy.dtypes import DType, as_dtype, python_scalar
from xlapy.errors import BackendError, ConstraintError, DTypeError, ShapeError, XlapyError, shown
from xlapy.memory import require_memory
from xlapy.ops import elementwise_kernels as kernels
from xlapy.specs import DYNAMIC, MAX_RANK, TensorSpec, TokenSpec, as_ints, as_shape, has_unknown
from xlapy.staging import composite
from xlapy.tensor import Placed, Placement, Tensor
from xlapy.trace.builder import host_array, scalar_array
from xlapy.trace.mode import annotate, current_builder
from xlapy.trace.zeros import constant_of

from .promotion import as_tensor, broadcast_to_shape, call, is_weak, require_complex_kept, spread

__all__ = [
    "array",
    "as_array",
    "as_list",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "from_dlpack",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "placement_of",
    "to",
    "zeros",
    "zeros_like",
]

_SCALARS = (bool, int, float, complex)
_PRED, _S32, _F32 = (as_dtype(n) for n in ("pred", "s32", "f32"))


# --- places -------------------------------------------------------------------------------------------------------


def placement_of(where: Any) -> Placement:
    """The place that a backend, its name, a device, a sharding or a placement stands for."""
    if isinstance(where, Placement):
        return where
    if where is None:
        return current_backend().placement
    if isinstance(where, Backend):
        return where.placement
    if isinstance(where, str) and not where.startswith("interpreter:"):
        return get_backend("pjrt:cpu" if where == "cpu" else where).placement
    if isinstance(where, str):
        get_backend("interpreter")  # its devices are known by name
    found = backend_of(where)
    if found is not None:
        return found.placement_of(where)
    raise BackendError(
        f"a place must be a backend, its name or one of its devices; got {shown(where)} [X1]"
    )


def to(x: Tensor, where: Any, /, *, stream: Any = None) -> Tensor:
    """The same values on another backend or device."""
    del stream  # of the Array API: transfers are ordered without one
    if type(x.placed) is not Placed:
        x._refuse("moved")
    here = x.placement
    owner: Backend = here.backend
    # A device of the tensor's own backend is known even where the backend has no name.
    own = any(d is where or (type(d) is type(where) and d == where) for d in owner.devices)
    placement = owner.placement_of(where) if own else placement_of(where)
    if here is placement:
        return Tensor(x.placed, x.payload)
    backend: Backend = placement.backend
    if type(x.spec) is TokenSpec:
        return Tensor(placement.of(x.spec), backend.token())
    if owner is backend:
        device = backend.devices[0] if placement.device is None else placement.device
        return Tensor(placement.of(x.spec), backend.copy(x.payload, device))
    return put(x.numpy(), placement)


# --- from data ----------------------------------------------------------------------------------------------------


def asarray(
    x: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None
) -> Tensor:
    """A tensor of data: the values are copied.

    Parameters
    ----------
    x : array-like
        A number, nested lists, a numpy array, a tensor, or anything with ``__array__`` or ``__dlpack__``. Python
        numbers give s32, f32, c64 and pred; arrays keep their element type, 64-bit ones too.
    dtype : dtype, optional
        Converts, as `astype` does.
    device : str or Backend or Device, optional
        Where to put it; by default the current backend, or where the tensor `x` lies.
    copy : bool, optional
        False, which the Array API has, is refused unless `x` is a tensor that need not be converted.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        If `x` holds anything else than numbers, or Python integers that do not fit.

    Examples
    --------
    >>> xlapy.asarray([[1, 2], [3, 4]]), xlapy.asarray(0.5), xlapy.asarray([1, 0], "bf16")
    (Tensor([[1, 2],
            [3, 4]], s32[2,2]), Tensor(0.5, f32[]), Tensor([1., 0.], bf16[2]))
    >>> xlapy.asarray(np.arange(3.0), device="interpreter").backend.name
    'interpreter'
    """
    if (
        type(x) is np.ndarray
        and dtype is None
        and device is None
        and copy is None
        and current_builder() is None
    ):
        return put(x)
    if copy is False and (type(x) is not Tensor or dtype not in (None, x.dtype)):
        raise ConstraintError("asarray: data from outside must be copied; got copy=False [X1]")
    kind = None if dtype is None else as_dtype(dtype)
    try:
        if type(x) is Tensor:
            return _from_tensor(x, kind, device)
        if isinstance(x, list | tuple) and _holds_tensor(x):
            return _from_tensor(_stacked(x), kind, device)
        array = _host_values(x, kind)
    except XlapyError as error:
        raise annotate(error, "asarray", None) from None
    if current_builder() is not None and device is None:
        return call("constant", value=array.copy())
    return put(array, placement_of(device))


array = asarray


def as_array(x: Any) -> Any:
    """An array written as lists as a tensor; anything else itself."""
    return asarray(x) if isinstance(x, list | tuple) else x


def as_list(arrays: Any, what: str) -> list[Any]:
    """Arrays in a sequence, or the slices of one array, at least one of them."""
    if (type(arrays) is Tensor or isinstance(arrays, np.ndarray)) and arrays.ndim:
        arrays = list(arrays)
    if not isinstance(arrays, list | tuple):
        raise DTypeError(f"{what} must be a sequence of arrays; got {_kind_of(arrays)} [X1]")
    if not arrays:
        raise ConstraintError(f"{what} must be at least one array; got none [X1]")
    return [as_array(x) for x in arrays]


def _kind_of(x: Any) -> str:
    return f"{x.dtype}[]" if hasattr(x, "dtype") else type(x).__name__


def _from_tensor(x: Tensor, dtype: DType | None, device: Any) -> Tensor:
    if device is not None and type(x.placed) is Placed:
        x = to(x, device)
    weak = type(x.placed) is not Placed and is_weak(x)
    if dtype is not None and (weak or dtype is not x.dtype):
        from .datatypes import astype

        return astype(x, dtype)
    if weak:
        return as_tensor(x)
    return Tensor(x.placed, x.payload)


def _holds_tensor(x: Any, depth: int = 1) -> bool:
    if depth > MAX_RANK:
        return False  # numpy says so
    return any(
        type(v) is Tensor or (isinstance(v, list | tuple) and _holds_tensor(v, depth + 1))
        for v in x
    )


def _stacked(x: Any) -> Tensor:
    from .joining import stack

    return stack([_stacked(v) if isinstance(v, list | tuple) else v for v in x])


def _host_values(x: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """The values on the host, of a type given or of their own."""
    number = python_scalar(x)
    if dtype is None:
        return host_array(x) if number is None else scalar_array(number)
    if number is not None or isinstance(x, list | tuple):
        # Python numbers have no width of their own: they are taken as they are.
        try:
            found = np.asarray(x)
            if found.dtype == object and dtype.inexact:
                found = found.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DTypeError(
                f"data must be numbers in lists of equal lengths; got {error} [X1]"
            ) from None
        if found.dtype.kind not in "biufc" and found.dtype != object:
            raise DTypeError(f"data must be numbers; got {found.dtype} [X1]")
        require_fit(found, dtype)
        with np.errstate(all="ignore"):
            made = found.astype(dtype.numpy) if found.dtype == object else converted(found, dtype)
            return np.ascontiguousarray(made).reshape(found.shape)
    found = host_array(x)
    if dtype.kind != "bool":
        require_complex_kept(found.dtype.kind == "c", dtype)
    with np.errstate(all="ignore"):
        return converted(found, dtype)


def converted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """An array in another element type, as `astype` converts: numpy leaves open what does not fit."""
    if dtype.kind == "bool":
        return np.asarray(array != array.dtype.type(0))
    return kernels.convert(array, dtype.numpy)


def require_fit(found: np.ndarray[Any, Any], dtype: DType) -> None:
    """Python integers must fit; floats and complex numbers do not turn into lower kinds."""
    kind = found.dtype.kind
    if dtype.kind != "bool":
        require_complex_kept(kind == "c", dtype)
    if dtype.integer and (kind in "iu" or found.dtype == object) and found.size:
        low = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
        high = (1 << (dtype.bits - (dtype.kind == "int"))) - 1
        for extreme in (found.min(), found.max()):
            if not isinstance(extreme, int | np.integer) or not low <= int(extreme) <= high:
                raise DTypeError(f"Python integers must fit {dtype}; got {shown(extreme)} [X3]")
    elif found.dtype == object:
        try:
            found.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DTypeError(f"data must be numbers; got {shown(found.flat[0])} [X1]") from None


def copy(x: Any, /) -> Tensor:
    """A copy: assigning to its elements leaves `x` as it is.

    Parameters
    ----------
    x : array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> x = xlapy.zeros(2)
    >>> y = xlapy.copy(x)
    >>> y[0] = 1.0
    >>> x, y
    (Tensor([0., 0.], f32[2]), Tensor([1., 0.], f32[2]))
    """
    if type(x) is not Tensor:
        return asarray(x)
    if type(x.placed) is Placed and current_builder() is None:
        return Tensor(x.placed, x.payload)
    # An operation, so that the copy counts as made here; XLA removes it.
    return call("reshape", x, shape=x.shape)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of the data of another library's array, copied.

    Parameters
    ----------
    x : object with ``__dlpack__``
    device : backend or device, optional
        Where the tensor lies; by default on the current backend.
    copy : bool, optional
        False is refused for other libraries' data, which is always copied.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.from_dlpack(np.arange(3, dtype=np.int32))
    Tensor([0, 1, 2], s32[3])
    """
    if type(x) is Tensor:
        return _from_tensor(x, None, device)
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack: x must have __dlpack__; got {type(x).__name__} [X1]")
    if copy is False:
        raise ConstraintError("from_dlpack: data from outside must be copied; got copy=False [X1]")
    try:
        found = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # numpy reads fewer element types and memories than there are.
        if not hasattr(x, "__array__"):
            raise DTypeError(f"x must be readable on the host; got {error} [X1]") from None
        found = host_array(x)
    return asarray(found, device=device)


def static_shape(shape: Any) -> tuple[int, ...]:
    """A shape of sizes that are known and not negative."""
    sizes = as_ints(shape, "shape")
    if has_unknown(sizes):
        known = not any(n is DYNAMIC for n in sizes)
        what = "sizes must not be negative" if known else "sizes must be known"
        raise ShapeError(f"{what}; got {sizes} [X1]")
    return as_shape(sizes)


def host_shape(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    """The shape of an array that is to be made on the host, where it fits."""
    require_memory("an array", [TensorSpec(shape, as_dtype(dtype))])
    return shape


# --- one value ----------------------------------------------------------------------------------------------------


def full(
    shape: int | Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """An array of one value.

    Parameters
    ----------
    shape : int or sequence of int
    fill_value : array-like
        A number, or an array that is broadcast.
    dtype : dtype, optional
        By default what `fill_value` gives.
    device : str or Backend or Device, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.full((2, 2), 7)
    Tensor([[7, 7],
            [7, 7]], s32[2,2])
    """
    return _full(static_shape(shape), fill_value, dtype, device)


def _full(shape: tuple[int, ...], value: Any, dtype: Any, device: Any = None) -> Tensor:
    if type(value) is Tensor or type(value) not in _SCALARS:
        x = asarray(value, dtype, device=device)
        return _broadcast(x, shape) if x.shape != shape else x
    single = _host_values(value, None if dtype is None else as_dtype(dtype))
    if current_builder() is not None and device is None:
        result: Tensor = constant_of(TensorSpec(shape, as_dtype(single.dtype)), single.item())
        return result
    return put(np.full(host_shape(shape, single.dtype), single), placement_of(device))


@composite(arrays=1, name="broadcast_to")
def _broadcast(x: Any, shape: tuple[int, ...]) -> Tensor:
    return broadcast_to_shape(as_tensor(x), shape)


def zeros(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros, f32 by default.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : dtype, optional
        By default f32.
    device : backend or device, optional
        Where it lies; by default on the current backend.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.zeros(3), xlapy.zeros((1, 2), dtype="s8")
    (Tensor([0., 0., 0.], f32[3]), Tensor([[0, 0]], s8[1,2]))
    """
    return _full(static_shape(shape), 0, _F32 if dtype is None else dtype, device)


def ones(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones, f32 by default.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : dtype, optional
        By default f32.
    device : backend or device, optional
        Where it lies; by default on the current backend.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.ones(3)
    Tensor([1., 1., 1.], f32[3])
    """
    return _full(static_shape(shape), 1, _F32 if dtype is None else dtype, device)


def empty(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array to be overwritten; its elements are zeros, for nothing here is undefined.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : dtype, optional
        By default f32.
    device : backend or device, optional
        Where it lies; by default on the current backend.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.empty(2)
    Tensor([0., 0.], f32[2])
    """
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one value, of the shape and element type of `x` and where it lies.

    Parameters
    ----------
    x : array-like
    fill_value : scalar
    dtype : dtype, optional
        By default that of `x`.
    device : backend or device, optional
        Where it lies; by default where `x` does.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.full_like(xlapy.asarray([1.0, 2.0]), 7)
    Tensor([7., 7.], f32[2])
    """
    if type(x) is not Tensor:
        x = asarray(x)
    if device is None and type(x.placed) is Placed:
        device = x.placed.placement
        if current_builder() is not None:
            device = None
    if not x.spec.is_static:
        return _alike(x, asarray(fill_value, x.dtype if dtype is None else dtype))
    return _full(x.shape, fill_value, x.dtype if dtype is None else dtype, device)


@composite(arrays=2, name="full_like")
def _alike(x: Any, value: Any) -> Tensor:
    return spread(value, x.shape, (), (x,))


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros of the shape and element type of `x`.

    Parameters
    ----------
    x : array-like
    dtype : dtype, optional
        By default that of `x`.
    device : backend or device, optional
        Where it lies; by default where `x` does.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.zeros_like(xlapy.asarray([1, 2]))
    Tensor([0, 0], s32[2])
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones of the shape and element type of `x`.

    Parameters
    ----------
    x : array-like
    dtype : dtype, optional
        By default that of `x`.
    device : backend or device, optional
        Where it lies; by default where `x` does.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.ones_like(xlapy.asarray([1, 2]))
    Tensor([1, 1], s32[2])
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array to be overwritten, of the shape and element type of `x`; its elements are zeros.

    Parameters
    ----------
    x : array-like
    dtype : dtype, optional
        By default that of `x`.
    device : backend or device, optional
        Where it lies; by default where `x` does.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.empty_like(xlapy.asarray([1, 2]))
    Tensor([0, 0], s32[2])
    """
    return full_like(x, 0, dtype=dtype, device=device)
