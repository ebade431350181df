"""The convolution record: a window of weights that moves over an array."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ArtifactError
from xlapy.specs import DYNAMIC, TensorSpec, require, require_array, require_dtype, require_shape
from xlapy.trace.codecs import BOOL_ARRAY, I64, I64_ARRAY, I64_MATRIX, EnumList
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .convolution_rules import batch_convolution, convolution_ad
from .dot_algorithm import require_precision
from .elementwise_kernels import convert
from .joining import kernel_pad, padded_size
from .products import compute_dtype, product

__all__ = ["ConvolutionDimensionNumbers", "convolution_op", "window_count"]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

#: how many bytes of windows are gathered at a time: about what a cache holds
_CHUNK: Final = 4 << 20


@final
@dataclass(frozen=True)
class ConvolutionDimensionNumbers:
    """What each dimension of a convolution's input, kernel and output is for.

    Attributes
    ----------
    input_batch_dimension, input_feature_dimension : int
    input_spatial_dimensions : sequence of int
        Those that the window moves along.
    kernel_input_feature_dimension, kernel_output_feature_dimension : int
    kernel_spatial_dimensions : sequence of int
    output_batch_dimension, output_feature_dimension : int
    output_spatial_dimensions : sequence of int

    Examples
    --------
    >>> ConvolutionDimensionNumbers.parse("b01f_01io->b01f").kernel_spatial_dimensions
    (0, 1)
    """

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: Sequence[int]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: Sequence[int]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: Sequence[int]

    @staticmethod
    def default(rank: int) -> ConvolutionDimensionNumbers:
        """Batch, features, then the spatial dimensions; in the kernel output and input features."""
        spatial = tuple(range(2, rank))
        return ConvolutionDimensionNumbers(0, 1, spatial, 1, 0, spatial, 0, 1, spatial)

    @staticmethod
    def parse(text: str) -> ConvolutionDimensionNumbers:
        """Read ``"b01f_01io->b01f"``, as in HLO: b batch, f features, i and o those of the kernel, digits spatial."""
        match = re.fullmatch(r"([bf\d]+)_([io\d]+)->([bf\d]+)", text.replace(" ", ""))
        require(match is not None, "X1", "dimension_numbers must read like 'b01f_01io->b01f'", text)
        assert match is not None
        found = _from_labels([list(part) for part in match.groups()])
        require(found is not None, "X1", "each label must stand once for each array", text)
        return ConvolutionDimensionNumbers(**(found or {}))


_PARTS: Final = (
    ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    ("kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"),
    ("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
)  # fmt: skip
_LABELS: Final = (("b", "f"), ("i", "o"), ("b", "f"))


def _from_labels(parts: Sequence[Sequence[str]]) -> dict[str, Any] | None:
    """The dimension numbers from the labels of each array's dimensions; None if they do not fit."""
    found: dict[str, Any] = {}
    for labels, names, (first, second) in zip(parts, _PARTS, _LABELS):
        spatial = [str(i) for i in range(len(labels) - 2)]
        if sorted(labels) != sorted([first, second, *spatial]):
            return None
        at = {label: i for i, label in enumerate(labels)}
        found |= zip(names, (at[first], at[second], tuple([at[s] for s in spatial])))
    return found


# --- shapes ---------------------------------------------------------------------------------------


def window_count(
    size: int,
    window: int,
    stride: int,
    padding: tuple[int, int],
    dilation: int,
    window_dilation: int,
) -> int:
    """How many places a window has along a dimension."""
    padded = padded_size(size, *padding, dilation - 1) if size else sum(padding)
    covered = (window - 1) * window_dilation + 1 if window else 0
    if padded <= 0 or covered > padded:
        return 0
    return (padded - covered) // stride + 1


