"""Buffers: numpy arrays to devices and back."""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc

from xlapy._jaxlib.types import Array, Buffer, Device, Placement, fail
from xlapy.dtypes import TABLE
from xlapy.errors import BackendError, UnsupportedOpError

# XLA >= 0.11 has no 6-bit types any more and aborts the process where it meets one.
_F6 = frozenset(d.numpy for d in TABLE if d.bits == 6)
_DTYPES = frozenset(d.numpy for d in TABLE) - _F6
_BITS = {d.numpy: max(d.bits, 8) if d.kind == "bool" else d.bits for d in TABLE}
_NARROW_INTEGERS = frozenset(d.numpy for d in TABLE if d.integer and d.bits < 8)
_NARROW_SIGNED = frozenset(d.numpy for d in TABLE if d.kind == "int" and d.bits < 8)


#: Held while a program over several devices takes its buffers, on a thread for each device, and while some are deleted
#: or donated: of one that goes in between, XLA dies, at once (0.10.2) or as the other devices wait for that one. Never
#: held while a Python function runs, which may wait for what another thread does.
buffers_stay: Final = threading.Lock()


class _Aval:
    """What jaxlib asks an abstract value for; it belongs to jax elsewhere."""

    __slots__ = ("dtype", "ndim", "shape", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self.weak_type = False


aval = functools.lru_cache(maxsize=4096)(_Aval)
_replicated = xc.HloSharding.replicate()


# 0.10.2 reads these attributes, which jax defines on its own classes; later versions do without.
class _OneDevice(xc.SingleDeviceSharding):
    memory_kind = None
    is_fully_replicated = True

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return _replicated

    def shard_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


class _ManyDevices(xc.GSPMDSharding):
    memory_kind = None

    @property
    def is_fully_replicated(self) -> bool:
        return self._hlo_sharding.is_replicated()

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return self._hlo_sharding

    def shard_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self._hlo_sharding.is_replicated():
            return shape
        tiles = self._hlo_sharding.tile_assignment_dimensions()[: len(shape)]
        return tuple(-(-size // tile) for size, tile in zip(shape, tiles))


@functools.lru_cache(maxsize=4096)
def _single(device: Device) -> tuple[Placement, list[Device]]:
    return _OneDevice(device), [device]


def placement(devices: Sequence[Device], tiling: str = "replicated") -> Placement:
    """Where the parts of an array lie.

    Parameters
    ----------
    devices : sequence of Device
    tiling : str
        The sharding as HLO text writes it, without braces: ``"replicated"`` or
        ``"devices=[2,1]<=[2]"``. Arrays whose parts hold different data although the program sees
        them as one, such as those of replicas, are "replicated" too: jaxlib never compares the
        parts.

    Returns
    -------
    Placement
    """
    if len(devices) == 1:
        return _single(devices[0])[0]
    sharding = (
        _replicated if tiling == "replicated" else xc.HloSharding.from_string("{" + tiling + "}")
    )
    return _ManyDevices(xc.DeviceList(tuple(devices)), sharding)


_COPY_NOW = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_BORROW = xc.HostBufferSemantics.ZERO_COPY
_batched_device_put = xc.batched_device_put


def _checked(array: Array) -> Array:
    """`array` in native byte order, or an error for what XLA has no element type for."""
    native = array.dtype.newbyteorder("=")
    if native in _DTYPES:
        return array.astype(native)
    if native in _F6:
        raise UnsupportedOpError(
            f"an array must not be of 6-bit elements, which XLA does not run; got {native.name} [X1]"
        )
    raise BackendError(f"an array must have one of XLA's element types; got {array.dtype} [X1]")


def put(array: Array, device: Device, borrow: bool = False) -> Buffer:
    """Copy an array to a device.

    Parameters
    ----------
    array : numpy.ndarray
        Any strides and byte order; its dtype is kept.
    device : Device
    borrow : bool
        Let the device use the array's own memory where it can (aligned, contiguous, a CPU device).
        Whoever writes to the array later changes the buffer.

    Returns
    -------
    Buffer
    """
    if array.dtype not in _DTYPES:
        array = _checked(array)
    where, on = _single(device)
    # Without the semantics, 0.10.2 may read the array after the call has returned, when it was
    # written to.
    return _batched_device_put(
        aval(array.shape, array.dtype), where, [array], on, True,
        enable_x64=True, host_buffer_semantics=_BORROW if borrow else _COPY_NOW,
    )  # fmt: skip


def putter(
    shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
) -> Callable[[Array], Buffer]:
    """`put` for arrays of one shape and native dtype: what depends on those is looked up once."""
    if dtype not in _DTYPES:
        return lambda array: put(array, device)
    (where, on), like = _single(device), aval(shape, dtype)

    def copy(array: Array) -> Buffer:
        return _batched_device_put(
            like, where, [array], on, True, enable_x64=True, host_buffer_semantics=_COPY_NOW
        )

    return copy


def put_shards(
    arrays: Sequence[Array], shape: tuple[int, ...], where: Placement, devices: Sequence[Device]
) -> Buffer:
    """Copy one array to each device; together they are one array of `shape`."""
    # jaxlib's own call for several devices copies the first array to all of a replicated placement.
    return assemble([put(a, d) for a, d in zip(arrays, devices, strict=True)], shape, where)


def assemble(parts: Sequence[Buffer], shape: tuple[int, ...], where: Placement) -> Buffer:
    """One buffer over several devices, of one on each, in the order of `where`; not a copy."""
    whole = aval(shape, parts[0].aval.dtype)
    return xc.ArrayImpl(whole, where, list(parts), True, _skip_checks=True)


def shards(buffer: Buffer) -> list[Buffer]:
    """The part of a buffer on each of its devices, in order; nothing is copied.

    Where jax is installed, jaxlib imports it here.
    """
    dtype, where = buffer.aval.dtype, buffer._sharding
    if type(where) is not _ManyDevices:
        return [buffer]
    shape = where.shard_shape(buffer.aval.shape)
    return [part(p, shape, dtype, d) for p, d in zip(buffer._arrays, where._internal_device_list)]


def part(bare: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Buffer:
    """A buffer of one device, of what jaxlib gives as the part of a result there."""
    # These carry no aval of their own, so they are wrapped anew.
    return xc.ArrayImpl(aval(shape, dtype), _single(device)[0], [bare], True, _skip_checks=True)


class _Memory:
    """Bytes at an address, for numpy to read; what owns them lives as long."""

    def __init__(self, pointer: int, size: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (pointer, True), "shape": (size,), "typestr": "|u1", "version": 3,
        }  # fmt: skip


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _read_memory(buffer: Buffer) -> Array:
    """What 0.10.2 on the CPU gives no other way: the bytes themselves."""
    shape, dtype = buffer.aval.shape, buffer.aval.dtype
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    buffer.block_until_ready()
    bits = _BITS[dtype]
    size = -(-count * bits // 8)
    if dtype in _NARROW_INTEGERS:
        # DLPack has no such types. Copied, since a donation would free the memory below a view.
        raw = np.array(_Memory(buffer.unsafe_buffer_pointer(), size, buffer))
    else:
        # The first field of a DLPack tensor is the address. The capsule holds the memory, and
        # unlike `unsafe_buffer_pointer` its making does not import jax.
        capsule = _jax.buffer_to_dlpack_managed_tensor(buffer)
        tensor = _capsule_pointer(capsule, b"dltensor")
        pointer = ctypes.c_void_p.from_address(tensor).value or 0
        raw = np.asarray(_Memory(pointer, size, capsule))
    if bits < 8:
        # Several elements in a byte, the first in its lowest bits.
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        raw = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).ravel()[:count]
        if dtype in _NARROW_SIGNED:
            sign = 1 << (bits - 1)
            return ((raw ^ sign).astype(np.int8) - sign).astype(dtype).reshape(shape)
    return raw.view(dtype).reshape(shape)


def get(buffer: Buffer) -> Array:
    """A buffer of one device as a read-only numpy array that shares its memory where it can.

    Waits for the computation that makes it; its error, if any, is raised here.
    """
    try:
        return np.asarray(memoryview(buffer))
    except BufferError:
        pass
    except xc.XlaRuntimeError as error:
        fail(error, "a computation must run to its end")
    # The buffer protocol has no bfloat16, no narrow types, and nothing on other devices than the
    # CPU.
    check_alive(buffer)
    try:
        read = getattr(buffer, "_to_np_array_did_copy", None)
        if read is None and buffer.platform() != "cpu":
            read = buffer._single_device_array_to_np_array_did_copy
        if read is not None:
            array: Array = read()[0]
        else:
            array = _read_memory(buffer)
    except xc.XlaRuntimeError as error:
        fail(error, "a computation must run to its end")
    array.flags.writeable = False
    return array


def check_alive(*buffers: Buffer) -> None:
    """Raise a `BackendError` if the memory of a buffer was donated to a computation or deleted."""
    for buffer in buffers:
        if buffer.is_deleted():
            shape = ",".join(map(str, buffer.aval.shape))
            raise BackendError(
                f"an array must not be used after it was donated or deleted; got "
                f"{buffer.aval.dtype.name}[{shape}] [X1]\n"
                "  pass a copy, or leave it out of donate_argnames"
            )


def delete(buffer: Buffer) -> None:
    """Free the memory of a buffer now."""
    with buffers_stay:
        buffer.delete()


def block_until_ready(buffers: Sequence[Buffer]) -> None:
    """Wait until the computations that make the buffers are done, and raise their errors."""
    check_alive(*buffers)
    try:
        xc.batched_block_until_ready(list(buffers))
    except (xc.XlaRuntimeError, ValueError) as error:
        check_alive(*buffers)  # another thread may have deleted one
        fail(error, "a computation must run to its end")


def copy_to(buffer: Buffer, device: Device) -> Buffer:
    """A copy of a single-device buffer on another device, of the same client or another."""
    check_alive(buffer)
    if buffer._sharding._device.client is not device.client:
        return put(get(buffer), device)
    where, on = _single(device)
    try:
        return xc.batched_copy_array_to_devices_with_sharding(
            [buffer], [xc.DeviceList(tuple(on))], [where], [xc.ArrayCopySemantics.ALWAYS_COPY]
        )[0]
    except xc.XlaRuntimeError as error:
        fail(error, "an array must be one that its device copies")
