"""RaggedDot: products in groups, whose sizes are known when the program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec, as_ints, require, require_array, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import EnumList, Struct
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .contraction import (
    dot_general_op,
    infer_dot_general,
    kernel_dot_general,
    operands_of,
    preferred,
    require_numbers,
)
from .dot_algorithm import as_precision_config
from .forms import converted, part, reshaped
from .ragged_dot_rules import (
    DOT_DIMENSIONS,
    batch_ragged_dot,
    dot_params,
    free_dimensions,
    jvp_ragged_dot,
    mode_of,
    prefix_of,
    vjp_ragged_dot,
)
from .rules import Rules, zeros_like, zeros_of

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_op"]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Params = Mapping[str, Any]


_S64: Final = as_dtype("s64")

# --- shapes ---------------------------------------------------------------------------------------


def infer_ragged_dot(
    lhs: TensorSpec,
    rhs: TensorSpec,
    group_sizes: TensorSpec,
    *,
    lhs_ragged_dimensions: Ints,
    rhs_group_dimensions: Ints,
    **p: Any,
) -> TensorSpec:
    """C1 to C11 are those of dot_general; CHLO gives no labels to its own."""
    require_array(lhs, "I1", "lhs")
    require_array(rhs, "I2", "rhs")
    require_array(group_sizes, "I3", "group_sizes")
    require_dtype(
        group_sizes.dtype.integer, "I3", "group_sizes must be of kind int or uint", group_sizes
    )
    for spec in (lhs, rhs, group_sizes):
        require_shape(spec.is_static, "X8", "sizes must be known and not vary", spec)
    require(
        len(lhs_ragged_dimensions) == 1 and 0 <= lhs_ragged_dimensions[0] < lhs.rank,
        "X2",
        "lhs_ragged_dimensions must be one dimension of lhs",
        lhs_ragged_dimensions,
    )
    group = rhs_group_dimensions
    batching, contracting = p["rhs_batching_dimensions"], p["rhs_contracting_dimensions"]
    require(
        len(group) <= 1
        and all(0 <= d < rhs.rank and d not in (*batching, *contracting) for d in group),
        "X3",
        "rhs_group_dimensions must be at most one dimension of rhs, neither batching nor contracting",
        group,
    )
    # dot_general checks the dimensions that are left; a wrong number must stay wrong without that of the group.
    for name, label in (("rhs_batching_dimensions", "C7"), ("rhs_contracting_dimensions", "C8")):
        require(
            all(0 <= d < rhs.rank for d in p[name]),
            label,
            f"{name} must be in [0, {rhs.rank})",
            p[name],
        )
    everything = {
        **p,
        "lhs_ragged_dimensions": lhs_ragged_dimensions,
        "rhs_group_dimensions": group,
    }
    one = rhs.with_shape([n for d, n in enumerate(rhs.shape) if d not in group])
    result = infer_dot_general(lhs, one, **dot_params(everything))
    mode = mode_of(everything)
    require(
        bool(group) == (mode == "free"),
        "X4",
        "rhs must have a group dimension if the ragged one is neither batching nor contracting, and only then",
        group,
    )
    prefix = tuple([lhs.shape[d] for d in prefix_of(lhs.rank, everything)])
    require_shape(
        group_sizes.rank >= 1 and (group_sizes.rank == 1 or group_sizes.shape[:-1] == prefix),
        "X5",
        f"group_sizes must have one dimension, or {prefix} and one more",
        group_sizes,
    )
    if mode == "free":
        count = rhs.shape[group[0]]
        require_shape(
            group_sizes.shape[-1] == count,
            "X6",
            f"there must be {count} groups as in rhs",
            group_sizes,
        )
    if mode == "contracting":
        return result.with_shape((group_sizes.shape[-1], *result.shape))
    return result


# --- kernel ---------------------------------------------------------------------------------------


def kernel_ragged_dot(
    lhs: Array, rhs: Array, group_sizes: Array, *, out: TensorSpec, **p: Any
) -> Array:
    """The product of the group's part of lhs with the group's rhs, or with the same part of rhs.

    A free dimension: each part makes its part of the result, zero where there is no group. A contracting dimension:
    each part makes a result of its own. A batching one: groups make no difference.
    """
    mode, dot = mode_of(p), dot_params(p)
    if mode == "batching":
        return kernel_dot_general(lhs, rhs, out=out, **dot)
    (ragged,) = p["lhs_ragged_dimensions"]
    prefix = prefix_of(lhs.ndim, p) if group_sizes.ndim > 1 else ()
    stops = np.cumsum(group_sizes, axis=-1, dtype=np.int64)
    starts = stops - group_sizes
    result = np.zeros(out.shape, out.dtype.numpy)
    for g in range(group_sizes.shape[-1]):
        right = np.take(rhs, g, p["rhs_group_dimensions"][0]) if mode == "free" else rhs
        if not prefix:
            _add_part(
                result,
                lhs,
                right,
                g,
                int(starts[..., g].flat[0]),
                int(stops[..., g].flat[0]),
                p,
                dot,
            )
            continue
        shape = [1] * lhs.ndim
        for d in prefix:
            shape[d] = lhs.shape[d]
        order = sorted(range(len(prefix)), key=prefix.__getitem__)
        low, high = (x[..., g].transpose(order).reshape(shape) for x in (starts, stops))
        steps = np.arange(lhs.shape[ragged]).reshape(
            [-1 if d == ragged else 1 for d in range(lhs.ndim)]
        )
        inside = (low <= steps) & (steps < high)
        if mode == "free":
            found = kernel_dot_general(lhs, right, out=out, **dot)
            np.copyto(result, found, where=_as_result(inside, lhs.ndim, found.ndim, p))
        else:
            left = np.where(inside, lhs, np.zeros((), lhs.dtype))
            masked = np.where(_as_rhs(inside, rhs.ndim, p), rhs, np.zeros((), rhs.dtype))
            result[g] = kernel_dot_general(left, masked, out=out, **dot)
    return result


def _add_part(
    result: Array, lhs: Array, rhs: Array, group: int, start: int, stop: int, p: Params, dot: Params
) -> None:
    """One group's product, put into its place; the same group for all."""
    (ragged,) = p["lhs_ragged_dimensions"]
    start, stop = max(0, start), min(stop, lhs.shape[ragged])
    if start >= stop:
        return
    cut = slice(start, stop)
    part = lhs[(slice(None),) * ragged + (cut,)]
    if ragged in p["lhs_contracting_dimensions"]:
        other = p["rhs_contracting_dimensions"][p["lhs_contracting_dimensions"].index(ragged)]
        same = rhs[(slice(None),) * other + (cut,)]
        result[group] = kernel_dot_general(part, same, out=None, **dot)  # type: ignore[arg-type]
    else:
        at = _result_axis(lhs.ndim, p)
        found = kernel_dot_general(part, rhs, out=None, **dot)  # type: ignore[arg-type]
        result[(slice(None),) * at + (cut,)] = found