def infer_convolution(
    lhs: TensorSpec,
    rhs: TensorSpec,
    *,
    window_strides: Ints,
    padding: Pairs,
    lhs_dilation: Ints,
    rhs_dilation: Ints,
    window_reversal: tuple[bool, ...],
    input_batch_dimension: int,
    input_feature_dimension: int,
    input_spatial_dimensions: Ints,
    kernel_input_feature_dimension: int,
    kernel_output_feature_dimension: int,
    kernel_spatial_dimensions: Ints,
    output_batch_dimension: int,
    output_feature_dimension: int,
    output_spatial_dimensions: Ints,
    feature_group_count: int,
    batch_group_count: int,
    precision_config: tuple[str, str] | None,
    preferred_element_type: DType,
) -> TensorSpec:
    """C1 to C27, where the result may have another element type than the operands."""
    require_array(lhs, "I1", "lhs")
    require_array(rhs, "I2", "rhs")
    require_dtype(
        lhs.dtype is rhs.dtype, "C27", "lhs and rhs must be of one element type", (lhs, rhs)
    )
    rank = lhs.rank
    require_shape(rank == rhs.rank, "C1", "lhs and rhs must be of one rank", (lhs, rhs))
    require_shape(
        rank >= 2, "C1", "lhs and rhs must have two dimensions and the spatial ones", (lhs, rhs)
    )
    count = rank - 2
    _check_window(count, window_strides, padding, lhs_dilation, rhs_dilation, window_reversal)
    require(
        feature_group_count > 0, "C21", "feature_group_count must be positive", feature_group_count
    )
    require(batch_group_count > 0, "C22", "batch_group_count must be positive", batch_group_count)
    for label, unique, name, spatial, others in (
        ("C12", "C13", "input", input_spatial_dimensions,
         (input_batch_dimension, input_feature_dimension)),
        ("C17", "C18", "kernel", kernel_spatial_dimensions,
         (kernel_input_feature_dimension, kernel_output_feature_dimension)),
        ("C19", "C20", "output", output_spatial_dimensions,
         (output_batch_dimension, output_feature_dimension)),
    ):  # fmt: skip
        require(
            len(spatial) == count,
            label,
            f"{name}_spatial_dimensions must have {count} entries",
            spatial,
        )
        require(
            sorted((*spatial, *others)) == list(range(rank)),
            unique,
            f"the dimension numbers of the {name} must name each of its {rank} dimensions once",
            (*others, spatial),
        )
    batch, features = lhs.shape[input_batch_dimension], lhs.shape[input_feature_dimension]
    inputs = rhs.shape[kernel_input_feature_dimension]
    outputs = rhs.shape[kernel_output_feature_dimension]
    _check_groups(batch, features, inputs, outputs, feature_group_count, batch_group_count)
    require(
        feature_group_count == 1 or batch_group_count == 1,
        "C23",
        "there must be groups of features or of the batch, not of both",
        (feature_group_count, batch_group_count),
    )
    if precision_config is not None:
        require_precision(precision_config, "C24")
    kind: Any = preferred_element_type
    require_dtype(type(kind) is DType, "X1", "preferred_element_type must be an element type", kind)
    shape = [0] * rank
    dynamic: list[int] = []
    shape[output_batch_dimension] = batch if batch is DYNAMIC else batch // batch_group_count
    shape[output_feature_dimension] = outputs
    for at, axis, source in (
        (output_batch_dimension, input_batch_dimension, lhs),
        (output_feature_dimension, kernel_output_feature_dimension, rhs),
    ):
        if axis in source.dynamic:
            require_shape(
                source is rhs or batch_group_count == 1,
                "X2",
                "a batch of varying size must not be in groups",
                source,
            )
            dynamic.append(at)
    for i, (at, left, right) in enumerate(
        zip(output_spatial_dimensions, input_spatial_dimensions, kernel_spatial_dimensions)
    ):
        n, m = lhs.shape[left], rhs.shape[right]
        if n is DYNAMIC or m is DYNAMIC:
            shape[at] = DYNAMIC
            continue
        require_shape(m > 0, "X3", "the window must have a positive size", rhs)
        require_shape(right not in rhs.dynamic, "X2", "a window's size must not vary", rhs)
        if left in lhs.dynamic:
            dynamic.append(at)
        shape[at] = window_count(
            n, m, window_strides[i], padding[i], lhs_dilation[i], rhs_dilation[i]
        )
    return TensorSpec(tuple(shape), kind, tuple(sorted(dynamic)))


