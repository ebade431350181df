"""Arrays whose sizes are computed: the interpreter and XLA agree, inside programs that take and give static ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy.errors import ShapeError, UnsupportedOpError, XlapyError
from xlapy.trace.builder import XlaBuilder, trace
from xlapy.trace.verify import verify

X = np.arange(24, dtype=np.float32).reshape(8, 3) + 1


def cut(x: Any, n: Any) -> Any:
    """The first n rows."""
    return ops.set_dimension_size(x, n, 0)


def shown(y: Any) -> list[Any]:
    """The sizes that an array has, and its elements with zeros behind."""
    spec = y.spec
    sizes = [ops.get_dimension_size(y, d) for d in range(spec.rank)]
    full = y
    for d in spec.dynamic:
        full = ops.set_dimension_size(full, spec.shape[d], d)
    assert full.spec.is_static
    held = None
    for d in spec.dynamic:
        count = ops.iota("s32", spec.shape, d)
        inside = ops.lt(count, ops.broadcast_in_dim(sizes[d], spec.shape, ()))
        held = inside if held is None else ops.and_(held, inside)
    if held is not None:
        zeros = ops.broadcast(ops.constant(np.zeros((), spec.dtype.numpy)), spec.shape)
        full = ops.select(held, full, zeros)
    return [full, *sizes]


def itself(comparison: Any, y: Any) -> Any:
    """A comparison of one array, of which XLA makes a constant."""
    return comparison(y, y)


def row_of(n: Any, *rest: int) -> Any:
    """[n, *rest] as an array."""
    first = ops.reshape(n, (1,))
    return ops.concat_in_dim([first, ops.constant(np.array(rest, np.int32))], 0) if rest else first


ROWS = ops.GatherDimensionNumbers((1,), (0,), (0,), 1)
BOXES = ops.GatherDimensionNumbers((1, 2), (), (0,), 1)

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "cut": cut,
    "slice_all": lambda x, n: ops.slice(cut(x, n), [0, 1], [8, 3]),
    "slice_rows": lambda x, n: ops.slice(cut(x, n), [0, 0], [6, 3]),
    "slice_steps": lambda x, n: ops.slice(cut(x, n), [2, 1], [7, 3], [2, 1]),
    "rev_other": lambda x, n: ops.rev(cut(x, n), [1]),
    "rev": lambda x, n: ops.rev(cut(x, n), [0]),
    "transpose": lambda x, n: ops.transpose(cut(x, n), (1, 0)),
    "reshape_flat": lambda x, n: ops.reshape(cut(x, n), (24,)),
    "reshape_ones": lambda x, n: ops.reshape(cut(x, n), (1, 8, 1, 3)),
    "broadcast": lambda x, n: ops.broadcast(cut(x, n), (2,)),
    "pad_other": lambda x, n: ops.pad(cut(x, n), -1.0, [(0, 0), (1, 2)]),
    "pad": lambda x, n: ops.pad(cut(x, n), -1.0, [(2, 1, 1), (0, 0)]),
    "concatenate_other": lambda x, n: ops.concat_in_dim([cut(x, n), cut(x, n)], 1),
    "concatenate": lambda x, n: ops.concat_in_dim([cut(x, n), x], 0),
    "concatenate_several": lambda x, n: ops.concat_in_dim(
        [cut(x, n), ops.neg(x), cut(ops.add(x, x), ops.min(n, 3)), x], 0
    ),
    "elementwise": lambda x, n: ops.mul(cut(x, n), cut(x, n)),
    "same_integers": lambda x, n: itself(ops.le, ops.convert(cut(x, n), "s32")),
    "same_truth_values": lambda x, n: itself(ops.ne, ops.convert(cut(x, n), "pred")),
    "total_order": lambda x, n: itself(ops.lt_total_order, cut(x, n)),
    "same_floats": lambda x, n: itself(ops.eq, cut(x, n)),
    "same_integers_twice": lambda x, n: ops.lt(
        ops.convert(cut(x, n), "s32"), ops.convert(cut(x, n), "s32")
    ),
    "same_integers_of_two_sizes": lambda x, n: itself(
        ops.ge, ops.set_dimension_size(ops.convert(cut(x, n), "u8"), ops.min(n, 2), 1)
    ),
    "barrier": lambda x, n: ops.optimization_barrier([cut(x, n), x, n])[0],
    "barrier_alone": lambda x, n: ops.optimization_barrier([cut(x, n)])[0],
    "largest": lambda x, n: ops.max(cut(x, n), cut(x, n)),
    "selected": lambda x, n: ops.select(
        ops.gt(cut(x, n), ops.neg(cut(x, n))), cut(x, n), cut(x, n)
    ),
    "root": lambda x, n: ops.sqrt(cut(x, n)),
    "dynamic_reshape": lambda x, n: ops.dynamic_reshape(
        cut(x, n), row_of(ops.mul(n, 3)), (24,), (True,)
    ),
    "dynamic_broadcast_in_dim": lambda x, n: ops.dynamic_broadcast_in_dim(
        ops.slice(x, [0, 0], [1, 3]), row_of(n, 3), (0, 1), (8, 3), (True, False)
    ),
    "dynamic_iota": lambda x, n: ops.dynamic_iota("f32", row_of(n, 3), 0, (8, 3), (True, False)),
    "dynamic_pad_bounded": lambda x, n: ops.dynamic_pad(
        x, 9.0, row_of(n, 1), row_of(n, -1), row_of(n, 1), (100, 5), (True, False)
    ),
    "dynamic_pad_known_size": lambda x, n: ops.dynamic_pad(
        x, 9.0, row_of(n, 0), row_of(ops.sub(8, n), 0), [0, 0], (16, 3)
    ),
    "real_dynamic_slice": lambda x, n: ops.real_dynamic_slice(
        x, [0, 1], row_of(n, 3), [2, 1], (4, 2), (True, False)
    ),
    "real_dynamic_slice_known_size": lambda x, n: ops.real_dynamic_slice(
        x, row_of(ops.sub(n, 1), 0), row_of(ops.add(n, 1), 3), [1, 1], (2, 3)
    ),
    "dynamic_conv_known_size": lambda x, n: ops.dynamic_conv(
        ops.reshape(x, (1, 3, 8)),
        np.arange(12, dtype=np.float32).reshape(2, 3, 2),
        ops.reshape(ops.concat_in_dim([row_of(n), row_of(ops.sub(9, n))], 0), (1, 2)),
        (1, 2, 8),
        lhs_dilation=[2],
        window_strides=[3],
    ),
    "dynamic_conv": lambda x, n: ops.dynamic_conv(
        ops.reshape(x, (1, 3, 8)),
        np.arange(12, dtype=np.float32).reshape(2, 3, 2),
        ops.reshape(ops.concat_in_dim([row_of(n), row_of(n)], 0), (1, 2)),
        (1, 2, 30),
        (False, False, True),
        window_strides=[2],
    ),
    "dynamic_gather": lambda x, n: ops.dynamic_gather(
        x, [[0], [5], [9]], row_of(n, 3), BOXES, (3, 8, 3), (False, True, False)
    ),
}


@pytest.mark.parametrize("size", [0, 1, 5, 7])
@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_xla(name: str, size: int) -> None:
    """Elements and sizes."""
    if name == "real_dynamic_slice_known_size":
        size = max(size, 1)  # else the box would begin before the array

    def program(x: Any, n: Any) -> list[Any]:
        return shown(PROGRAMS[name](x, n))

    found = {}
    for backend in ("interpreter", "pjrt:cpu"):
        with xlapy.use_backend(backend):
            results = xlapy.compile(program)(X, np.int32(size))
            found[backend] = [r.numpy() for r in results]
    for ours, theirs in zip(found["interpreter"], found["pjrt:cpu"], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_reads_back(name: str) -> None:
    """The text of a program gives the same program."""
    specs = [xlapy.TensorSpec((8, 3), "f32"), xlapy.TensorSpec((), "s32")]
    found = trace(lambda x, n: shown(PROGRAMS[name](x, n)), specs)
    verify(found.computation)
    from xlapy.trace.stablehlo import to_stablehlo

    text = to_stablehlo(found.computation, locations=False, module_name="m")
    once = xlapy.from_stablehlo(text).computation
    assert [i.op.name for i in once.instructions] == [
        i.op.name for i in found.computation.instructions
    ]
    text = to_stablehlo(once, locations=False, module_name="m")
    twice = xlapy.from_stablehlo(text).computation
    assert to_stablehlo(twice, locations=False, module_name="m") == text


@pytest.mark.parametrize("backend", ["interpreter", "pjrt:cpu"])
@pytest.mark.parametrize(
    "name",
    ["cut", "slice_steps", "concatenate", "concatenate_several", "pad_other", "transpose", "dynamic_broadcast_in_dim",
        "dynamic_pad_known_size", "real_dynamic_slice", "real_dynamic_slice_known_size", "dynamic_gather",
        "dynamic_pad_bounded", "dynamic_conv", "dynamic_conv_known_size"],
)  # fmt: skip
def test_gradient(name: str, backend: str) -> None:
    """Of a weighted sum of the elements, against the matrix of the map, which is linear."""

    def weighted(x: Any, n: Any) -> Any:
        full = shown(PROGRAMS[name](x, n))[0]
        flat = ops.reshape(full, (full.size,))
        weights = ops.constant(np.cos(np.arange(full.size)).astype(np.float32))
        return (flat * weights).sum()

    size = np.int32(5)
    with xlapy.use_backend(backend):
        found = xlapy.grad(lambda x: weighted(x, size))(X).numpy()
        zero = float(weighted_value(weighted, np.zeros_like(X), size))
        for place in ((0, 0), (2, 1), (4, 2), (5, 0), (7, 2)):
            unit = np.zeros_like(X)
            unit[place] = 1
            expected = float(weighted_value(weighted, unit, size)) - zero
            np.testing.assert_allclose(found[place], expected, atol=2e-5)


def weighted_value(function: Callable[..., Any], x: Any, n: Any) -> Any:
    """The value of a compiled program."""
    return xlapy.compile(function)(x, n).numpy()


@pytest.mark.parametrize("backend", ["interpreter", "pjrt:cpu"])
@pytest.mark.parametrize(
    "function",
    [ops.sqrt, ops.tanh, lambda y: ops.max(y, y), lambda y: ops.select(ops.gt(y, y), y, ops.neg(y)),
     lambda y: ops.div(y, y), lambda y: ops.clamp(2.0, y, 9.0), lambda y: xlapy.cond(True, ops.sin, ops.cos, y),
     lambda y: ops.get_tuple_element(ops.tuple([y, y]), 1), lambda y: ops.abs(ops.sub(y, y))],
)  # fmt: skip
def test_gradient_of_functions(function: Callable[[Any], Any], backend: str) -> None:
    """The constants in a derivative are of the array's size: that of the elements held is as if they were all."""

    def total(x: Any, n: Any) -> Any:
        return (shown(function(cut(x, n)))[0] * x).sum()

    with xlapy.use_backend(backend):
        found = xlapy.grad(lambda x: total(x, np.int32(5)))(X).numpy()
        whole = xlapy.grad(lambda x: (function(x) * x).sum())(X).numpy()
    np.testing.assert_allclose(found[:5], whole[:5], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[5:], 0)