def _result_axis(rank: int, p: Params) -> int:
    """Where the ragged dimension is in the result, if it is free."""
    batching = p["lhs_batching_dimensions"]
    free = free_dimensions(rank, batching, p["lhs_contracting_dimensions"])
    return len(batching) + free.index(p["lhs_ragged_dimensions"][0])


def _as_result(mask: Array, rank: int, result_rank: int, p: Params) -> Array:
    """A mask over lhs, of size 1 along its contracting dimensions, over the result."""
    batching, contracting = p["lhs_batching_dimensions"], p["lhs_contracting_dimensions"]
    order = (*batching, *free_dimensions(rank, batching, contracting))
    shape = [mask.shape[d] for d in order]
    return mask.transpose((*order, *contracting)).reshape(shape + [1] * (result_rank - len(shape)))


def _as_rhs(mask: Array, rank: int, p: Params) -> Array:
    """A mask over lhs, of size 1 along its free dimensions, over rhs."""
    shape = [1] * rank
    pairs = [
        *zip(p["lhs_batching_dimensions"], p["rhs_batching_dimensions"]),
        *zip(p["lhs_contracting_dimensions"], p["rhs_contracting_dimensions"]),
    ]
    for left, right in pairs:
        shape[right] = mask.shape[left]
    ordered = sorted(pairs, key=lambda pair: pair[1])
    taken = tuple([left for left, _ in ordered])
    rest = free_dimensions(mask.ndim, taken)
    return mask.transpose((*taken, *rest)).reshape(shape)


# --- what it is made of ---------------------------------------------------------------------------


def _compared(x: Any, y: Any) -> Any:
    return bind(lookup("compare"), x, y, comparison_direction="LT", compare_type="SIGNED")


def _bounds(sizes: Any) -> list[tuple[Any, Any]]:
    """Where each group starts and stops, in 64 bits."""
    spec = sizes.spec
    wide = converted(sizes, _S64)
    at = zeros_like(reshaped(part(wide, 0, -1), spec.shape[:-1]))
    found = []
    for g in range(spec.shape[-1]):
        size = reshaped(part(wide, g, -1), spec.shape[:-1])
        following = bind(lookup("add"), at, size)
        found.append((at, following))
        at = following
    return found


