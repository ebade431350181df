"""RaggedAllToAll: pieces of varying length sent from each device of a group to each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import ConstraintError
from xlapy.specs import Spec, TensorSpec, require, require_array, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.batching import broadcast_leading
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import annotate, bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.process_grid import communicating, settled_by
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader
from xlapy.trace.zeros import zeros_of

from .collective_rules import constant
from .custom import register_target_reader
from .forms import converted, reshaped
from .reduction import reduce_sum
from .replica_groups import (
    REPLICA_GROUPS,
    Groups,
    check_channel,
    check_groups,
    group_of,
    meet,
    normal_channel,
    normal_groups,
    settled_groups,
)
from .rules import linear

__all__ = ["ragged_all_to_all"]

Array = np.ndarray[Any, Any]

# --- the record ---------------------------------------------------------------------------------------------------


def infer_ragged_all_to_all(
    x: Spec,
    output: Spec,
    input_offsets: Spec,
    send_sizes: Spec,
    output_offsets: Spec,
    recv_sizes: Spec,
    *,
    replica_groups: Groups,
    channel_id: int,
) -> TensorSpec:
    """X1 input and output; X2 offsets and sizes; X3 the groups; X4 the channel."""
    for value in (x, output):
        require_array(value, "X1", "input and output")
    assert type(x) is TensorSpec
    assert type(output) is TensorSpec
    require_dtype(x.dtype is output.dtype, "X1", "output must have the input's type", output)
    require_shape(
        x.rank > 0 and x.shape[1:] == output.shape[1:] and x.is_static and output.is_static, "X1",
        f"output must be of the shape of {x} but for the first dimension", output,
    )  # fmt: skip
    where = (input_offsets, send_sizes, output_offsets, recv_sizes)
    for value in where:
        require_array(value, "X2", "offsets and sizes")
    first: Any = input_offsets
    require_dtype(
        first.dtype.integer and all(w is first for w in where), "X2", "offsets and sizes must be integers of one type "
        "and shape", where,
    )  # fmt: skip
    require_shape(
        first.rank in (1, 2) and first.is_static and first.shape[0] > 0, "X2",
        "offsets and sizes must be [num_devices] or [num_devices, num_updates]", first,
    )  # fmt: skip
    check_channel(channel_id, "X4")
    check_groups(replica_groups, "X3", "X3", "X3", one_size="X3")
    require(
        not replica_groups or len(replica_groups[0]) == first.shape[0], "X3",
        f"each of replica_groups must have as many devices as the offsets, {first.shape[0]}", replica_groups,
    )  # fmt: skip
    return output


def settle_ragged_all_to_all(
    specs: Sequence[Any], params: Mapping[str, Any], num_replicas: int, num_partitions: int
) -> Mapping[str, Any]:
    """X3."""
    found = settled_groups(params, num_replicas, num_partitions, "X3")
    size = len(found["replica_groups"][0])
    require(
        size == specs[2].shape[0], "X3", f"offsets and sizes must be for {size} devices", specs[2]
    )  # fmt: skip
    return found


@communicating
@settled_by(settle_ragged_all_to_all)
def kernel_ragged_all_to_all(
    x: Array,
    output: Array,
    input_offsets: Array,
    send_sizes: Array,
    output_offsets: Array,
    recv_sizes: Array,
    *,
    replica_groups: Groups,
    channel_id: int,
    out: Any,
    site: Instruction,
) -> Array:
    """result[output_offsets@i[own] :][: send_sizes@i[own]] = input@i[input_offsets@i[own] :][: send_sizes@i[own]]."""
    group = group_of({"replica_groups": replica_groups, "channel_id": channel_id})
    assert group is not None
    given = (x, input_offsets, send_sizes, output_offsets)
    found, own = meet(site, group, channel_id, given)
    result = output.copy()
    for sender, (data, starts, sizes, targets) in enumerate(found):
        pieces = [np.ravel(a[own]).tolist() for a in (starts, sizes, targets)]
        expected = np.ravel(recv_sizes[sender]).tolist()
        for start, size, target, wanted in zip(*pieces, expected, strict=True):
            ok = (
                size == wanted
                and size >= 0
                and 0 <= start <= len(data) - size
                and 0 <= target <= len(result) - size
            )
            if not ok:
                _refuse_piece(site, sender, own, (start, size, target, wanted))
            result[target : target + size] = data[start : start + size]
    return result


def _refuse_piece(site: Instruction, sender: int, own: int, piece: tuple[int, ...]) -> None:
    start, size, target, wanted = piece
    error = ConstraintError(
        "pieces must lie in input and output, and be as long as the receiver's recv_sizes say; got"
        f" input_offset {start}, send_size {size}, output_offset {target} and recv_size {wanted} from device {sender}"
        f" of the group to device {own} [X5]"
    )
    raise annotate(error, site.op.name, [v.spec for v in site.operands], site.source)


# --- spelling -----------------------------------------------------------------------------------------------------

_TARGET = "ragged_all_to_all"


def write_ragged_all_to_all(writer: Writer, instruction: Any) -> None:
    """As XLA's own custom call; without a channel XLA ends the process, and 0 is none."""
    params = instruction.params
    groups = REPLICA_GROUPS.print(params["replica_groups"])
    config = f"{{channel_id = {params['channel_id']} : i64, replica_groups = {groups}}}"
    writer.line(
        "stablehlo.custom_call",
        instruction,
        f'call_target_name = "{_TARGET}", api_version = 4 : i32, backend_config = {config}',
    )


