"""What a backend is: where data lies and programs run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, final

import numpy as np

from xlapy.errors import BackendError, UnsupportedOpError, shown
from xlapy.specs import TensorSpec
from xlapy.tensor import Placed, Placement, Tensor
from xlapy.trace.computation import Computation

__all__ = ["Backend", "Capabilities", "CompileOptions", "Executable"]

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@final
class CompileOptions(NamedTuple):
    """How a computation is to be compiled; hashable.

    Attributes
    ----------
    device : any
        Where it runs; None for the backend's default device.
    donated : frozenset of int
        The parameters whose buffers may be overwritten.
    num_replicas, num_partitions : int
        Over how many devices it runs at once.
    flags : tuple of (str, value)
        The backend's own options, such as ``("xla_cpu_enable_fast_math", True)``.
    """

    device: Any = None
    donated: frozenset[int] = frozenset()
    num_replicas: int = 1
    num_partitions: int = 1
    flags: tuple[tuple[str, Any], ...] = ()


@final
class Capabilities(NamedTuple):
    """What a backend cannot do.

    Attributes
    ----------
    missing_ops : mapping
        From the name of an operation to what to use instead (a sentence).
    missing_dtypes : frozenset of str
        HLO names of element types.
    scalar_regions : mapping
        From the name of an operation whose computations must be plain arithmetic on scalars, to the operations holding
        computations that these may call all the same.
    reductions : mapping
        From the name of an operation that collectives may reduce by to the kinds of elements for which they do; empty
        where there are no limits.
    fewest_bits : mapping
        From the name of an operation to the fewest bits of an element that it is there for.
    joint_reductions : bool
        Whether several arrays may be reduced at once over a channel.
    mixed_precision : bool
        Whether a computation on scalars may be applied to floats of several precisions.
    associative_scans : bool
        Whether it has scans that may be done in any order.
    varying_sizes : bool
        Whether it has all operations for arrays of varying size; see `xlapy.backends.varying_sizes`.
    exact_functions : bool
        Whether functions are right for all arguments; see `xlapy.backends.exact_functions`.
    overwrites_inputs : bool
        Whether a scatter goes wrong if its operands are one array; see `xlapy.backends.shared_operands`.
    flushes_subnormals : bool
        Whether subnormal numbers count as zeros; see `xlapy.backends.subnormals`.
    """

    missing_ops: Mapping[str, str] = _NONE
    missing_dtypes: frozenset[str] = frozenset()
    scalar_regions: Mapping[str, frozenset[str]] = _NONE
    reductions: Mapping[str, frozenset[str]] = _NONE
    fewest_bits: Mapping[str, int] = _NONE
    joint_reductions: bool = True
    mixed_precision: bool = True
    associative_scans: bool = True
    varying_sizes: bool = True
    exact_functions: bool = True
    overwrites_inputs: bool = False
    flushes_subnormals: bool = False


class Executable(abc.ABC):
    """A compiled computation.

    Attributes
    ----------
    placed : tuple of Placed
        Spec and placement of each result.
    """

    placed: tuple[Placed, ...]

    @abc.abstractmethod
    def execute(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """Run on the parameters' payloads and give the results'. The hot path: nothing is checked here.

        A program over n > 1 devices takes for each parameter a list of n payloads, those of the first replica's
        partitions first, and gives the same for each result.

        A backend may set this on the instance to the leanest callable it has.
        """

    def execute_single(self, payloads: Sequence[Any]) -> Tensor:
        """Run a program of one result and give that as a tensor; may be set on the instance like `execute`."""
        return Tensor(self.placed[0], self.execute(payloads)[0])

    @property
    @abc.abstractmethod
    def optimized_hlo_text(self) -> str:
        """The program after the compiler's optimisation; the computation's text where there is no compiler."""

    def cost_analysis(self) -> dict[str, Any]:
        """The compiler's estimates, such as ``flops`` and ``bytes accessed``."""
        return {}

    def memory_analysis(self) -> dict[str, int]:
        """The bytes that arguments, results, temporaries and code take."""
        return {}


