"""Send and Recv, with their halves SendDone and RecvDone: channels between devices, or to and from the host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import BackendError
from xlapy.specs import Spec, TensorSpec, TokenSpec, as_int, require, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.codecs import BOOL, I64_MATRIX, Group, Optional, Struct
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import annotate, bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.process_grid import Place, Process, communicating, current_process
from xlapy.trace.stablehlo_reader import Reader

from .replica_groups import Pairs, check_pairs, normal_pairs, not_received
from .rules import Rules, broadcast_leading, not_differentiable, unsupported, zero
from .tokens import (
    TOKEN,
    arrays_of,
    checked_arrival,
    data_and_token,
    data_specs,
    departing,
    require_arrays,
    require_known,
    require_last_token,
    require_token,
    token_or_new,
)

__all__ = ["recv", "recv_done", "send", "send_done"]

Array = np.ndarray[Any, Any]
Specs = tuple[Spec, ...]

# --- channels -------------------------------------------------------------------------------------------------------

DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE = 1, 2, 3
_TYPE_NAMES: Final = {1: "DEVICE_TO_DEVICE", 2: "DEVICE_TO_HOST", 3: "HOST_TO_DEVICE"}

CHANNEL: Final[Mapping[str, Any]] = {
    "channel_handle": Group(
        ("channel_id", "channel_type"),
        Struct(
            "stablehlo.channel_handle", {"channel_id": None, "channel_type": None},
            {"channel_id": "handle", "channel_type": "type"},
        ),
    ),
    "is_host_transfer": BOOL,
    "source_target_pairs": Optional(I64_MATRIX, ()),
}  # fmt: skip


def _check_channel(
    labels: Sequence[str],
    to_or_from_host: int,
    channel_id: int,
    channel_type: int,
    is_host_transfer: bool,
    source_target_pairs: Pairs,
) -> None:
    """The labels of the inputs source_target_pairs, channel_id, channel_type and is_host_transfer; C1 to C5."""
    of_pairs, of_id, of_type, of_flag = labels
    ok = type(channel_id) is int and -(2**63) <= channel_id < 2**63
    require(ok, of_id, "channel_id must be an integer of 64 bits", channel_id)
    require(channel_type in _TYPE_NAMES, of_type, "channel_type must be 1, 2 or 3", channel_type)
    require_dtype(
        type(is_host_transfer) is bool, of_flag, "is_host_transfer must be a bool", is_host_transfer
    )
    check_pairs(source_target_pairs, of_pairs)
    wanted = to_or_from_host if is_host_transfer else DEVICE_TO_DEVICE
    require(
        channel_type == wanted, "C5",
        f"channel_type must be {wanted} ({_TYPE_NAMES[wanted]}) with is_host_transfer={is_host_transfer}", channel_type,
    )  # fmt: skip


#: XLA's own spelling of the pairs, on operations that come from HLO
_PAIRS_IN_HLO: Final = re.compile(r'_xla_send_recv_source_target_pairs = "([^"]*)"')


def _channel_params(reader: Reader, operation: Any, op: Op) -> dict[str, Any]:
    params = reader.params(operation, op)
    if not params["source_target_pairs"]:
        found = _PAIRS_IN_HLO.search(reader.text(operation, "mhlo.frontend_attributes"))
        if found:
            pairs = re.findall(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}", found.group(1))
            params["source_target_pairs"] = tuple((int(a), int(b)) for a, b in pairs)
    return params


def _peers(
    process: Process, site: Instruction, channel_id: int, pairs: Pairs
) -> tuple[Place | None, Place | None]:
    """Whom the process that runs receives from and sends to."""
    if not pairs:
        # A channel joins one send and one recv; without pairs only a lone process knows which.
        if process.num_replicas * process.num_partitions > 1:
            _refuse(site, "X1", "source_target_pairs must say which device sends to which", pairs)
        return process.place, process.place
    if channel_id > 0:
        own, count, kind = process.partition, process.num_partitions, "partitions"
    else:
        own, count, kind = process.replica, process.num_replicas, "replicas"
    if any(n >= count for pair in pairs for n in pair):
        what = f"source_target_pairs must be of the program's {kind} (there are {count}) for channel {channel_id}"
        _refuse(site, "C4", what, pairs)

    def place(n: int | None) -> Place | None:
        if n is None:
            return None
        return (process.replica, n) if channel_id > 0 else (n, process.partition)

    return place({b: a for a, b in pairs}.get(own)), place(dict(pairs).get(own))


def _refuse(site: Instruction, label: str, what: str, got: Any) -> None:
    error = BackendError(f"{what}; got {got} [{label}]")
    raise annotate(error, site.op.name, [v.spec for v in site.operands], site.source)


# --- Send, SendDone -------------------------------------------------------------------------------------------------


def infer_send(
    *specs: Spec,
    channel_id: int,
    channel_type: int,
    is_host_transfer: bool,
    source_target_pairs: Pairs,
) -> TokenSpec:
    """I1 to I6: arrays, a token and the parameters; C1 to C5 of the channel."""
    require_last_token(specs)
    _check_channel(
        ("I3", "I4", "I5", "I6"), DEVICE_TO_HOST, channel_id, channel_type, is_host_transfer, source_target_pairs
    )  # fmt: skip
    return TOKEN


def read_send(reader: Reader, operation: Any) -> Any:
    """The pairs may be spelled as in HLO."""
    return bind(send_op, *reader.operands(operation), **_channel_params(reader, operation, send_op))


@communicating
def kernel_send(
    *operands: Any,
    channel_id: int,
    channel_type: int,
    is_host_transfer: bool,
    source_target_pairs: Pairs,
    out: Any,
    site: Instruction,
) -> None:
    """Into a queue of the host's, or the target's; a process that is no source sends nothing."""
    process = current_process()
    arrays = departing(operands[:-1], site)
    if not arrays:
        return
    if is_host_transfer:
        item = arrays[0] if len(arrays) == 1 else arrays
        process.host_send(site, f"send {channel_id}", item)
        return
    _, target = _peers(process, site, channel_id, source_target_pairs)
    if target is not None:
        process.send(site, channel_id, target, arrays)


send_op: Final = register(Op(
    name="send",
    section="Send",
    infer=infer_send,
    hlo=Hlo("stablehlo.send", CHANNEL, read=read_send),
    kernel=kernel_send,
    ad=not_differentiable("its data leaves the program; use collective_permute between devices"),
    batch=unsupported("a send meets one recv; send the whole batch outside of vmap"),
))  # fmt: skip


def send(
    operand: Any,
    handle: int,
    *,
    token: Any = None,
    is_host_transfer: bool = False,
    source_target_pairs: Sequence[Sequence[int]] = (),
) -> Tensor:
    """Send data to a `recv` of the same channel, or to the host.

    Parameters
    ----------
    operand : Tensor or sequence of Tensor
    handle : int
        The channel's id. The numbers in `source_target_pairs` are partitions if it is positive, and replicas otherwise.
    token : token, optional
        What comes first.
    is_host_transfer : bool
        Whether the host gets the data: with `xlapy.transfer_from_channel`.
    source_target_pairs : sequence of (int, int)
        Between devices, which sends to which. It may be left out in a program on one device, which sends to itself.

    Returns
    -------
    Tensor
        A token, which also is the context that `send_done` takes. The data is sent though nothing uses it.

    Raises
    ------
    DTypeError
        [I1] If an operand is no array. [I2] If `token` is no token. [I3], [I6] If a parameter is of a wrong type.
    ConstraintError
        [I4] If the channel's id is no integer of 64 bits. [C2] If a source, [C3] a target stands twice. [C4] If a
        number is negative.
    BackendError
        [C4] When it runs, if the program has no such partition or replica.

    Notes
    -----
    Section Send of the operation semantics. XLA runs it on some platforms only, and gives the host no end of it through
    jaxlib, so it is refused there; the interpreter runs it. Use `collective_permute` in programs of your own.

    Examples
    --------
    >>> import xlapy
    >>> with xlapy.use_backend("interpreter"):
    ...     token = xlapy.ops.send(xlapy.asarray([1.0, 2.0]), 7, is_host_transfer=True)
    >>> xlapy.transfer_from_channel(7, backend="interpreter")
    Tensor([1., 2.], f32[2])
    """
    arrays = arrays_of(operand)
    result: Tensor = bind(
        send_op, *arrays, token_or_new(token, arrays),
        **_channel(handle, DEVICE_TO_HOST, is_host_transfer, source_target_pairs, "I3"),
    )  # fmt: skip
    return result


def _channel(
    handle: Any, host: int, is_host_transfer: bool, pairs: Any, of_pairs: str
) -> dict[str, Any]:
    return {
        "channel_id": as_int(handle, "handle"),
        "channel_type": host if is_host_transfer else DEVICE_TO_DEVICE,
        "is_host_transfer": is_host_transfer,
        "source_target_pairs": normal_pairs(pairs, of_pairs),
    }


def infer_send_done(context: Spec) -> TokenSpec:
    """I1: what a send gives."""
    require_dtype(type(context) is TokenSpec, "I1", "the context must be of a send", context)
    return TOKEN


send_done_op = register(Op(
    name="send_done",
    section="SendDone",
    infer=infer_send_done,
    # HLO's second half of a send, which StableHLO does not part.
    hlo=Hlo("", decomposition=lambda context: context),
    kernel=lambda context, *, out: context,
    ad=zero,
    batch=lambda op, args, is_batched, size: bind(op, *args),
))  # fmt: skip


def send_done(context: Any) -> Tensor:
    """Wait until the data of a `send` is on its way.

    Parameters
    ----------
    context : token
        What `send` gave.

    Returns
    -------
    Tensor
        A token for what comes afterwards.

    Raises
    ------
    DTypeError
        [I1] If the context is not what a send gives.

    Notes
    -----
    Section SendDone of the operation semantics. StableHLO has only whole sends: this hands on their token.

    Examples
    --------
    >>> import xlapy
    >>> b = xlapy.XlaBuilder("main")
    >>> xlapy.ops.send_done(xlapy.ops.send(b.parameter(0, "f32[2]"), 1))
    Tensor(traced token[])
    """
    result: Tensor = bind(send_done_op, context)
    return result


# --- Recv, RecvDone -------------------------------------------------------------------------------------------------


def infer_recv(
    token: Spec,
    *,
    results: Specs,
    channel_id: int,
    channel_type: int,
    is_host_transfer: bool,
    source_target_pairs: Pairs,
) -> Specs:
    """I1 to I5: a token and the parameters; C1 to C5 of the channel; X1: results are arrays of known shape."""
    require_token(token, "I1")
    _check_channel(
        ("I2", "I3", "I4", "I5"), HOST_TO_DEVICE, channel_id, channel_type, is_host_transfer, source_target_pairs
    )  # fmt: skip
    require_arrays(results, "X1", "results")
    require_known(results)
    return (*results, TOKEN)


def read_recv(reader: Reader, operation: Any) -> Any:
    """The last result is the token."""
    results = tuple(reader.result_specs(operation)[:-1])
    params = _channel_params(reader, operation, recv_op)
    return bind(recv_op, *reader.operands(operation), results=results, **params)


@communicating
def kernel_recv(
    token: None,
    *,
    results: Specs,
    channel_id: int,
    channel_type: int,
    is_host_transfer: bool,
    source_target_pairs: Pairs,
    out: Any,
    site: Instruction,
) -> tuple[Any, ...]:
    """From a queue of the host's, or what the source sent; a process that is no target gets zeros, as in XLA."""
    process = current_process()
    if not results:
        return (None,)
    if is_host_transfer:
        item = process.host_receive(site, f"recv {channel_id}")
        return checked_arrival(site, item, results, "what the host sends")
    source, _ = _peers(process, site, channel_id, source_target_pairs)
    if source is None:
        specs: Any = results
        return (*[not_received(s.shape, s.dtype.numpy) for s in specs], None)
    item = process.receive(site, channel_id, source)
    return checked_arrival(site, item, results, f"what comes over channel {channel_id}")