def _inside(shape: Ints, ragged: int, prefix: Ints, low: Any, high: Any) -> Any:
    """Whether each place along a dimension lies within the bounds."""
    steps = bind(lookup("iota"), shape=shape, dtype=_S64, iota_dimension=ragged)
    low, high = (
        bind(lookup("broadcast_in_dim"), x, shape=shape, broadcast_dimensions=prefix)
        for x in (low, high)
    )
    before = bind(lookup("not"), _compared(steps, low))
    return bind(lookup("and"), before, _compared(steps, high))


def decompose_ragged_dot(lhs: Any, rhs: Any, group_sizes: Any, **p: Any) -> Any:
    """Each group's product by itself, and of all of them what belongs to the group."""
    mode, dot = mode_of(p), dot_params(p)
    if mode == "batching":
        return bind(dot_general_op, lhs, rhs, **dot)
    out: TensorSpec = ragged_dot_op.infer(lhs.spec, rhs.spec, group_sizes.spec, **p)
    (ragged,) = p["lhs_ragged_dimensions"]
    prefix = prefix_of(lhs.ndim, p) if group_sizes.ndim > 1 else ()
    select = lookup("select")
    if not group_sizes.spec.shape[-1]:
        return zeros_of(out)
    if mode == "free":
        batching = p["lhs_batching_dimensions"]
        order = (*batching, *free_dimensions(lhs.ndim, batching, p["lhs_contracting_dimensions"]))
        at = tuple([order.index(d) for d in prefix])
        group = p["rhs_group_dimensions"][0]
        one = tuple([n for d, n in enumerate(rhs.spec.shape) if d != group])
        result = None
        for g, (low, high) in enumerate(_bounds(group_sizes)):
            found = bind(dot_general_op, lhs, reshaped(part(rhs, g, group), one), **dot)
            inside = _inside(out.shape, order.index(ragged), at, low, high)
            result = bind(select, inside, found, zeros_like(found) if result is None else result)
        return result
    left_axes = (*p["lhs_batching_dimensions"], *p["lhs_contracting_dimensions"])
    right_axes = (*p["rhs_batching_dimensions"], *p["rhs_contracting_dimensions"])
    parts = []
    for low, high in _bounds(group_sizes):
        # Both sides, so that what is no number in one group stays there.
        masked = []
        for x, axes in ((lhs, left_axes), (rhs, right_axes)):
            place = dict(zip(left_axes, axes))
            at = tuple([place[d] for d in prefix])
            inside = _inside(x.spec.shape, place[ragged], at, low, high)
            masked.append(bind(select, inside, x, zeros_like(x)))
        found = bind(dot_general_op, *masked, **dot)
        parts.append(reshaped(found, (1, *out.shape[1:])))
    return bind(lookup("concatenate"), *parts, dimension=0)


# --- text -----------------------------------------------------------------------------------------

_NUMBERS: Final = Struct(
    "chlo.ragged_dot",
    dict.fromkeys((*DOT_DIMENSIONS, "lhs_ragged_dimensions", "rhs_group_dimensions"), ()),
)
_PRECISION: Final = EnumList("precision")


def write_ragged_dot(writer: Writer, instruction: Any) -> None:
    """In CHLO, where that can be expanded; it can not with other dimensions before the ragged one than batching."""
    p = instruction.params
    rank = len(instruction.operands[0].spec.shape)
    if len(prefix_of(rank, p)) > len(p["lhs_batching_dimensions"]):
        writer.composed(instruction, lambda *xs: decompose_ragged_dot(*xs, **p))
        return
    attributes = [f"ragged_dot_dimension_numbers = {_NUMBERS.print(p)}"]
    if p["precision_config"] is not None:
        words = ", ".join(f"#chlo<precision {w}>" for w in p["precision_config"])
        attributes.append(f"precision_config = [{words}]")
    writer.line("chlo.ragged_dot", instruction, ", ".join(attributes))


def read_ragged_dot(reader: Reader, operation: Any) -> Any:
    """The preferred type stands in the result's type."""
    spec = reader.result_specs(operation)[0]
    require_array(spec, "C12", "the result")
    assert type(spec) is TensorSpec
    return bind(
        ragged_dot_op,
        *reader.operands(operation),
        **_NUMBERS.parse(reader.attribute(operation, "ragged_dot_dimension_numbers")),
        precision_config=_PRECISION.parse(reader.attribute(operation, "precision_config")),
        preferred_element_type=spec.dtype,
    )