def test_sizes_beyond_the_bound_count_as_the_bound() -> None:
    """And negative ones as none."""

    def size(x: Any, n: Any) -> Any:
        return ops.get_dimension_size(cut(x, n), 0)

    with xlapy.use_backend("interpreter"):
        assert int(xlapy.compile(size)(X, np.int32(100)).numpy()) == 8
        assert int(xlapy.compile(size)(X, np.int32(-1)).numpy()) == 0


CUT_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "reduce": lambda x: ops.reduce_max(x, (1,)),
    "clz": ops.clz,
    "population_count": lambda x: ops.population_count(ops.convert(x, "s4")),
    "div": lambda x: ops.div(x, x),
    "clamp": lambda x: ops.clamp(ops.constant(np.float32(1)), ops.convert(x, "f32"), ops.constant(np.float32(4))),
    "total_order": lambda x: itself(ops.ge_total_order, ops.convert(x, "f32")),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT_CONSTANTS)
def test_constants_cut_to_a_constant_size(name: str) -> None:
    """XLA takes no barriers for arrays of varying size, and would compute some operations on constants wrong."""
    constant = np.arange(-2, 4, dtype=np.int32).reshape(2, 3)

    def program() -> Any:
        x = ops.set_dimension_size(ops.constant(constant), ops.constant(np.int32(2)), 1)
        return shown(CUT_CONSTANTS[name](x))

    expected, found = (
        [r.tolist() for r in xlapy.compile(program, backend=b)()]
        for b in ("interpreter", "pjrt:cpu")
    )
    assert found == expected