recv_op = register(Op(
    name="recv",
    section="Recv",
    infer=infer_recv,
    hlo=Hlo("stablehlo.recv", CHANNEL, read=read_recv),
    kernel=kernel_recv,
    ad=not_differentiable("its data comes from outside of the program"),
    batch=unsupported("a recv meets one send; receive the whole batch outside of vmap"),
))  # fmt: skip


def recv(
    shape: Any,
    handle: int,
    *,
    token: Any = None,
    is_host_transfer: bool = False,
    source_target_pairs: Sequence[Sequence[int]] = (),
) -> tuple[Any, Tensor]:
    """Receive the data that a `send` of the same channel, or the host, sends.

    Parameters
    ----------
    shape : spec, or sequence of specs or TupleSpec
        Of the data, such as ``"f32[2]"``.
    handle : int
        The channel's id. The numbers in `source_target_pairs` are partitions if it is positive, and replicas otherwise.
    token : token, optional
        What comes first.
    is_host_transfer : bool
        Whether the host sends the data: with `xlapy.transfer_to_channel`.
    source_target_pairs : sequence of (int, int)
        Between devices, which sends to which; a device that is no target gets zeros. It may be left out in a program on
        one device, which receives from itself.

    Returns
    -------
    data : Tensor or tuple of Tensor
        As `shape` is.
    token : Tensor
        For what comes afterwards. The two also are the context that `recv_done` takes.

    Raises
    ------
    DTypeError
        [I1] If `token` is no token. [I2], [I5] If a parameter is of a wrong type. [X1] If the data is something else
        than arrays. When it runs: if what comes is of another type or shape.
    ConstraintError
        [I3] If the channel's id is no integer of 64 bits. [C2] If a source, [C3] a target stands twice. [C4] If a
        number is negative. [X1] If a size is not known.
    BackendError
        When it runs: [C4] if the program has no such partition or replica; [X1] if nothing is ever sent.

    Notes
    -----
    Section Recv of the operation semantics. XLA runs it on some platforms only, and gives the host no end of it through
    jaxlib, so it is refused there; the interpreter runs it. Use `collective_permute` in programs of your own.

    Examples
    --------
    >>> import xlapy
    >>> @xlapy.compile(backend="interpreter")
    ... def to_itself(x):
    ...     token = xlapy.ops.send(x, 1)
    ...     data, token = xlapy.ops.recv("f32[2]", 1, token=token)
    ...     return data
    >>> with xlapy.use_backend("interpreter"):
    ...     to_itself(xlapy.asarray([1.0, 2.0]))
    Tensor([1., 2.], f32[2])
    """
    specs, single = data_specs(shape)
    outs = bind(
        recv_op, token_or_new(token), results=specs,
        **_channel(handle, HOST_TO_DEVICE, is_host_transfer, source_target_pairs, "I2"),
    )  # fmt: skip
    return data_and_token(outs, single)


