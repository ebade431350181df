"""Batch normalisation: for training, for inference, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError, shown
from xlapy.specs import TensorSpec, as_axis, require, require_array, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.autodiff import jvp_computation
from xlapy.trace.builder import lift, trace
from xlapy.trace.codecs import I64, Simple
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead

from .forms import converted
from .reduction import reduce_sum
from .rules import Rules, broadcast_leading, constant_like, zeros_like
from .window_rules import vjp_of

Array = np.ndarray[Any, Any]
_F32: Final = as_dtype("f32")

#: a number of 32 bits, written bit by bit
_EPSILON: Final = Simple(
    lambda v: f"0x{np.float32(v).view(np.uint32):08X} : f32", lambda t: _parse_float(t)
)
_CODECS: Final = {"epsilon": _EPSILON, "feature_index": I64}


def _parse_float(text: str) -> float:
    number = text.split(":")[0].strip()
    if number.startswith("0x"):
        return float(np.uint32(int(number, 16)).view(np.float32))
    return float(np.float32(number))


# --- checks ---------------------------------------------------------------------------------------


def _require(
    operand: TensorSpec,
    vectors: dict[str, tuple[str, str, TensorSpec]],
    epsilon: float,
    epsilon_label: str,
    feature_index: int,
) -> None:
    """An array of floats, and vectors with a number for each feature; from names to (I label, C label, spec)."""
    require_array(operand, "I1", "operand")
    require_dtype(operand.dtype.kind == "float", "I1", "operand must hold floats", operand)
    rank = operand.rank
    require(
        type(feature_index) is int and 0 <= feature_index < rank,
        "C1",
        f"feature_index must be in [0, {rank})",
        feature_index,
    )
    require(operand.is_static, "X1", "the sizes must be known", operand)
    size = operand.shape[feature_index]
    for name, (label, length, spec) in vectors.items():
        require_array(spec, label, name)
        require_dtype(
            spec.dtype is operand.dtype, "C2", f"{name} must be of the type of operand", spec
        )
        require_shape(
            spec.shape == (size,) and spec.is_static,
            length,
            f"{name} must have a number for each of {size} features",
            spec,
        )
    require(type(epsilon) is float, epsilon_label, "epsilon must be a Python float", epsilon)


def infer_training(
    operand: TensorSpec,
    scale: TensorSpec,
    offset: TensorSpec,
    *,
    epsilon: float,
    feature_index: int,
) -> tuple[TensorSpec, ...]:
    """C1 to C4."""
    vectors = {"scale": ("I2", "C3", scale), "offset": ("I3", "C4", offset)}
    _require(operand, vectors, epsilon, "I4", feature_index)
    return operand, scale, scale


def infer_inference(
    operand: TensorSpec, scale: TensorSpec, offset: TensorSpec, mean: TensorSpec,
    variance: TensorSpec, *, epsilon: float, feature_index: int,
) -> TensorSpec:  # fmt: skip
    """C1 to C6."""
    vectors = {
        "scale": ("I2", "C3", scale), "offset": ("I3", "C4", offset), "mean": ("I4", "C5", mean),
        "variance": ("I5", "C6", variance),
    }  # fmt: skip
    _require(operand, vectors, epsilon, "I6", feature_index)
    return operand


def infer_grad(
    operand: TensorSpec, scale: TensorSpec, mean: TensorSpec, variance: TensorSpec,
    grad_output: TensorSpec, *, epsilon: float, feature_index: int,
) -> tuple[TensorSpec, ...]:  # fmt: skip
    """C1 to C5."""
    require_array(grad_output, "I5", "grad_output")
    vectors = {
        "scale": ("I2", "C5", scale), "mean": ("I3", "C4", mean), "variance": ("I4", "C4", variance)
    }  # fmt: skip
    _require(operand, vectors, epsilon, "I6", feature_index)
    require_dtype(
        grad_output.dtype is operand.dtype,
        "C2",
        "grad_output must be of the type of operand",
        grad_output,
    )
    require_shape(
        grad_output is operand, "C3", "grad_output must be of the shape of operand", grad_output
    )
    return operand, scale, scale


# --- kernels --------------------------------------------------------------------------------------


class _Features:
    """Arithmetic along the features of an array; floats narrower than 32 bits in float32."""

    def __init__(self, x: Array, feature_index: int) -> None:
        self.dtype = x.dtype
        self.others = tuple(d for d in range(x.ndim) if d != feature_index)
        self.shape = [1] * x.ndim
        self.shape[feature_index] = -1
        self.count = math.prod(x.shape[d] for d in self.others)

    def wide(self, x: Array) -> Array:
        return x.astype(np.float32) if x.dtype.itemsize < 4 else x

    def along(self, v: Array) -> Array:
        return self.wide(v).reshape(self.shape)

    def sum(self, x: Array) -> Array:
        return np.asarray(np.add.reduce(x, axis=self.others, dtype=x.dtype))

    def mean(self, x: Array) -> Array:
        return np.asarray(self.sum(x) / x.dtype.type(self.count))

    def narrow(self, *xs: Array) -> tuple[Array, ...]:
        return tuple(x.astype(self.dtype, copy=False) for x in xs)


def kernel_training(
    operand: Array, scale: Array, offset: Array, *, epsilon: float, feature_index: int, out: Any
) -> tuple[Array, ...]:
    """Mean = E[x]; var = E[(x - mean)^2]; y = scale (x - mean) / sqrt(var + epsilon) + offset."""
    f = _Features(operand, feature_index)
    x = f.wide(operand)
    mean = f.mean(x)
    centred = x - f.along(mean)
    variance = f.mean(centred * centred)
    factor = f.wide(scale) / np.sqrt(variance + variance.dtype.type(epsilon))
    centred *= f.along(factor)
    centred += f.along(offset)
    return f.narrow(centred, mean, variance)


def kernel_inference(
    operand: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, epsilon: float,
    feature_index: int, out: Any,
) -> Array:  # fmt: skip
    """Y = scale (x - mean) / sqrt(variance + epsilon) + offset."""
    f = _Features(operand, feature_index)
    spread = f.wide(variance)
    factor = f.wide(scale) / np.sqrt(spread + spread.dtype.type(epsilon))
    centred = f.wide(operand) - f.along(mean)
    return f.narrow(centred * f.along(factor) + f.along(offset))[0]


def kernel_grad(
    operand: Array, scale: Array, mean: Array, variance: Array, grad_output: Array, *,
    epsilon: float, feature_index: int, out: Any,
) -> tuple[Array, ...]:  # fmt: skip
    """With s = variance + epsilon and means over all but the features.

    c = E[g (x - mean)] / s; d = E[g]; grad_operand = scale / sqrt(s) (g - d - c (x - mean));
    grad_scale = sum(g (x - mean)) / sqrt(s); grad_offset = sum(g).
    """
    f = _Features(operand, feature_index)
    g, spread = f.wide(grad_output), f.wide(variance)
    spread = spread + spread.dtype.type(epsilon)
    root = np.sqrt(spread)
    centred = f.wide(operand) - f.along(mean)
    grad_offset, product = f.sum(g), f.sum(g * centred)
    count = g.dtype.type(f.count)
    centred *= f.along(product / (count * spread))
    result = g - f.along(grad_offset / count)
    result -= centred
    result *= f.along(f.wide(scale) / root)
    return f.narrow(result, product / root, grad_offset)


# --- compositions: for derivatives ----------------------------------------------------------------


def _call(name: str, *xs: Any) -> Any:
    return bind(lookup(name), *xs)


def _along(v: Any, x: Any, feature_index: int) -> Any:
    return bind(
        lookup("broadcast_in_dim"), v, shape=x.spec.shape, broadcast_dimensions=(feature_index,)
    )


def _in_wide(function: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """Floats narrower than 32 bits in f32."""

    def composed(*xs: Any, **params: Any) -> list[Any]:
        dtype = xs[0].spec.dtype
        wide = _F32 if dtype.bits < 32 else dtype
        found = function(*[converted(x, wide) for x in xs], **params)
        return [converted(y, dtype) for y in found]

    return composed


def _root(variance: Any, epsilon: float) -> Any:
    return _call("sqrt", _call("add", variance, constant_like(variance, epsilon)))


@_in_wide
def compose_training(
    x: Any, scale: Any, offset: Any, *, epsilon: float, feature_index: int
) -> list[Any]:
    """The formulas of batch_norm_training, with the variance as the mean of squared deviations.

    XLA takes the mean of the squares less the square of the mean, which leaves nothing of a variance that is small
    beside it.
    """
    others = tuple(d for d in range(x.spec.rank) if d != feature_index)
    total = reduce_sum(x, others)
    count = constant_like(total, _count(x, feature_index))
    mean = _call("div", total, count)
    centred = _call("sub", x, _along(mean, x, feature_index))
    variance = _call("div", reduce_sum(_call("mul", centred, centred), others), count)
    factor = _call("div", scale, _root(variance, epsilon))
    scaled = _call("mul", centred, _along(factor, x, feature_index))
    return [_call("add", scaled, _along(offset, x, feature_index)), mean, variance]


@_in_wide
def compose_inference(
    x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *, epsilon: float, feature_index: int
) -> list[Any]:
    """The formula of batch_norm_inference."""
    factor = _call("div", scale, _root(variance, epsilon))
    centred = _call("sub", x, _along(mean, x, feature_index))
    scaled = _call("mul", centred, _along(factor, x, feature_index))
    return [_call("add", scaled, _along(offset, x, feature_index))]


@_in_wide
def compose_grad(
    x: Any, scale: Any, mean: Any, variance: Any, g: Any, *, epsilon: float, feature_index: int
) -> list[Any]:
    """The formulas of batch_norm_grad."""
    others = tuple(d for d in range(x.spec.rank) if d != feature_index)
    count = _count(x, feature_index)
    root = _root(variance, epsilon)
    centred = _call("sub", x, _along(mean, x, feature_index))
    total = reduce_sum(g, others)
    product = reduce_sum(_call("mul", g, centred), others)
    grad_scale = _call("div", product, root)
    d = _call("div", total, constant_like(total, count))
    c = _call("div", _call("div", grad_scale, root), constant_like(total, count))
    rest = _call("sub", g, _along(d, x, feature_index))
    rest = _call("sub", rest, _call("mul", centred, _along(c, x, feature_index)))
    factor = _call("div", scale, root)
    return [_call("mul", rest, _along(factor, x, feature_index)), grad_scale, total]


def _count(x: Any, feature_index: int) -> float:
    """How many elements each feature has."""
    shape = x.spec.shape
    return float(math.prod(n for d, n in enumerate(shape) if d != feature_index))


@final
class ByComposition:
    """The derivative of the composition of other operations that the operation stands for."""

    kind: Final = "rules"
    __slots__ = ("composition",)

    def __init__(self, composition: Callable[..., Sequence[Any]]) -> None:
        self.composition = composition

    def jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any],
        params: Any,
    ) -> Sequence[Any]:  # fmt: skip
        """The tangents of its results."""
        forward = trace(
            lambda *xs: self.composition(*xs, **params), [x.spec for x in operands], name=op.name
        ).computation
        dual, active = jvp_computation(forward, [t is not None for t in tangents])
        given = [t for t in tangents if t is not None]
        found = iter(inline(eliminate_dead(dual), [*operands, *given])[len(outs) :])
        return [next(found) if a else None for a in active]

    def vjp(
        self, op: Op, operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any],
        params: Any, needed: Sequence[bool],
    ) -> Sequence[Any]:  # fmt: skip
        """The way back through it."""
        return vjp_of(lambda *xs: self.composition(*xs, **params), operands, cotangents, needed)


# --- the derivative of training -------------------------------------------------------------------


def _sum_of(terms: Sequence[Any]) -> Any:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else _call("add", total, term)
    return total


def jvp_training(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """By batch_norm_grad: the map from the operand's tangent to the output's is symmetric."""
    x, scale, _ = operands
    dx, dscale, doffset = tangents
    _, mean, variance = outs
    axis = params["feature_index"]
    dmean = dvariance = through = None
    if dx is not None:
        through, dots, sums = bind(batch_norm_grad_op, x, scale, mean, variance, dx, **params)
        count = _count(x, axis)
        dmean = _call("mul", sums, constant_like(sums, 1 / count if count else math.nan))
        root = _root(variance, params["epsilon"])
        twice = constant_like(dots, 2 / count if count else math.nan)
        dvariance = _call("mul", _call("mul", dots, root), twice)
    linear = None
    if dscale is not None or doffset is not None:
        ds = zeros_like(scale) if dscale is None else dscale
        do = zeros_like(scale) if doffset is None else doffset
        linear = bind(batch_norm_inference_op, x, ds, do, mean, variance, **params)
    return [_sum_of([through, linear]), dmean, dvariance]


def vjp_training(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """batch_norm_grad; and what goes through the mean and the variance as results of their own."""
    x, scale, _ = operands
    g, gmean, gvariance = cotangents
    _, mean, variance = outs
    axis = params["feature_index"]
    count = _count(x, axis)
    gx = gscale = goffset = None
    if g is not None:
        gx, gscale, goffset = bind(batch_norm_grad_op, x, scale, mean, variance, g, **params)
    through_mean = through_variance = None
    if gmean is not None:
        share = _call("mul", gmean, constant_like(gmean, 1 / count if count else math.nan))
        through_mean = _along(share, x, axis)
    if gvariance is not None:
        share = _call("mul", gvariance, constant_like(gvariance, 2 / count if count else math.nan))
        centred = _call("sub", x, _along(mean, x, axis))
        through_variance = _call("mul", centred, _along(share, x, axis))
    return [_sum_of([gx, through_mean, through_variance]), gscale, goffset]


# --- batching -------------------------------------------------------------------------------------


def batch_normalization(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """Every row has features of its own: the new dimension becomes part of that of the features."""
    full = [a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)]
    axis = params["feature_index"]
    shape = full[0].spec.shape[1:]
    features = shape[axis]
    merged = (*shape[:axis], size * features, *shape[axis + 1 :])
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1))
    back = (axis, *range(axis), *range(axis + 1, len(shape) + 1))
    parts = (*shape[:axis], size, *shape[axis:])
    reshape, transpose = lookup("reshape"), lookup("transpose")

    def joined(x: Any) -> Any:
        if x.spec.rank == 2 and len(shape) != 1:
            return bind(reshape, x, shape=(size * features,))
        if axis:
            x = bind(transpose, x, permutation=order)
        return bind(reshape, x, shape=merged)

    def apart(y: Any) -> Any:
        if y.spec.rank == 1 and len(shape) != 1:
            return bind(reshape, y, shape=(size, features))
        y = bind(reshape, y, shape=parts)
        return bind(transpose, y, permutation=back) if axis else y

    outs = bind(op, *[joined(x) for x in full], **params)
    return tuple(apart(y) for y in outs) if type(outs) is tuple else apart(outs)


# --- records --------------------------------------------------------------------------------------

batch_norm_training_op = register(Op(
    name="batch_norm_training",
    section="BatchNormTraining",
    infer=infer_training,
    hlo=Hlo(
        "stablehlo.batch_norm_training", _CODECS,
        decomposition=lambda *xs, **params: tuple(compose_training(*xs, **params)),
    ),
    kernel=kernel_training,
    ad=Rules(jvp_training, vjp_training),
    batch=batch_normalization,
))  # fmt: skip

batch_norm_inference_op = register(Op(
    name="batch_norm_inference",
    section="BatchNormInference",
    infer=infer_inference,
    hlo=Hlo("stablehlo.batch_norm_inference", _CODECS),
    kernel=kernel_inference,
    ad=ByComposition(compose_inference),
    batch=batch_normalization,
))  # fmt: skip

batch_norm_grad_op = register(Op(
    name="batch_norm_grad",
    section="BatchNormGrad",
    infer=infer_grad,
    hlo=Hlo(
        "stablehlo.batch_norm_grad", _CODECS,
        decomposition=lambda *xs, **params: tuple(compose_grad(*xs, **params)),
    ),
    kernel=kernel_grad,
    ad=ByComposition(compose_grad),
    batch=batch_normalization,
))  # fmt: skip


def _params(x: Tensor, epsilon: Any, feature_index: Any) -> dict[str, Any]:
    require_array(x.spec, "I1", "operand")
    try:
        number = float(np.float32(epsilon))
    except (TypeError, ValueError, OverflowError):
        raise DTypeError(f"epsilon must be a number; got {shown(epsilon)} [X1]") from None
    return {"epsilon": number, "feature_index": as_axis(feature_index, x.spec.rank, "C1")}


def batch_norm_training(
    operand: Any, scale: Any, offset: Any, epsilon: float, feature_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Each feature brought to mean 0 and variance 1, then scaled and shifted.

    Parameters
    ----------
    operand : array of floats
    scale, offset : arrays with a number for each feature
    epsilon : float
        Added to the variance; rounded to f32.
    feature_index : int
        The dimension of the features; the mean and the variance are taken over all others.

    Returns
    -------
    output : Tensor
        Of the operand's shape.
    batch_mean, batch_var : Tensor
        With a number for each feature.

    Raises
    ------
    ConstraintError, DTypeError, ShapeError
        [C1] to [C4] If there is no such dimension, or types or sizes differ.

    Notes
    -----
    Section BatchNormTraining of the operation semantics. The variance is that of the population: the sum of squares is
    divided by the number of elements. Its derivative is `batch_norm_grad`.

    Examples
    --------
    >>> from xlapy import ops
    >>> y, mean, var = ops.batch_norm_training([[1.0, 5.0], [3.0, 9.0]], [1.0, 1.0], [0.0, 0.0], 0.0, 1)
    >>> y, mean, var
    (Tensor([[-1., -1.],
            [ 1.,  1.]], f32[2,2]), Tensor([2., 7.], f32[2]), Tensor([1., 4.], f32[2]))
    """
    x = lift(operand)
    params = _params(x, epsilon, feature_index)
    found: tuple[Tensor, Tensor, Tensor] = bind(
        batch_norm_training_op, x, lift(scale, (x,)), lift(offset, (x,)), **params
    )
    return found