PASSED: dict[str, Callable[[Any], Any]] = {
    "loop": lambda y: xlapy.fori_loop(0, 2, lambda i, z: ops.add(z, z), y),
    "branch": lambda y: xlapy.cond(ops.gt(ops.reduce_sum(y), 0.0), ops.neg, ops.sqrt, y),
    "call": lambda y: xlapy.compile(lambda z: ops.add(z, z))(y),
}


@pytest.mark.parametrize("size", [3, 8, 100])
@pytest.mark.parametrize("name", PASSED)
def test_cut_to_a_constant_size_and_passed_on(name: str, size: int) -> None:
    """To the whole size as well, where XLA would make an array of it that does not vary."""

    def program(x: Any) -> Any:
        return shown(PASSED[name](cut(x, ops.constant(np.int32(size)))))

    expected, found = (
        [r.tolist() for r in xlapy.compile(program, backend=b)(X)]
        for b in ("interpreter", "pjrt:cpu")
    )
    assert found == expected


@pytest.mark.parametrize("backend", ["interpreter", "pjrt:cpu"])
@pytest.mark.parametrize("index", [True, np.int32(1)])
def test_branches_of_rows(index: Any, backend: str) -> None:
    """Vectorised over what decides: each row has what its branch gives."""

    def program(choice: Any, x: Any, n: Any) -> Any:
        y = cut(x, n)
        double, negative = (lambda z: ops.add(z, z)), ops.neg
        if index is True:
            return shown(xlapy.cond(choice, double, negative, y))[0]
        return shown(ops.conditional(choice, [double, negative], [y, y]))[0]

    preds = np.array([index, index - index], np.asarray(index).dtype)
    every = xlapy.vmap(program, in_axes=(0, 0, None))
    with xlapy.use_backend(backend):
        found = xlapy.compile(every)(preds, np.stack([X, X + 1]), np.int32(3)).numpy()
        single = [xlapy.compile(program)(p, X + i, np.int32(3)) for i, p in enumerate(preds)]
    np.testing.assert_array_equal(found, [s.numpy() for s in single])


