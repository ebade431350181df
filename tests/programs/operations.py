"""Programs around the single operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlapy
from programs import BF16, F16, ILL_CONDITIONED, SUMS, Array, Program, normal, whole
from programs.models import max_pool
from xlapy import ops
from xlapy.ops import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
)

# --- linear algebra and transforms --------------------------------------------------------------------------------


def positive(n: int) -> Array:
    """A positive definite matrix."""
    a = normal(n, n, seed=3)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


def solve(a: Any, b: Any) -> Any:
    """By Cholesky."""
    lower = ops.cholesky(a)
    return ops.triangular_solve(lower, ops.triangular_solve(lower, b), transpose_a="ADJOINT")


def factored(a: Any) -> Any:
    """By functions of a library; what is above the diagonal they leave as it is."""
    columns = [(0, 1)]
    lower, info = ops.custom_call(
        "lapack_spotrf_ffi", [a], ["f32[4,4]", "s32[]"], backend_config={"uplo": np.uint8(ord("L"))},
        operand_layouts=columns, result_layouts=[*columns, ()],
    )  # fmt: skip
    return xlapy.tril(lower), info


def spectrum(x: Any) -> Any:
    """A filter in the frequency domain."""
    f = ops.fft(x, "RFFT", 16)
    return ops.fft(ops.mul(f, f), "IRFFT", 16), ops.fft(f, "FFT", 9)


LINEAR = {
    "cholesky_solve": Program(solve, [positive(5), normal(5, 2)]),
    "cholesky_solve_gradient": Program(
        xlapy.grad(lambda a, b: xlapy.sum(solve(a, b) ** 2)), [positive(5), normal(5, 2)]
    ),
    "cholesky_complex": Program(
        lambda a: ops.cholesky(ops.complex(a, ops.sub(a, ops.transpose(a, (1, 0))))), [positive(4)]
    ),
    "triangular_solve_right_upper": Program(
        lambda a, b: ops.triangular_solve(a, b, left_side=False, lower=False, unit_diagonal=True),
        [normal(3, 4, 4) / 3, normal(3, 2, 4)],
    ),
    "lapack": Program(factored, [positive(4)]),
    "fft": Program(spectrum, [normal(3, 16)]),
    "fft_complex_3d": Program(
        lambda x: ops.fft(ops.fft(ops.complex(x, x), "FFT", (2, 3, 4)), "IFFT", (4,)), [normal(2, 3, 4)]
    ),
    "complex": Program(
        lambda x, y: (
            ops.exp(ops.mul(ops.complex(x, y), 1j)), ops.sqrt(ops.complex(x, y)), ops.abs(ops.complex(x, y)),
            ops.log(ops.complex(x, y)), ops.complex(x, y) @ ops.complex(y, x), ops.tanh(ops.complex(x, y)),
        ),
        [normal(4, 4), normal(4, 4, seed=1)],
    ),
}  # fmt: skip


# --- order --------------------------------------------------------------------------------------------------------


def by_two_keys(a: Any, b: Any, c: Any) -> Any:
    """Descending in the first key, then ascending in the second."""

    def before(x: Any, y: Any, s: Any, t: Any, p: Any, q: Any) -> Any:
        return ops.or_(ops.gt(x, y), ops.and_(ops.eq(x, y), ops.lt(s, t)))

    return ops.sort((a, b, c), 1, before)


def random(k: Any) -> Any:
    """Draws of many kinds."""
    a, b, c = (xlapy.random.split(k, 3)[i] for i in range(3))
    return (
        xlapy.random.normal(a, (5,)), xlapy.random.uniform(b, (3, 2)), xlapy.random.randint(c, (7,), 0, 100),
        xlapy.random.permutation(a, 6), xlapy.random.bits(xlapy.random.fold_in(b, 7), (4,)),
    )  # fmt: skip


ORDER = {
    "sort_two_keys": Program(
        by_two_keys, [whole(3, 8, high=3), normal(3, 8), whole(3, 8, seed=4)], 0.0
    ),
    "sort_along_first": Program(lambda x: ops.sort(x, 0), [normal(9, 3)], 0.0),
    "sort_f16": Program(lambda x: ops.sort(x), [normal(3, 20, dtype=np.float16)], 0.0),
    "argsort": Program(lambda x: xlapy.argsort(x, axis=-1), [whole(3, 9, high=4)], 0.0),
    "top_k": Program(lambda x: ops.top_k(x, 3), [normal(4, 10)], 0.0),
    "top_k_smallest": Program(lambda x: ops.top_k(x, 3, largest=False), [whole(4, 10)], 0.0),
    "top_k_bf16": Program(lambda x: ops.top_k(ops.convert(x, "bf16"), 4), [normal(4, 30)], 0.0),
    "top_k_gradient": Program(
        xlapy.grad(lambda x: xlapy.sum(ops.top_k(x, 3)[0] ** 2)), [normal(4, 10)]
    ),
    "argmax": Program(
        lambda x: (ops.argmax(x, "s32", 1), ops.argmin(x, "s64", 0), ops.reduce_max(x, [0, 1])),
        [whole(5, 7, low=-3, high=3).astype(np.float32)], 0.0,
    ),
    "random": Program(random, [np.array([3, 5], np.uint32)]),
    "threefry": Program(
        lambda s: ops.rng_bit_generator("THREE_FRY", s, (5, 3)), [np.array([7, 9], np.uint64)], 0.0
    ),
    "philox": Program(
        lambda s: ops.rng_bit_generator("PHILOX", s, (7,), "u64"), [np.array([7, 9, 2**63], np.uint64)], 0.0
    ),
    "unique_like": Program(
        lambda x: xlapy.searchsorted(ops.sort(x), xlapy.asarray([2, 5, 7])), [whole(9)], 0.0
    ),
}  # fmt: skip


# --- places -------------------------------------------------------------------------------------------------------

ROWS = GatherDimensionNumbers((1,), (0,), (0,), 1)
EACH = ScatterDimensionNumbers((1,), (0,), (0,), 1)


def moving(x: Any, i: Any) -> Any:
    """Slices at places that are computed."""
    part = ops.dynamic_slice(x, (i, ops.mul(i, 2)), (2, 3))
    return ops.dynamic_update_slice(x, ops.mul(part, part), (ops.add(i, 1), i)), part


PLACES = {
    "gather": Program(
        lambda x, i: ops.gather(x, i, ROWS, [1, 4]), [normal(6, 4), whole(5, low=-2, high=9)], 0.0
    ),
    "gather_windows": Program(
        lambda x, i: ops.gather(x, i, GatherDimensionNumbers((1, 2), (), (0, 1), 1), [2, 3]),
        [normal(6, 5), whole(4, 2, high=6)], 0.0,
    ),
    "gather_gradient": Program(
        xlapy.grad(lambda x, i: xlapy.sum(ops.gather(x, i, ROWS, [1, 4]) ** 2)),
        [normal(6, 4), whole(5, high=6)],
    ),
    "scatter_add": Program(
        lambda x, i, u: ops.scatter(x, i, u, ops.add, EACH), [normal(6, 4), whole(5, high=7), normal(5, 4)]
    ),
    "scatter_replace": Program(
        lambda x, i, u: ops.scatter(x, i, u, lambda old, new: new, EACH),
        [normal(6, 4), whole(5, high=7), normal(5, 4)], 0.0,
    ),
    "scatter_several": Program(
        lambda x, i, u: ops.scatter(
            [x, ops.convert(x, "s32")], i, [u, ops.convert(ops.mul(u, 5.0), "s32")],
            lambda a, n, b, m: (ops.max(a, b), ops.add(n, m)), EACH,
        ),
        [normal(6, 4), whole(5, high=7), normal(5, 4)], 0.0,
    ),
    "dynamic_slices": Program(moving, [normal(6, 8), np.int32(2)]),
    "indexing": Program(
        lambda x, i: (x[i, 1:], x[::-1, i], x.at[i].add(1.0), x[xlapy.arange(3), xlapy.arange(3)]),
        [normal(5, 6), np.int32(3)],
    ),
    "pad_concatenate": Program(
        lambda x: ops.concatenate(
            [ops.pad(x, 1.5, [(1, 0, 2), (0, -1, 0)]), ops.rev(ops.pad(x, 0.0, [(0, 1, 2), (-1, 0, 0)]), [0])], 1
        ),
        [normal(3, 4)], 0.0,
    ),
}  # fmt: skip


# --- windows and sums ---------------------------------------------------------------------------------------------


def pool(x: Any) -> Any:
    """The mean of windows that reach over the edge."""
    return ops.reduce_window(x, 0.0, ops.add, (1, 3, 3, 1), (1, 2, 2, 1), "kSame") / 9.0


def normalized(x: Any, scale: Any, offset: Any) -> Any:
    """With a cotangent that is not constant."""
    y, mean, var = ops.batch_norm_training(x, scale, offset, 1e-3, 1)
    return xlapy.sum(ops.sin(y)) + xlapy.sum(mean * var)


IMAGES = [normal(3, 4, 5), normal(4, seed=1), normal(4, seed=2)]

WINDOWS = {
    "batch_norm_training": Program(lambda *a: ops.batch_norm_training(*a, 1e-3, 1), IMAGES),
    "batch_norm_inference": Program(
        lambda *a: ops.batch_norm_inference(*a, 1e-3, 1), [*IMAGES, normal(4), normal(4) ** 2]
    ),
    "batch_norm_gradient": Program(xlapy.grad(normalized), IMAGES),
    "batch_norm_grad": Program(
        lambda x, s, m, v, g: ops.batch_norm_grad(x, s, m, v, g, 1e-3, 1),
        [IMAGES[0], IMAGES[1], normal(4), normal(4) ** 2, normal(3, 4, 5, seed=7)],
    ),
    "mean_pool_gradient": Program(xlapy.value_and_grad(lambda x: xlapy.sum(pool(x) ** 3)), [normal(2, 7, 7, 3)]),
    "max_pool_gradient": Program(
        xlapy.grad(lambda x: xlapy.sum(max_pool(x) ** 2)), [whole(2, 6, 6, 3, high=4).astype(np.float32)]
    ),
    "select_and_scatter": Program(
        lambda x, s: ops.select_and_scatter(x, ops.ge, (3, 3), (2, 2), [(0, 1), (0, 1)], s, 0.5, ops.add),
        [normal(6, 6), normal(3, 3)],
    ),
    "cumulative": Program(
        lambda x: (
            ops.reduce_window(x, 0.0, ops.add, (1, 9), (1, 1), [(0, 0), (8, 0)]),
            ops.reduce_window(x, -np.inf, ops.max, (1, 9), (1, 1), [(0, 0), (0, 8)]), xlapy.cumulative_sum(x, axis=0),
        ),
        [normal(4, 9)],
    ),
    "reduce_window_dilated": Program(
        lambda x: ops.reduce_window(x, 1.0, ops.mul, (2, 2), (1, 2), [(1, 1), (0, 1)], (2, 1), (1, 3)), [normal(4, 9)]
    ),
    "reduce_variadic": Program(
        lambda x, i: ops.reduce(
            [x, i], [0.0, 1], lambda a, n, b, m: (ops.add(a, b), ops.mul(n, ops.max(m, 1))), [1]
        ),
        [normal(4, 5), whole(4, 5, high=4)],
    ),
    "reduce_large": Program(
        lambda x: (ops.reduce_sum(x, [0]), ops.reduce_sum(x, [1]), ops.reduce_sum(x), ops.reduce_prod(x / 2, [1])),
        [normal(33, 65)],
    ),
}  # fmt: skip


# --- products -----------------------------------------------------------------------------------------------------


def convolution(numbers: str, strides: Sequence[int], padding: Any, **rest: Any) -> Any:
    """A function of lhs and rhs."""
    return lambda x, k: ops.conv_general_dilated(
        x, k, strides, padding, dimension_numbers=numbers, **rest
    )


NHWC = "b01f_01io->b01f"


def experts(x: Any, w: Any, sizes: Any) -> Any:
    """Rows with the weights of their groups."""
    numbers = RaggedDotDimensionNumbers(
        [1], [1], lhs_ragged_dimensions=[0], rhs_group_dimensions=[0]
    )
    return ops.ragged_dot(x, w, sizes, numbers)


def in_type(dtype: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """On arguments of another type."""
    return lambda *xs: function(*[ops.convert(x, dtype) for x in xs])


def mixed(x: Any, w: Any) -> Any:
    """Quantised by hand: int8 products, f16 scales, bf16 sums."""
    q = ops.convert(ops.clamp(-127.0, ops.round_nearest_even(ops.mul(x, 20.0)), 127.0), "s8")
    products = ops.dot_general(q, w, DotDimensionNumbers([1], [0]), preferred_element_type="s32")
    half = ops.convert(products, "f16")
    return products, half, ops.add(ops.convert(half, "bf16"), ops.convert(products, "bf16"))


PRODUCTS = {
    "dot": Program(lambda x, y: x @ y, [normal(33, 17), normal(17, 65)]),
    "dot_vector": Program(lambda x, y: (x @ y, y @ y), [normal(5, 17), normal(17)]),
    "dot_batch": Program(
        lambda x, y: ops.dot_general(x, y, DotDimensionNumbers([3], [1], [0, 2], [2, 0])),
        [normal(2, 3, 4, 5), normal(4, 5, 2, 3)],
    ),
    "dot_transposed": Program(
        lambda x, y: ops.dot_general(x, y, DotDimensionNumbers([0], [1])), [normal(17, 6), normal(9, 17)]
    ),
    "einsum": Program(lambda x, y: xlapy.einsum("bij,bjk->kbi", x, y), [normal(3, 4, 5), normal(3, 5, 2)]),
    "dot_f16": Program(in_type("f16", lambda x, y: x @ y), [normal(9, 8), normal(8, 7)], F16),
    "dot_bf16": Program(in_type("bf16", lambda x, y: x @ y), [normal(9, 8), normal(8, 7)], BF16),
    "dot_bf16_f32": Program(
        in_type("bf16", lambda x, y: ops.dot_general(
            x, y, DotDimensionNumbers([1], [0]), preferred_element_type="f32")),
        [normal(9, 8), normal(8, 7)],
    ),
    "dot_f64": Program(lambda x, y: x @ y, [normal(5, 8, dtype=np.float64), normal(8, 3, dtype=np.float64)], 1e-13),
    "dot_s32": Program(lambda x, y: x @ y, [whole(5, 8), whole(8, 3)], 0.0),
    "bf16_layer": Program(
        in_type("bf16", lambda x, y: xlapy.softmax(xlapy.relu(x @ y) * 0.5)), [normal(9, 8), normal(8, 7)], BF16
    ),
    "mixed_types": Program(mixed, [normal(4, 6), whole(6, 5, low=-9, dtype=np.int8)], BF16),
    "ragged_dot": Program(experts, [normal(7, 4), normal(3, 4, 5), np.array([2, 0, 4], np.int32)]),
    "scaled_dot": Program(
        lambda x, s, y, t: ops.scaled_dot(
            ops.convert(x, "f8e4m3fn"), ops.convert(s, "f8e8m0fnu"), ops.convert(y, "f8e4m3fn"),
            ops.convert(t, "f8e8m0fnu"), DotDimensionNumbers([1], [1]), preferred_element_type="f32"),
        [normal(3, 8), np.exp2(whole(3, 2)).astype(np.float32), normal(2, 8), np.exp2(whole(2, 2)).astype(np.float32)],
        SUMS,
    ),
    "conv_1d": Program(convolution("bf0_oi0->bf0", [2], [(1, 2)]), [normal(2, 3, 9), normal(4, 3, 3)]),
    "conv_2d": Program(convolution(NHWC, [1, 1], "SAME"), [normal(2, 6, 7, 3), normal(3, 3, 3, 4)]),
    "conv_2d_nchw": Program(convolution("bf01_oi01->bf01", [2, 1], "VALID"), [normal(2, 3, 6, 7), normal(4, 3, 2, 3)]),
    "conv_3d": Program(
        convolution("b012f_012io->b012f", [1, 2, 1], "SAME"), [normal(1, 4, 5, 4, 2), normal(2, 3, 2, 2, 3)]
    ),
    "conv_grouped": Program(
        convolution(NHWC, [1, 1], "SAME", feature_group_count=2), [normal(2, 5, 5, 4), normal(3, 3, 2, 6)]
    ),
    "conv_depthwise": Program(
        convolution(NHWC, [1, 1], "SAME", feature_group_count=4), [normal(2, 5, 5, 4), normal(3, 3, 1, 4)]
    ),
    "conv_batch_grouped": Program(
        convolution(NHWC, [1, 1], "SAME", batch_group_count=2), [normal(4, 5, 5, 3), normal(3, 3, 3, 4)]
    ),
    "conv_dilated": Program(
        convolution(NHWC, [1, 1], [(1, 1), (2, 0)], lhs_dilation=[2, 1], rhs_dilation=[1, 2]),
        [normal(1, 5, 6, 2), normal(3, 2, 2, 3)],
    ),
    "conv_reversed": Program(
        convolution(NHWC, [1, 1], "VALID", window_reversal=[True, False]), [normal(1, 5, 6, 2), normal(3, 2, 2, 3)]
    ),
    "conv_f16": Program(
        in_type("f16", convolution(NHWC, [1, 1], "SAME")), [normal(1, 5, 6, 2), normal(3, 3, 2, 3)], F16
    ),
    "conv_bf16": Program(
        in_type("bf16", convolution(NHWC, [1, 1], "SAME")), [normal(1, 5, 6, 2), normal(3, 3, 2, 3)], BF16
    ),
    "conv_s32": Program(convolution(NHWC, [1, 1], "SAME"), [whole(1, 5, 6, 2), whole(3, 3, 2, 3)], 0.0),
    "conv_gradient": Program(
        xlapy.grad(lambda k, x: xlapy.sum(convolution(NHWC, [2, 1], "SAME")(x, k) ** 2)),
        [normal(3, 3, 2, 3), normal(2, 5, 6, 2)],
    ),
}  # fmt: skip


# --- control and the rest -----------------------------------------------------------------------------------------


def branches(i: Any, x: Any) -> Any:
    """One of three, and one of two."""
    y = ops.conditional(i, [ops.sin, lambda v: ops.exp(ops.mul(v, v)), ops.cos], [x, x, x])
    return xlapy.cond(xlapy.sum(y) > 0.0, lambda a: a @ a, lambda a: a - 1.0, y)


def sized(x: Any, n: Any) -> Any:
    """Sums of as many elements as is computed."""
    some = ops.set_dimension_size(x, n, 0)
    return (
        ops.reduce_sum(some, [0]),
        ops.get_dimension_size(some, 0),
        ops.reduce_sum(ops.mul(some, some), [0, 1]),
    )


def turned(x: Any) -> Any:
    """Transposes and reshapes that XLA makes bitcasts of."""
    flat = xlapy.reshape(xlapy.permute_dims(x, (2, 0, 1)), (4, 6))
    return xlapy.permute_dims(flat, (1, 0)) @ xlapy.matrix_transpose(x[:, 1])


def bits(x: Any) -> Any:
    """Numbers as their bits, of several widths."""
    words = ops.bitcast_convert_type(x, "u32")
    bytes_ = ops.bitcast_convert_type(x, "u8")
    return (
        ops.population_count(words), ops.clz(words), ops.bitcast_convert_type(bytes_, "f32"),
        ops.shift_right_logical(words, ops.constant(np.uint32(5))), ops.convert(words, "f32"),
        ops.reduce_precision(x, 5, 7), ops.convert(ops.mul(x, 40.0), "s4"), ops.convert(x, "f8e4m3fn"),
    )  # fmt: skip


def elementary(x: Any) -> Any:
    """The functions of one number."""
    u = ops.mul(ops.logistic(x), 0.9)
    return (
        ops.tan(x), ops.cbrt(x), ops.expm1(x), ops.log1p(ops.abs(x)), ops.atan2(x, u), ops.erf(x), ops.erf_inv(u),
        ops.lgamma(ops.add(u, 1.0)), ops.digamma(ops.add(u, 1.0)), ops.pow(u, x), ops.sinh(x), ops.asinh(x),
        ops.acos(u), ops.atanh(u), ops.rem(ops.mul(x, 7.0), u), ops.round_nearest_afz(ops.mul(x, 4.0)),
        ops.sign(x), ops.ceil(x), ops.is_finite(ops.log(x)), ops.rsqrt(u), ops.cosh(x), ops.square(x),
    )  # fmt: skip


CONTROL = {
    "branches": Program(branches, [np.int32(1), normal(4, 4)]),
    "vmapped_branches": Program(
        xlapy.vmap(branches), [np.array([0, 2, 7, -1], np.int32), normal(4, 3, 3)]
    ),
    "nested_loops": Program(
        lambda x: xlapy.fori_loop(0, 3, lambda i, y: xlapy.fori_loop(0, i, lambda j, z: ops.sin(z + x[j]), y), x),
        [normal(4)],
    ),
    "loop_gradient": Program(
        xlapy.grad(lambda x: xlapy.sum(xlapy.while_loop(lambda y: xlapy.sum(y) < 50.0, lambda y: y * y + x, x))),
        [np.abs(normal(4)) + 1],
    ),
    "dynamic_size": Program(sized, [normal(6, 3), np.int32(4)]),
    "bits": Program(bits, [normal(3, 4)], 0.0),
    "elementary": Program(elementary, [normal(3, 4)], ILL_CONDITIONED),
    "map": Program(
        lambda x, y: ops.map([x, y], lambda a, b: ops.add(ops.mul(a, b), 1.0), [0, 1]), [normal(3, 4), normal(3, 4)]
    ),
    "calls": Program(
        lambda x: ops.call(lambda a: ops.sin(a), ops.composite_call(ops.cos, x, name="some.cosine")), [normal(3, 4)]
    ),
    "layouts": Program(turned, [normal(2, 3, 4)]),
    "empty": Program(lambda x, y: (x @ y, ops.reduce_sum(x, [0]), ops.sort(x)), [normal(0, 3), normal(3, 2)], 0.0),
    "constants": Program(
        lambda x: x + xlapy.asarray(np.array([np.inf, -0.0, 1e-3], np.float32)) * xlapy.arange(3), [normal(3)], 0.0
    ),
    "integers": Program(
        lambda x, y: (
            ops.div(x, y), ops.rem(x, y), ops.shift_left(x, y), ops.pow(x, ops.and_(y, 3)), ops.xor(x, y),
            ops.not_(x), ops.convert(x, "s16"), ops.convert(x, "u64"), ops.abs(x), ops.sign(x),
        ),
        [whole(9, low=-50, high=50), whole(9, low=-5, high=20, seed=3)], 0.0,
    ),
    "barrier": Program(
        lambda x: ops.mul(*ops.optimization_barrier([ops.sin(x), ops.cos(x)])), [normal(5)]
    ),
}  # fmt: skip

OPERATIONS: dict[str, Program] = {
    **LINEAR, **ORDER, **PLACES, **WINDOWS, **PRODUCTS, **CONTROL,
}  # fmt: skip