def read_ragged_all_to_all(reader: Reader, operation: Any) -> Any:
    """The configuration is a dictionary."""
    config = reader.text(operation, "backend_config", "{}")
    groups = re.search(r"replica_groups = (dense<.*?> : tensor<[^>]*>)", config)
    channel = re.search(r"channel_id = (\d+)", config)
    return bind(
        ragged_all_to_all_op,
        *reader.operands(operation),
        replica_groups=REPLICA_GROUPS.parse(groups.group(1)) if groups else (),
        channel_id=int(channel.group(1)) if channel else 0,
    )


register_target_reader(_TARGET, read_ragged_all_to_all)

# --- small parts --------------------------------------------------------------------------------------------------


def _whole_numbers(*xs: Any) -> list[Any]:
    """Offsets and sizes as integers that can be reckoned with."""
    wide = as_dtype("s64" if xs[0].spec.dtype.bits == 64 else "s32")
    return [converted(x, wide) for x in xs]


def _exchanged(x: Any, groups: Groups, channel_id: int) -> Any:
    """The i-th row of an array from each device, at the i-th device."""
    count = x.spec.shape[0]
    return bind(
        lookup("all_to_all"), x, split_dimension=0, concat_dimension=0, split_count=count,
        replica_groups=groups or (tuple(range(count)),), channel_id=channel_id,
    )  # fmt: skip


def _along(x: Any, shape: Sequence[int], *dims: int) -> Any:
    return bind(lookup("broadcast_in_dim"), x, shape=tuple(shape), broadcast_dimensions=dims)


def _places(start: Any, length: int) -> Any:
    """start[i] + k."""
    shape = (start.spec.shape[0], length)
    k = bind(lookup("iota"), shape=shape, dtype=start.spec.dtype, iota_dimension=1)
    return bind(lookup("add"), _along(start, shape, 0), k)


def _less(a: Any, b: Any) -> Any:
    return bind(lookup("compare"), a, b, comparison_direction="LT", compare_type="SIGNED")


def _flat(x: Any) -> Any:
    return reshaped(x, (x.spec.size,))


# --- derivative ---------------------------------------------------------------------------------------------------


