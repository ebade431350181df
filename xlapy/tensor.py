"""The array that users hold: a spec and a payload.

A tensor is either concrete (its payload is a backend's buffer) or traced (its payload is a `Value` of the program
being recorded). Its operators call a table that the numpy-like layer fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np

from xlapy.dtypes import DType
from xlapy.errors import BackendError, DTypeError, ShapeError, TracingError
from xlapy.source import caller, locate
from xlapy.specs import Spec, TensorSpec

if TYPE_CHECKING:
    from xlapy.trace.computation import Value

__all__ = ["OPERANDS", "Placed", "Placement", "Tensor", "install", "operators"]


@final
class Placement:
    """Where a concrete tensor's data lies: a backend and one of its devices, or a sharding over several.

    Attributes
    ----------
    backend : Backend
    device : any
        The backend's own device object; None for its default.
    sharding : Sharding or None
    """

    __slots__ = ("_placed", "backend", "device", "putters", "sharding")

    def __init__(self, backend: Any, device: Any = None, sharding: Any = None) -> None:
        self.backend = backend
        self.device = device
        self.sharding = sharding
        self._placed: dict[Spec, Placed] = {}
        #: (shape, numpy's dtype) -> where such arrays are then, and what copies them there
        self.putters: dict[Any, tuple[Placed, Callable[[Any], Any]]] = {}

    def of(self, spec: Spec) -> Placed:
        """The one `Placed` of a spec here."""
        found = self._placed.get(spec)
        if found is None:
            found = self._placed[spec] = Placed(spec, self)
        return found

    def __repr__(self) -> str:
        where = self.sharding if self.sharding is not None else self.device
        return self.backend.name if where is None else f"{self.backend.name} {where}"


@final
class Placed:
    """A spec at a placement: what executables are looked up by. One object each, so comparing is cheap."""

    __slots__ = ("placement", "spec")

    def __init__(self, spec: Spec, placement: Placement) -> None:
        self.spec = spec
        self.placement = placement

    def __repr__(self) -> str:
        return f"{self.spec} on {self.placement}"


#: the functions behind the properties and protocols of `Tensor`; filled in by `install`
operators: Final[dict[str, Callable[..., Any]]] = {}


def install(
    functions: Mapping[str, Callable[..., Any]], attributes: Mapping[str, Callable[..., Any]]
) -> None:
    """Fill in what the numpy-like layer defines of `Tensor`.

    Parameters
    ----------
    functions : mapping
        What the properties and protocols call, by name.
    attributes : mapping
        The operators and methods: they become attributes of the class, so that a call of theirs takes no frame
        more than the function itself.
    """
    operators.update(functions)
    for name, function in attributes.items():
        setattr(Tensor, name, function)


@final
class Tensor:
    """An n-dimensional array of one element type.

    Make one with `xlapy.asarray` or the creation functions; do not call the class.

    Attributes
    ----------
    placed : Placed or spec
        The spec and where the data lies; the bare spec for a traced tensor.
    payload : any
        The backend's buffer, or the traced `Value`.

    Examples
    --------
    >>> import xlapy
    >>> x = xlapy.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> x.shape, x.dtype, (x + 1).sum()
    ((2, 2), f32, Tensor(14., f32[]))
    """

    __slots__ = ("__weakref__", "payload", "placed")

    # numpy must leave `array + tensor` to the reflected operator here instead of looping over elements.
    __array_ufunc__ = None
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, placed: Placed | Spec, payload: Any) -> None:
        self.placed = placed
        self.payload = payload

    # --- what is known without the data ---------------------------------------------------------------------

    @property
    def spec(self) -> Any:
        """The shape and element type."""
        return self.placed.spec

    def _array_spec(self, what: str) -> TensorSpec:
        spec = self.placed.spec
        if type(spec) is not TensorSpec:
            raise DTypeError(f"what is asked for its {what} must be an array; got {spec} [X1]")
        return spec

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self._array_spec("shape").shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._array_spec("dtype").dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array_spec("rank").rank

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array_spec("size").size

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take on a device."""
        spec = self._array_spec("size")
        return (spec.size * spec.dtype.bits + 7) // 8 if spec.dtype.kind != "bool" else spec.size

    @property
    def itemsize(self) -> int:
        """The bytes that one element takes on the host."""
        return self._array_spec("dtype").dtype.numpy.itemsize

    @property
    def T(self) -> Tensor:
        """The transpose: all axes reversed."""
        result: Tensor = operators["transpose"](self)
        return result

    @property
    def mT(self) -> Tensor:
        """The transpose of the last two axes."""
        result: Tensor = operators["matrix_transpose"](self)
        return result

    @property
    def real(self) -> Tensor:
        """The real part."""
        result: Tensor = operators["real"](self)
        return result

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        result: Tensor = operators["imag"](self)
        return result

    @property
    def at(self) -> Any:
        """``x.at[i].set(v)``, ``.add(v)``, ``.multiply(v)``, ``.min(v)``, ``.max(v)``, ``.get()``: updated copies."""
        return operators["at"](self)

    @property
    def placement(self) -> Placement:
        """Where the data lies."""
        placed = self.placed
        if type(placed) is not Placed:
            raise TracingError(
                f"a traced tensor must not be asked where it lies; got {placed} [X1]"
            )
        return placed.placement

    @property
    def device(self) -> Any:
        """The device that holds the data."""
        placement = self.placement
        return placement.device if placement.device is not None else placement.backend.devices[0]

    @property
    def backend(self) -> Any:
        """The backend that holds the data."""
        return self.placement.backend

    def to(self, where: Any) -> Tensor:
        """The same values on another backend (``"interpreter"``), device or sharding.

        Parameters
        ----------
        where : str or Backend or Device or Sharding

        Returns
        -------
        Tensor
        """
        result: Tensor = operators["to"](self, where)
        return result

    to_device = to

    # --- the data on the host -------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a read-only numpy array, without a copy where the backend allows it.

        Raises
        ------
        TracingError
            If the tensor is traced: it has no values yet.
        BackendError
            If the buffer was donated or deleted.
        """
        placed = self.placed
        if type(placed) is not Placed:
            self._refuse("read")
            raise AssertionError
        array: np.ndarray[Any, Any] = placed.placement.backend.get(self.payload)
        return array

    def _refuse(self, what: str) -> None:
        value: Value = self.payload
        scope = value.scope
        location = locate(caller(2))
        where = f"\n  at {location}" if location else ""
        if scope is not None and not scope.open:
            error = TracingError(
                f"a tensor must not be used after the trace of {scope.name!r} that made it has ended; got"
                f" {value.spec} [X1]{where}"
            )
        else:
            error = TracingError(
                f"a traced tensor must not be {what}, for it has no value yet; got {value.spec} [X1]\n"
                f"  use xlapy.where, xlapy.cond or xlapy.while_loop, or make the argument static{where}"
            )
        error.annotated = True
        raise error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"a conversion to {np.dtype(dtype)} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return operators["__array_namespace__"](api_version)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the data can be had on the host; got dl_device={dl_device}")
        # numpy exports read-only memory only under the newer protocol; older readers get a copy.
        array = self.numpy()
        if max_version is None:
            return array.copy().__dlpack__(stream=stream)
        return (array.copy() if copy else array).__dlpack__(stream=stream, max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def item(self) -> Any:
        """The only element as a Python scalar."""
        if self.size != 1:
            raise ShapeError(f"there must be exactly one element for item(); got {self.spec} [X1]")
        return self.numpy().reshape(()).astype(_python_type(self.dtype)).item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return self.numpy().astype(_python_type(self.dtype)).tolist()

    def block_until_ready(self) -> Tensor:
        """Wait until the values have been computed; errors of the computation are raised here."""
        placed = self.placed
        if type(placed) is Placed:
            placed.placement.backend.block_until_ready(self.payload)
        return self

    def delete(self) -> None:
        """Free the buffer now; using the tensor afterwards is an error."""
        self.placement.backend.delete(self.payload)

    # --- Python's protocols ---------------------------------------------------------------------------------

    def _scalar(self, what: str) -> Any:
        spec = self._array_spec("value")
        if type(self.placed) is not Placed:
            self._refuse(f"given to {what}()")
        if spec.size != 1:
            raise ShapeError(f"there must be exactly one element for {what}(); got {spec} [X1]")
        return self.numpy().reshape(())

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        value = self._scalar("int")
        if self.dtype.kind == "complex":
            raise DTypeError(f"int() must not be taken of a complex number; got {self.spec} [X1]")
        return int(value.astype(_python_type(self.dtype)))

    def __float__(self) -> float:
        value = self._scalar("float")
        if self.dtype.kind == "complex":
            raise DTypeError(f"float() must not be taken of a complex number; got {self.spec} [X1]")
        return float(value.astype(np.float64))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex").astype(np.complex128))

    def __index__(self) -> int:
        spec = self._array_spec("value")
        if not spec.dtype.integer or spec.rank:
            raise DTypeError(f"an index must be an integer scalar; got {spec} [X1]")
        return int(self)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise DTypeError(
                f"there must be at least one dimension for len(); got {self.spec} [X1]"
            )
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        # The length is checked now, not at the first step, as for numpy.
        if not self.shape:
            raise DTypeError(
                f"there must be at least one dimension to iterate over; got {self.spec} [X1]"
            )
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool(operators["any"](operators["equal"](self, value)))

    def __format__(self, format_spec: str) -> str:
        if not format_spec:
            return str(self)
        return format(self.item(), format_spec)

    def __repr__(self) -> str:
        placed = self.placed
        if type(placed) is not Placed:
            return f"Tensor(traced {placed})"
        if type(placed.spec) is not TensorSpec:
            return f"Tensor({placed.spec})"
        try:
            array = self.numpy()
        except BackendError:
            return f"Tensor(deleted, {placed.spec})"
        if array.dtype.kind == "V" or placed.spec.dtype.bits < 8:
            array = array.astype(_python_type(placed.spec.dtype))
        text = np.array2string(array, separator=", ", prefix="Tensor(", threshold=1000, edgeitems=3)
        return f"Tensor({text}, {placed.spec})"

    def __str__(self) -> str:
        is_array = type(self.placed) is Placed and type(self.placed.spec) is TensorSpec
        return str(self.numpy()) if is_array else repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (np.array(self.numpy()),)

    def __copy__(self) -> Tensor:
        return Tensor(self.placed, self.payload)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return Tensor(self.placed, self.payload)  # the values never change, only the handle may

    # --- operators and numpy's methods: set by `install` ----------------------------------------------------

    if TYPE_CHECKING:

        def __add__(self, other: Any, /) -> Any: ...
        def __radd__(self, other: Any, /) -> Any: ...
        def __sub__(self, other: Any, /) -> Any: ...
        def __rsub__(self, other: Any, /) -> Any: ...
        def __mul__(self, other: Any, /) -> Any: ...
        def __rmul__(self, other: Any, /) -> Any: ...
        def __truediv__(self, other: Any, /) -> Any: ...
        def __rtruediv__(self, other: Any, /) -> Any: ...
        def __floordiv__(self, other: Any, /) -> Any: ...
        def __rfloordiv__(self, other: Any, /) -> Any: ...
        def __mod__(self, other: Any, /) -> Any: ...
        def __rmod__(self, other: Any, /) -> Any: ...
        def __divmod__(self, other: Any, /) -> Any: ...
        def __rdivmod__(self, other: Any, /) -> Any: ...
        def __pow__(self, other: Any, /) -> Any: ...
        def __rpow__(self, other: Any, /) -> Any: ...
        def __matmul__(self, other: Any, /) -> Any: ...
        def __rmatmul__(self, other: Any, /) -> Any: ...
        def __and__(self, other: Any, /) -> Any: ...
        def __rand__(self, other: Any, /) -> Any: ...
        def __or__(self, other: Any, /) -> Any: ...
        def __ror__(self, other: Any, /) -> Any: ...
        def __xor__(self, other: Any, /) -> Any: ...
        def __rxor__(self, other: Any, /) -> Any: ...
        def __lshift__(self, other: Any, /) -> Any: ...
        def __rlshift__(self, other: Any, /) -> Any: ...
        def __rshift__(self, other: Any, /) -> Any: ...
        def __rrshift__(self, other: Any, /) -> Any: ...
        def __lt__(self, other: Any, /) -> Any: ...
        def __le__(self, other: Any, /) -> Any: ...
        def __gt__(self, other: Any, /) -> Any: ...
        def __ge__(self, other: Any, /) -> Any: ...
        def __eq__(self, other: Any, /) -> Any: ...
        def __ne__(self, other: Any, /) -> Any: ...
        def __neg__(self) -> Any: ...
        def __pos__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __round__(self, digits: int | None = None) -> Any: ...
        def __getitem__(self, index: Any, /) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...

        argmax: ClassVar[Callable[..., Any]]
        argmin: ClassVar[Callable[..., Any]]
        argsort: ClassVar[Callable[..., Any]]
        astype: ClassVar[Callable[..., Any]]
        clip: ClassVar[Callable[..., Any]]
        conj: ClassVar[Callable[..., Any]]
        copy: ClassVar[Callable[..., Any]]
        cumprod: ClassVar[Callable[..., Any]]
        cumsum: ClassVar[Callable[..., Any]]
        dot: ClassVar[Callable[..., Any]]
        flatten: ClassVar[Callable[..., Any]]
        max: ClassVar[Callable[..., Any]]
        mean: ClassVar[Callable[..., Any]]
        min: ClassVar[Callable[..., Any]]
        prod: ClassVar[Callable[..., Any]]
        ravel: ClassVar[Callable[..., Any]]
        repeat: ClassVar[Callable[..., Any]]
        reshape: ClassVar[Callable[..., Any]]
        round: ClassVar[Callable[..., Any]]
        sort: ClassVar[Callable[..., Any]]
        squeeze: ClassVar[Callable[..., Any]]
        std: ClassVar[Callable[..., Any]]
        sum: ClassVar[Callable[..., Any]]
        swapaxes: ClassVar[Callable[..., Any]]
        take: ClassVar[Callable[..., Any]]
        transpose: ClassVar[Callable[..., Any]]
        var: ClassVar[Callable[..., Any]]
        all: ClassVar[Callable[..., Any]]
        any: ClassVar[Callable[..., Any]]


#: what an operator takes beside a tensor; anything else gets NotImplemented, and so Python's own TypeError
OPERANDS: Final = (Tensor, int, float, complex, np.ndarray, np.generic, list, tuple)


def _python_type(dtype: DType) -> Any:
    """The numpy type that holds every value of `dtype` and converts to a Python scalar."""
    kinds = {
        "bool": np.bool_,
        "int": np.int64,
        "uint": np.uint64,
        "float": np.float64,
        "complex": np.complex128,
    }
    return kinds[dtype.kind]


def _unpickle(array: np.ndarray[Any, Any]) -> Tensor:
    result: Tensor = operators["asarray"](array)
    return result