def batch_norm_inference(
    operand: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    epsilon: float,
    feature_index: int,
) -> Tensor:
    """Each feature normalised by a given mean and variance.

    Parameters
    ----------
    operand : array of floats
    scale, offset, mean, variance : arrays with a number for each feature
    epsilon : float
        Added to the variance; rounded to f32.
    feature_index : int
        The dimension of the features.

    Returns
    -------
    Tensor
        Of the operand's shape.

    Notes
    -----
    Section BatchNormInference of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.batch_norm_inference([[1.0, 5.0]], [1.0, 1.0], [0.0, 0.5], [2.0, 7.0], [1.0, 4.0], 0.0, 1)
    Tensor([[-1. , -0.5]], f32[1,2])
    """
    x = lift(operand)
    params = _params(x, epsilon, feature_index)
    vectors = [lift(v, (x,)) for v in (scale, offset, mean, variance)]
    result: Tensor = bind(batch_norm_inference_op, x, *vectors, **params)
    return result


def batch_norm_grad(
    operand: Any, scale: Any, batch_mean: Any, batch_var: Any, grad_output: Any, epsilon: float,
    feature_index: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of `batch_norm_training` with respect to its operands.

    Parameters
    ----------
    operand, scale, epsilon, feature_index
        As of `batch_norm_training`.
    batch_mean, batch_var : arrays with a number for each feature
        Its other two results.
    grad_output : array
        The cotangent of its output.

    Returns
    -------
    grad_operand, grad_scale, grad_offset : Tensor

    Raises
    ------
    ConstraintError, DTypeError, ShapeError
        [C1] to [C5] If there is no such dimension, or types or sizes differ.

    Notes
    -----
    Section BatchNormGrad of the operation semantics. It has a derivative itself, with respect to all its operands.

    Examples
    --------
    >>> from xlapy import ops
    >>> x, g = ops.constant([[1.0], [3.0]]), ops.constant([[1.0], [0.0]])
    >>> ops.batch_norm_grad(x, [2.0], [2.0], [1.0], g, 0.0, 1)[1:]
    (Tensor([-1.], f32[1]), Tensor([1.], f32[1]))
    """
    x = lift(operand)
    params = _params(x, epsilon, feature_index)
    rest = [lift(v, (x,)) for v in (scale, batch_mean, batch_var, grad_output)]
    found: tuple[Tensor, Tensor, Tensor] = bind(batch_norm_grad_op, x, *rest, **params)
    return found