def test_wrong_sizes_are_found() -> None:
    """The interpreter checks what the program promises."""
    with xlapy.use_backend("interpreter"), pytest.raises(ShapeError, match=r"X3"):
        ops.dynamic_iota("s32", [4], 0, (3,))


def test_sizes_without_bound_need_the_interpreter() -> None:
    """XLA is not asked for what it does not do."""
    text = """
    func.func @main(%n: tensor<1xi32>) -> tensor<i32> {
      %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
      %1 = stablehlo.get_dimension_size %0, dim = 0 : (tensor<?xi32>) -> tensor<i32>
      return %1 : tensor<i32>
    }
    """
    program = xlapy.from_stablehlo(text)
    n = np.array([5], np.int32)
    assert int(program(n, backend="interpreter").numpy()) == 5
    with pytest.raises(UnsupportedOpError, match="bounded"):
        program(n, backend="pjrt:cpu")


def test_reshape_does_not_split_a_varying_dimension() -> None:
    """Nor guess where it goes."""
    builder = XlaBuilder("reshape")
    x = builder.parameter(0, "f32[<=8]")
    with pytest.raises(XlapyError, match="X2"):
        ops.reshape(x, (2, 4))


@pytest.mark.parametrize("size", [-5, 9, 1000])
def test_sizes_out_of_bounds_are_cut(size: int) -> None:
    """XLA by itself would write beyond the array."""
    found = {}
    for backend in ("interpreter", "pjrt:cpu"):
        with xlapy.use_backend(backend):
            results = xlapy.compile(lambda x, n: shown(cut(x, n)))(X, np.int32(size))
            found[backend] = [r.numpy() for r in results]
    for ours, theirs in zip(found["interpreter"], found["pjrt:cpu"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