def transpose_ragged_all_to_all(
    c: Any,
    x: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    replica_groups: Groups,
    channel_id: int,
) -> tuple[Any, Any]:
    """The pieces on their way back, each to a room of its own, for the same input may have been sent several times."""
    starts, sizes, targets, arrivals = _whole_numbers(
        input_offsets, send_sizes, output_offsets, recv_sizes
    )
    spec, length = x.spec, x.spec.shape[0]
    dtype, shape, count = starts.spec.dtype, starts.spec.shape, starts.spec.size
    # Where the receivers have got the pieces, and where in the senders' rooms they come from.
    landed = _exchanged(targets, replica_groups, channel_id)
    rooms = reshaped(constant(np.arange(count) * length, dtype.numpy), shape)
    homes = _exchanged(bind(lookup("add"), rooms, starts), replica_groups, channel_id)
    empty = zeros_of(TensorSpec((count * length, *spec.shape[1:]), spec.dtype))
    back = bind(
        ragged_all_to_all_op, c, empty, landed, arrivals, homes, sizes, replica_groups=replica_groups,
        channel_id=channel_id,
    )  # fmt: skip
    of_input = reduce_sum(reshaped(back, (count, length, *spec.shape[1:])), 0)
    # What was overwritten has no influence.
    rows = output.spec.shape[0]
    before = _flat(landed)
    numbers = bind(lookup("iota"), shape=(count, rows), dtype=dtype, iota_dimension=1)
    begun = bind(lookup("not"), _less(numbers, _along(before, (count, rows), 0)))
    after = bind(lookup("add"), before, _flat(arrivals))
    inside = bind(lookup("and"), begun, _less(numbers, _along(after, (count, rows), 0)))
    covered = _along(reduce_sum(inside, 0), c.spec.shape, 0)
    return of_input, bind(lookup("select"), covered, zeros_of(c.spec), c)


# --- by other operations ------------------------------------------------------------------------------------------