def infer_recv_done(*context: Spec) -> Specs:
    """I1: what a recv gives."""
    ok = bool(context) and type(context[-1]) is TokenSpec
    ok = ok and all(type(s) is TensorSpec for s in context[:-1])
    require_dtype(ok, "I1", "the context must be of a recv", context)
    return context


recv_done_op = register(Op(
    name="recv_done",
    section="RecvDone",
    infer=infer_recv_done,
    # HLO's second half of a recv, which StableHLO does not part.
    hlo=Hlo("", decomposition=lambda *context: context),
    kernel=lambda *context, out: context,
    ad=Rules(
        lambda operands, tangents, outs: tangents, lambda operands, cotangents, outs: cotangents
    ),
    batch=lambda op, args, is_batched, size: bind(
        op, *[a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)]
    ),
))  # fmt: skip


def recv_done(context: Any) -> tuple[Any, Tensor]:
    """Wait until the data of a `recv` has come.

    Parameters
    ----------
    context : (data, token)
        What `recv` gave.

    Returns
    -------
    data : Tensor or tuple of Tensor
    token : Tensor

    Raises
    ------
    DTypeError
        [I1] If the context is not what a recv gives.

    Notes
    -----
    Section RecvDone of the operation semantics. StableHLO has only whole recvs: this hands on what they give.

    Examples
    --------
    >>> import xlapy
    >>> b = xlapy.XlaBuilder("main")
    >>> with b:
    ...     data, token = xlapy.ops.recv_done(xlapy.ops.recv("f32[2]", 1))
    >>> data
    Tensor(traced f32[2])
    """
    ok = isinstance(context, tuple) and len(context) == 2
    require_dtype(ok, "I1", "the context must be of a recv", type(context).__name__)
    data, token = context
    single = not isinstance(data, tuple)
    outs = bind(recv_done_op, *((data,) if single else data), token)
    return data_and_token(outs, single)