def _check_window(
    count: int,
    strides: Ints,
    padding: Pairs,
    lhs_dilation: Ints,
    rhs_dilation: Ints,
    reversal: tuple[bool, ...],
) -> None:
    for label, positive, name, entries in (
        ("C2", "C3", "window_strides", strides),
        ("C5", "C6", "lhs_dilation", lhs_dilation),
        ("C7", "C8", "rhs_dilation", rhs_dilation),
    ):
        if len(entries) != count:
            require(False, label, f"{name} must have {count} entries", entries)
        if any(n <= 0 for n in entries):
            require(False, positive, f"{name} must be positive", entries)
    require(
        len(padding) == count and all(len(p) == 2 for p in padding),
        "C4",
        f"padding must be {count} pairs",
        padding,
    )
    require(len(reversal) == count, "C9", f"window_reversal must have {count} entries", reversal)


def _check_groups(
    batch: int, features: int, inputs: int, outputs: int, feature_groups: int, batch_groups: int
) -> None:
    require_shape(
        batch is DYNAMIC or batch % batch_groups == 0,
        "C10",
        f"the batch must be a multiple of batch_group_count = {batch_groups}",
        batch,
    )
    require_shape(
        features is DYNAMIC or features % feature_groups == 0,
        "C11",
        f"the input features must be a multiple of feature_group_count = {feature_groups}",
        features,
    )
    require_shape(
        DYNAMIC in (features, inputs) or inputs == features // feature_groups,
        "C14",
        f"the kernel must have the input's {features} features, divided by feature_group_count = {feature_groups}",
        inputs,
    )
    for label, groups, name in (
        ("C15", batch_groups, "batch_group_count"),
        ("C16", feature_groups, "feature_group_count"),
    ):
        require_shape(
            outputs is DYNAMIC or outputs % groups == 0,
            label,
            f"the output features must be a multiple of {name} = {groups}",
            outputs,
        )


# --- kernel ---------------------------------------------------------------------------------------