def ragged_all_to_all_by_windows(
    x: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    replica_groups: Groups,
    channel_id: int,
) -> Any:
    """As if each piece were as long as the input; the receivers drop what is too much."""
    length, rows = x.spec.shape[0], output.spec.shape[0]
    rest = x.spec.shape[1:]
    size = TensorSpec(rest, x.spec.dtype).size
    if not length or not rows:
        return output
    starts, targets, arrivals = _whole_numbers(input_offsets, output_offsets, recv_sizes)
    count, devices = starts.spec.size, starts.spec.shape[0]
    matrix = reshaped(x, (length, size))
    windows = bind(
        lookup("gather"), matrix, _places(_flat(starts), length), offset_dims=(2,), collapsed_slice_dims=(0,),
        operand_batching_dims=(), start_indices_batching_dims=(), start_index_map=(0,), index_vector_dim=2,
        slice_sizes=(1, size), indices_are_sorted=False,
    )  # fmt: skip
    sent = reshaped(windows, (devices, count // devices * length, size))
    found = reshaped(_exchanged(sent, replica_groups, channel_id), (count * length, size))
    landed = _flat(_exchanged(targets, replica_groups, channel_id))
    places = _places(landed, length)
    dtype = places.spec.dtype
    numbers = bind(lookup("iota"), shape=places.spec.shape, dtype=dtype, iota_dimension=1)
    counts = _less(numbers, _along(_flat(arrivals), places.spec.shape, 0))
    outside = _along(constant(rows, dtype.numpy), places.spec.shape)
    places = reshaped(bind(lookup("select"), counts, places, outside), (count * length, 1))
    scalar = TensorSpec((), x.spec.dtype)
    (result,) = bind(
        lookup("scatter"), reshaped(output, (rows, size)), places, found,
        update_computation=as_computation(lambda a, b: b, [scalar, scalar], name="replace"),
        update_window_dims=(1,), inserted_window_dims=(0,), input_batching_dims=(), scatter_indices_batching_dims=(),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1, indices_are_sorted=False, unique_indices=False,
    )  # fmt: skip
    return reshaped(result, output.spec.shape)


# --- vectorised ---------------------------------------------------------------------------------------------------


def batch_ragged_all_to_all(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """The rows behind one another; each piece becomes one more update."""
    full = [a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)]
    x, output, *where = full
    starts, sizes, targets, arrivals = _whole_numbers(*where)
    lengths = (x.spec.shape[1], output.spec.shape[1])
    joined = [
        reshaped(a, (size * n, *a.spec.shape[2:]))
        for a, n in zip((x, output), lengths, strict=True)
    ]

    def updates(a: Any, length: int) -> Any:
        shape = a.spec.shape
        if length:
            moved = constant(np.arange(size) * length, a.spec.dtype.numpy)
            a = bind(lookup("add"), a, _along(moved, shape, 0))
        order = (1, 0, *range(2, len(shape)))
        a = bind(lookup("transpose"), a, permutation=order)
        return reshaped(a, (shape[1], a.spec.size // shape[1]))

    found = bind(
        op, *joined, updates(starts, lengths[0]), updates(sizes, 0), updates(targets, lengths[1]), updates(arrivals, 0),
        **params,
    )  # fmt: skip
    return reshaped(found, output.spec.shape)


ragged_all_to_all_op = register(Op(
    name="ragged_all_to_all",
    section="RaggedAllToAll",
    infer=infer_ragged_all_to_all,
    hlo=Hlo("", write=write_ragged_all_to_all, decomposition=ragged_all_to_all_by_windows),
    kernel=kernel_ragged_all_to_all,
    ad=linear(transpose_ragged_all_to_all, wrt=(0, 1)),
    batch=batch_ragged_all_to_all,
))  # fmt: skip


def ragged_all_to_all(
    input: Any,
    input_offsets: Any,
    send_sizes: Any,
    output: Any,
    output_offsets: Any,
    recv_sizes: Any,
    replica_groups: Any = None,
    channel_id: int | None = None,
) -> Tensor:
    """Pieces of each device's array written into the arrays of the devices of its group.

    Parameters
    ----------
    input : array
        The pieces lie along its first dimension.
    input_offsets, send_sizes : integer array [num_devices] or [num_devices, num_updates]
        Where the pieces for each device of the group start, and how long they are. All four arrays of offsets and
        sizes are of one type and shape.
    output : array
        Of the input's type and, but for the first dimension, shape: what the pieces are written into.
    output_offsets : integer array
        Where they are to lie in the other devices' outputs.
    recv_sizes : integer array
        How long the pieces are that come from each device of the group.
    replica_groups : sequence of sequences of int, optional
        All replicas in groups of `num_devices`; by default one group of all.
    channel_id : int, optional
        A number above 0 makes the groups ones of partitions, within each replica.

    Returns
    -------
    Tensor
        The output with the pieces that the device was sent.

    Raises
    ------
    ShapeError, DTypeError, ConstraintError
        [X1] to [X4] If the arrays or groups do not fit together; [X3] when it is compiled, if the groups do not fit
        the devices; [X5] when it runs on the interpreter, if a piece does not fit.

    Notes
    -----
    Section RaggedAllToAll of the operation semantics. In StableHLO it is a custom call. XLA on CPU has none that works;
    there it is made of `all_to_all` and `scatter`. Pieces must not overlap in the output.

    Examples
    --------
    >>> from xlapy import ops
    >>> def at(*values):
    ...     return ops.constant(values)
    >>> ops.ragged_all_to_all(at(1, 2, 3), at(1), at(2), at(0, 0, 0, 0), at(1), at(2))
    Tensor([0, 2, 3, 0], s32[4])
    """
    x, into = lift(input), lift(output)
    where = [lift(w) for w in (input_offsets, send_sizes, output_offsets, recv_sizes)]
    found: Tensor = bind(
        ragged_all_to_all_op,
        x,
        into,
        *where,
        replica_groups=normal_groups(replica_groups),
        channel_id=normal_channel(channel_id),
    )
    return found
