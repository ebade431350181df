"""The host's end of the traffic with running programs: infeeds, outfeeds and channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import tree
from xlapy.backends.base import Backend
from xlapy.backends.eager import put
from xlapy.backends.registry import current_backend, get_backend
from xlapy.dtypes import python_scalar
from xlapy.errors import BackendError, XlapyError, shown
from xlapy.source import hide_library_frames
from xlapy.specs import as_int
from xlapy.tensor import Tensor
from xlapy.trace.builder import host_array, scalar_array

__all__ = [
    "transfer_from_channel",
    "transfer_from_outfeed",
    "transfer_to_channel",
    "transfer_to_infeed",
]


def transfer_to_infeed(value: Any, device: Any = 0, backend: Any = None) -> None:
    """Leave an item for the next `ops.infeed` that runs on a device.

    Parameters
    ----------
    value : array, or container of them
        The item. Its arrays, in the order of `xlapy.tree.flatten`, are the data of one infeed and must be of the same
        types and shapes.
    device : int or device
        For a program over several devices, the replica's number times the number of partitions, plus the partition's
        number.
    backend : str or Backend, optional
        By default the current one.

    Raises
    ------
    UnsupportedOpError
        If the backend has no queues for the host, as XLA's through jaxlib.
    BackendError
        If there is no such device.

    Examples
    --------
    >>> import xlapy
    >>> from xlapy import ops
    >>> with xlapy.use_backend("interpreter"):
    ...     xlapy.transfer_to_infeed([xlapy.ones(2), xlapy.asarray(3)])
    ...     (x, n), token = ops.infeed(["f32[2]", "s32[]"])
    >>> x, n
    (Tensor([1., 1.], f32[2]), Tensor(3, s32[]))
    """
    _leave("infeed", value, device, backend)


def transfer_from_outfeed(device: Any = 0, backend: Any = None) -> Any:
    """The oldest item that an `ops.outfeed` on a device has left.

    Parameters
    ----------
    device : int or device
        As for `transfer_to_infeed`.
    backend : str or Backend, optional
        By default the current one.

    Returns
    -------
    Tensor or tuple of Tensor
        One for an outfeed of one array.

    Raises
    ------
    UnsupportedOpError
        If the backend has no queues for the host, as XLA's through jaxlib.
    BackendError
        If there is no item, or no such device.

    Examples
    --------
    >>> import xlapy
    >>> with xlapy.use_backend("interpreter"):
    ...     token = xlapy.ops.outfeed(xlapy.ones(2))
    ...     xlapy.transfer_from_outfeed()
    Tensor([1., 1.], f32[2])
    """
    return _take("outfeed", device, backend)


def transfer_to_channel(value: Any, handle: int, device: Any = 0, backend: Any = None) -> None:
    """Send data to the next ``ops.recv(..., is_host_transfer=True)`` of a channel that runs on a device.

    Parameters
    ----------
    value : array, or container of them
        Its arrays, in the order of `xlapy.tree.flatten`, are the data.
    handle : int
        The channel's id.
    device, backend
        As for `transfer_to_infeed`.

    Raises
    ------
    UnsupportedOpError, BackendError
        As from `transfer_to_infeed`.

    Examples
    --------
    >>> import xlapy
    >>> with xlapy.use_backend("interpreter"):
    ...     xlapy.transfer_to_channel(xlapy.ones(2), 5)
    ...     data, token = xlapy.ops.recv("f32[2]", 5, is_host_transfer=True)
    >>> data
    Tensor([1., 1.], f32[2])
    """
    _leave("recv", value, device, backend, handle)


def transfer_from_channel(handle: int, device: Any = 0, backend: Any = None) -> Any:
    """The oldest data that an ``ops.send(..., is_host_transfer=True)`` of a channel has sent from a device.

    Parameters
    ----------
    handle : int
        The channel's id.
    device, backend
        As for `transfer_to_infeed`.

    Returns
    -------
    Tensor or tuple of Tensor
        One for a send of one array.

    Raises
    ------
    UnsupportedOpError, BackendError
        As from `transfer_from_outfeed`.

    Examples
    --------
    >>> import xlapy
    >>> with xlapy.use_backend("interpreter"):
    ...     token = xlapy.ops.send(xlapy.ones(2), 6, is_host_transfer=True)
    ...     xlapy.transfer_from_channel(6)
    Tensor([1., 1.], f32[2])
    """
    return _take("send", device, backend, handle)


def _leave(queue: str, value: Any, device: Any, backend: Any, *handle: Any) -> None:
    try:
        queue = _named(queue, *handle)
        where = _backend(backend)
        arrays = [_array(x) for x in tree.flatten(value)[0]]
        index = _index(where, device)
        if arrays:  # what asks for nothing reads nothing
            where.put_in_queue(queue, tuple(arrays), index)
    except XlapyError as error:
        hide_library_frames(error)
        raise


def _named(queue: str, *handle: Any) -> str:
    """The queue's name, with the channel's id if there is one."""
    return " ".join([queue, *[str(as_int(h, "handle")) for h in handle]])


def _array(x: Any) -> np.ndarray[Any, Any]:
    if type(x) is Tensor:
        return x.numpy()
    number = python_scalar(x)
    return host_array(x) if number is None else scalar_array(number)


def _take(queue: str, device: Any, backend: Any, *handle: Any) -> Any:
    try:
        queue = _named(queue, *handle)
        where = _backend(backend)
        found = where.take_from_queue(queue, _index(where, device))
    except XlapyError as error:
        hide_library_frames(error)
        raise
    if isinstance(found, tuple):
        return tuple([put(array, where.placement) for array in found])
    return put(found, where.placement)


def _backend(backend: Any) -> Backend:
    found: Backend = current_backend() if backend is None else get_backend(backend)
    return found


def _index(backend: Backend, device: Any) -> int:
    """The number of a device; the devices of a simulated grid need not be listed."""
    if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return device
    devices = list(backend.devices)
    if device not in devices:
        raise BackendError(
            f"a device must be a number from 0, or one of {', '.join(map(str, devices))}; got {shown(device)} [X1]"
        )
    return devices.index(device)