def kernel_convolution(
    lhs: Array,
    rhs: Array,
    *,
    window_strides: Ints,
    padding: Pairs,
    lhs_dilation: Ints,
    rhs_dilation: Ints,
    window_reversal: tuple[bool, ...],
    input_batch_dimension: int,
    input_feature_dimension: int,
    input_spatial_dimensions: Ints,
    kernel_input_feature_dimension: int,
    kernel_output_feature_dimension: int,
    kernel_spatial_dimensions: Ints,
    output_batch_dimension: int,
    output_feature_dimension: int,
    output_spatial_dimensions: Ints,
    feature_group_count: int,
    batch_group_count: int,
    precision_config: tuple[str, str] | None,
    preferred_element_type: DType,
    out: TensorSpec,
) -> Array:
    """output[b, o, y] = sum over i, k of input[b, i, y * stride + k * dilation] * kernel[o, i, k], the input padded.

    All windows are views of the padded input; they are gathered into a matrix, and multiplied by that of the weights.
    """
    kind = compute_dtype(as_dtype(lhs.dtype), as_dtype(rhs.dtype), preferred_element_type)
    if kind.inexact:
        wide: Any = np.dtype(np.float32) if kind.real and kind.bits < 32 else kind.numpy
        lhs, rhs = convert(lhs, wide), convert(rhs, wide)
    last = input_feature_dimension == lhs.ndim - 1
    x = lhs.transpose((input_batch_dimension, input_feature_dimension, *input_spatial_dimensions))
    w = rhs.transpose(
        (
            kernel_output_feature_dimension,
            kernel_input_feature_dimension,
            *kernel_spatial_dimensions,
        )
    )
    w = w[(slice(None), slice(None), *[np.s_[::-1] if r else np.s_[:] for r in window_reversal])]
    x = _padded(x, padding, lhs_dilation)
    places = [
        0 if n < covered or not n else (n - covered) // stride + 1
        for n, covered, stride in zip(
            x.shape[2:],
            [(k - 1) * d + 1 if k else 0 for k, d in zip(w.shape[2:], rhs_dilation)],
            window_strides,
        )
    ]
    windows = np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *places, *w.shape[2:]),
        (
            *x.strides[:2],
            *[s * n for s, n in zip(x.strides[2:], window_strides)],
            *[s * n for s, n in zip(x.strides[2:], rhs_dilation)],
        ),
    )
    groups = feature_group_count * batch_group_count
    found = _grouped(windows, w, feature_group_count, batch_group_count, last, kind)
    outputs = w.shape[0]
    batch = x.shape[0] // batch_group_count
    if last:  # [group, batch, places..., output features of a group]
        found = found.reshape((groups, batch, *places, outputs // groups))
        axes = (1, 0, found.ndim - 1, *range(2, found.ndim - 1))
    else:
        found = found.reshape((groups, outputs // groups, batch, *places))
        axes = (2, 0, 1, *range(3, found.ndim))
    place = [0] * lhs.ndim
    place[output_batch_dimension], place[output_feature_dimension] = 0, 1
    for i, at in enumerate(output_spatial_dimensions):
        place[at] = 2 + i
    # The groups go into the output features, wherever these stand.
    order: list[int] = []
    for p in place:
        order += [axes[1], axes[2]] if p == 1 else [axes[0] if p == 0 else axes[p + 1]]
    shape = [(batch, outputs, *places)[p] for p in place]
    return convert(found.transpose(order).reshape(shape), preferred_element_type.numpy)


def _padded(x: Array, padding: Pairs, dilation: Ints) -> Array:
    """Zeros around the spatial dimensions and between their elements; negative padding cuts."""
    if not any(map(any, padding)) and all(d == 1 for d in dilation):
        return x
    low, high, interior = [0, 0], [0, 0], [0, 0]
    for n, (before, after), d in zip(x.shape[2:], padding, dilation):
        missing = min(0, padded_size(n, before, after, d - 1))  # cut below nothing: no windows
        low.append(before)
        high.append(after - missing)
        interior.append(d - 1)
    return kernel_pad(
        x,
        np.zeros((), x.dtype),
        edge_padding_low=tuple(low),
        edge_padding_high=tuple(high),
        interior_padding=tuple(interior),
        out=TensorSpec((), as_dtype(x.dtype)),
    )


def _grouped(
    windows: Array, w: Array, feature_groups: int, batch_groups: int, last: bool, kind: DType
) -> Array:
    """The products of windows [batch, features, places..., window...] and weights, for each group.

    With `last` the result is [group, batch, places, output features], otherwise [group, output features, batch,
    places]: whichever gathers the windows from memory that is together. One product for each chunk of the batch, not
    one for each of its elements: threads of BLAS that meet often are slow where others use the processor too.
    """
    spatial = (windows.ndim - 2) // 2
    batch, features, *rest = windows.shape
    groups = feature_groups * batch_groups
    places, inside = math.prod(rest[:spatial]), w.shape[1] * math.prod(w.shape[2:])
    if batch_groups > 1:
        windows = windows.reshape((groups, batch // groups, features, *rest))
    else:
        windows = windows.reshape((batch, groups, features // groups, *rest)).swapaxes(0, 1)
    batch = windows.shape[1]
    y = tuple(range(3, 3 + spatial))
    k = tuple(range(3 + spatial, 3 + 2 * spatial))
    outputs = w.shape[0] // groups
    w = w.reshape((groups, outputs, *w.shape[1:]))
    if last:
        windows = windows.transpose((0, 1, *y, *k, 2))
        # [group, window and features, output features]
        w = w.transpose((0, *range(3, w.ndim), 2, 1)).reshape((groups, inside, outputs))
    else:
        windows = windows.transpose((0, 2, *k, 1, *y))
        w = w.reshape((groups, outputs, inside))
    axis = 1 if last else 2 + spatial
    step = max(1, _CHUNK // max(1, places * inside * groups * windows.itemsize))
    parts = []
    for start in range(0, batch, step):
        n = min(step, batch - start)
        part = windows[(slice(None),) * axis + (slice(start, start + n),)]
        if last:
            found = product(part.reshape((groups, n * places, inside)), w, kind)
            parts.append(found.reshape((groups, n, places, outputs)))
        else:
            found = product(w, part.reshape((groups, inside, n * places)), kind)
            parts.append(found.reshape((groups, outputs, n, places)))
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros(
            (groups, 0, places, outputs) if last else (groups, outputs, 0, places), kind.numpy
        )
    return np.concatenate(parts, axis=1 if last else 2)


# --- text -----------------------------------------------------------------------------------------

_PRECISION: Final = EnumList("precision")


def _dimensions_text(params: Any) -> str:
    texts = []
    for names, (first, second) in zip(_PARTS, _LABELS):
        spatial = params[names[2]]
        labels = [""] * (len(spatial) + 2)
        labels[params[names[0]]], labels[params[names[1]]] = first, second
        for i, at in enumerate(spatial):
            labels[at] = str(i)
        texts.append(f"[{', '.join(labels)}]")
    return f"#stablehlo.conv<{texts[0]}x{texts[1]}->{texts[2]}>"


def parse_dimension_numbers(attribute: Any) -> dict[str, Any]:
    """The dimension numbers from an attribute ``#stablehlo.conv<...>``, in either of its forms."""
    text = str(attribute)
    parts = re.findall(r"\[([^\]]*)\]", text)
    if " raw " in text or "<raw" in text:
        found: dict[str, Any] = {}
        for name in (n for names in _PARTS for n in names):
            match = re.search(rf"\b{name} = (\[[^\]]*\]|\d+)", text)
            raw = match.group(1) if match else ("[]" if name.endswith("s") else "0")
            numbers = tuple(map(int, re.findall(r"\d+", raw)))
            found[name] = numbers if raw.startswith("[") else numbers[0]
        return found
    labels = [[s.strip() for s in p.split(",")] for p in parts]
    read = _from_labels(labels) if len(labels) == 3 else None
    if read is None:
        raise ArtifactError(f"convolution: dimension numbers must be known; got {text} [X6]")
    return read


def window_attributes(params: Any) -> list[str]:
    """The attributes that a convolution has in common with one whose padding is computed."""
    attributes = [
        f"{name} = {codec.print(params[name])}"
        for name, codec in (
            ("window_strides", I64_ARRAY),
            ("padding", I64_MATRIX),
            ("lhs_dilation", I64_ARRAY),
            ("rhs_dilation", I64_ARRAY),
            ("window_reversal", BOOL_ARRAY),
        )
        if name in params
    ]
    attributes.append(f"dimension_numbers = {_dimensions_text(params)}")
    attributes.append(f"feature_group_count = {params['feature_group_count']} : i64")
    attributes.append(f"batch_group_count = {params['batch_group_count']} : i64")
    if params["precision_config"] is not None:
        attributes.append(f"precision_config = {_PRECISION.print(params['precision_config'])}")
    return attributes


def write_convolution(writer: Writer, instruction: Any) -> None:
    """The preferred type stands in the result's type."""
    attributes = window_attributes(instruction.params)
    writer.line("stablehlo.convolution", instruction, ", ".join(attributes))


def read_window(reader: Reader, operation: Any) -> dict[str, Any]:
    """The parameters of a convolution from its attributes; what is absent has its default."""
    numbers = parse_dimension_numbers(reader.attribute(operation, "dimension_numbers"))
    count = len(numbers["input_spatial_dimensions"])
    read = {
        name: codec.parse(reader.attribute(operation, name)) or default
        for name, codec, default in (
            ("window_strides", I64_ARRAY, (1,) * count),
            ("padding", I64_MATRIX, ((0, 0),) * count),
            ("lhs_dilation", I64_ARRAY, (1,) * count),
            ("rhs_dilation", I64_ARRAY, (1,) * count),
            ("window_reversal", BOOL_ARRAY, (False,) * count),
        )
    }
    spec = reader.result_specs(operation)[0]
    require_array(spec, "C26", "the result")
    assert type(spec) is TensorSpec
    return {
        **read,
        **numbers,
        "feature_group_count": I64.parse(reader.attribute(operation, "feature_group_count")),
        "batch_group_count": I64.parse(reader.attribute(operation, "batch_group_count")),
        "precision_config": _PRECISION.parse(reader.attribute(operation, "precision_config")),
        "preferred_element_type": spec.dtype,
    }


def read_convolution(reader: Reader, operation: Any) -> Any:
    """The preferred type stands in the result's type."""
    return bind(convolution_op, *reader.operands(operation), **read_window(reader, operation))


convolution_op: Op = register(Op(
    name="convolution",
    section="ConvGeneralDilated",
    infer=infer_convolution,
    hlo=Hlo("stablehlo.convolution", write=write_convolution, read=read_convolution),
    kernel=kernel_convolution,
    ad=convolution_ad,
    batch=batch_convolution,
))  # fmt: skip