class Backend(abc.ABC):
    """Somewhere that computations run: devices, buffers, executables.

    Subclasses are final.

    Attributes
    ----------
    name : str
        What it is selected by, such as ``"pjrt:cpu"``.
    placement : Placement
        The default device.
    """

    name: str
    placement: Placement

    @property
    @abc.abstractmethod
    def devices(self) -> Sequence[Any]:
        """The devices; the first one is the default."""

    @property
    def capabilities(self) -> Capabilities:
        """What is missing."""
        return Capabilities()

    @abc.abstractmethod
    def put(self, array: np.ndarray[Any, Any], spec: TensorSpec, device: Any = None) -> Any:
        """A payload holding a copy of a host array, which is contiguous and in the machine's byte order."""

    def putter(self, spec: TensorSpec, device: Any = None) -> Callable[[np.ndarray[Any, Any]], Any]:
        """`put` for arrays of one spec: the leanest callable there is."""
        return lambda array: self.put(array, spec, device)

    @abc.abstractmethod
    def get(self, payload: Any) -> np.ndarray[Any, Any]:
        """The values as a read-only host array."""

    @abc.abstractmethod
    def compile(self, computation: Computation, options: CompileOptions) -> Executable:
        """Compile a verified computation; every result is a tensor or a token.

        Raises
        ------
        UnsupportedOpError
            For an operation or element type that the backend lacks.
        """

    def placement_of(self, device: Any = None, sharding: Any = None) -> Placement:
        """The one `Placement` of a device or sharding."""
        if device is None and sharding is None:
            return self.placement
        table: dict[Any, Placement] = self.__dict__.setdefault("_placements", {})
        key = (device, sharding)
        if key not in table:
            table[key] = Placement(self, device, sharding)
        return table[key]

    def group(self, count: int, first: Any = None) -> Sequence[Any]:
        """The devices that a program over several of them runs on, in the order of their payloads.

        Parameters
        ----------
        count : int
        first : device, optional
            The first of them; None for the default device.

        Raises
        ------
        BackendError
            If there are not as many.
        """
        devices = list(self.devices)
        if first is not None and first not in devices:
            raise BackendError(f"device must be one of {self.name}; got {first} [X1]")
        start = 0 if first is None else devices.index(first)
        found = devices[start : start + count]
        if len(found) < count:
            after = "" if start == 0 else f" from {first} on"
            raise BackendError(
                f"a program over {count} devices must have as many on {self.name}{after}; got {len(found)} [X1]"
            )
        return found

    def copy(self, payload: Any, device: Any) -> Any:
        """A copy of a payload on another device of this backend."""
        if payload is None:
            return self.token()
        array = self.get(payload)
        return self.put(array, TensorSpec(array.shape, array.dtype), device)

    def block_until_ready(self, *payloads: Any) -> None:
        """Wait for the computations of payloads; their errors are raised here."""
        return

    def delete(self, payload: Any) -> None:
        """Free a payload."""
        return

    def token(self) -> Any:
        """A payload for a token parameter."""
        return None

    def put_in_queue(self, queue: str, value: Any, device_index: int = 0) -> None:
        """Leave an array, or a tuple of them, in one of the queues by which a device hears from the host.

        Raises
        ------
        UnsupportedOpError
            If the backend gives the host no end of them.
        """
        raise self._no_queues(queue)

    def take_from_queue(self, queue: str, device_index: int = 0) -> Any:
        """The oldest value that a program left for the host in one of a device's queues.

        Raises
        ------
        UnsupportedOpError
            If the backend gives the host no end of them.
        BackendError
            If there is none.
        """
        raise self._no_queues(queue)

    def _no_queues(self, queue: str) -> UnsupportedOpError:
        return UnsupportedOpError(
            f"the backend must have queues for the host; got {shown(queue)} for {self.name} [X5]\n"
            "  pass the data as arguments and results, or use the interpreter"
        )