register_reader("mhlo.ragged_dot", read_ragged_dot)
ragged_dot_op: Op = register(Op(
    name="ragged_dot",
    section="RaggedDot",
    infer=infer_ragged_dot,
    hlo=Hlo(
        "chlo.ragged_dot",
        write=write_ragged_dot,
        read=read_ragged_dot,
        decomposition=decompose_ragged_dot,
        # Artifacts hold how jaxlib composes it, and there what is no number in one group spreads to others.
        is_portable=lambda params: mode_of(params) == "batching",
    ),
    kernel=kernel_ragged_dot,
    ad=Rules(jvp_ragged_dot, vjp_ragged_dot),
    batch=batch_ragged_dot,
))  # fmt: skip


# --- public function ------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """What each dimension of the operands of a ragged product is for.

    Attributes
    ----------
    lhs_contracting_dimensions, rhs_contracting_dimensions, lhs_batch_dimensions, rhs_batch_dimensions
        As of `DotDimensionNumbers`.
    lhs_ragged_dimensions : sequence of int
        One: the dimension of lhs that the groups divide.
    rhs_group_dimensions : sequence of int
        One if the ragged dimension is neither contracting nor batch: the dimension of rhs that counts groups.
    """

    lhs_contracting_dimensions: int | Sequence[int] = ()
    rhs_contracting_dimensions: int | Sequence[int] = ()
    lhs_batch_dimensions: int | Sequence[int] = ()
    rhs_batch_dimensions: int | Sequence[int] = ()
    lhs_ragged_dimensions: int | Sequence[int] = ()
    rhs_group_dimensions: int | Sequence[int] = ()


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    dimension_numbers: RaggedDotDimensionNumbers,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """Products in groups along a dimension of lhs, such as those of tokens with the weights of their experts.

    Parameters
    ----------
    lhs, rhs : array
    group_sizes : array of integers
        How many elements of the ragged dimension each group has, one group after the other: [groups]; or the same for
        each place in the batch dimensions and the dimensions (of the ragged one's sort) before it: [..., groups].
    dimension_numbers : RaggedDotDimensionNumbers
    precision_config, preferred_element_type
        As of `dot_general`.

    Returns
    -------
    Tensor
        With b batch, m and n free, k contracting dimensions and g groups: [b, m, n] from [b, m, k] and [g, b, k, n] if
        m is ragged, each row with the weights of its group, and zero behind the last group; [g, b, m, n] from [b, m, k]
        and [b, k, n] if k is, each group summed by itself; [b, m, n] if b is, and then groups make no difference.

    Raises
    ------
    ConstraintError
        [C1] to [C8] As `dot_general`; [X2] to [X4] If the ragged dimension and that of the groups do not fit.
    ShapeError
        [C9], [C10] As `dot_general`; [X5], [X6] If `group_sizes` does not fit; [X8] for varying sizes.
    DTypeError
        [I1], [I2], [I3] If an operand is no array, or `group_sizes` has no integers; [C13] as `dot_general`.

    Notes
    -----
    Section RaggedDot of the operation semantics; ``chlo.ragged_dot``. XLA does not run it on the CPU, so that there it
    is as many products as there are groups.

    Examples
    --------
    >>> from xlapy import ops
    >>> rows = ops.constant([[1.0], [2.0], [3.0], [4.0]])
    >>> weights = ops.constant([[[10.0]], [[100.0]]])
    >>> numbers = RaggedDotDimensionNumbers([1], [1], lhs_ragged_dimensions=[0], rhs_group_dimensions=[0])
    >>> ops.reshape(ops.ragged_dot(rows, weights, [1, 2], numbers), [4])
    Tensor([ 10., 200., 300.,   0.], f32[4])
    """
    require_numbers(dimension_numbers, RaggedDotDimensionNumbers)
    x, y = operands_of(lhs, rhs)
    n = dimension_numbers
    result: Tensor = bind(
        ragged_dot_op,
        x,
        y,
        lift(group_sizes),
        lhs_batching_dimensions=as_ints(n.lhs_batch_dimensions, "lhs_batch_dimensions", "C5"),
        rhs_batching_dimensions=as_ints(n.rhs_batch_dimensions, "rhs_batch_dimensions", "C7"),
        lhs_contracting_dimensions=as_ints(
            n.lhs_contracting_dimensions, "lhs_contracting_dimensions", "C6"
        ),
        rhs_contracting_dimensions=as_ints(
            n.rhs_contracting_dimensions, "rhs_contracting_dimensions", "C8"
        ),
        lhs_ragged_dimensions=as_ints(n.lhs_ragged_dimensions, "lhs_ragged_dimensions", "X2"),
        rhs_group_dimensions=as_ints(n.rhs_group_dimensions, "rhs_group_dimensions", "X3"),
        precision_config=as_precision_config(precision_config),
        preferred_element_type=preferred(x, y, preferred_element_type),
    )
    return result
