"""The public elementwise functions: how operands meet, what derivatives are at the edges, what is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy.errors import (
    ArtifactError,
    ConstraintError,
    DTypeError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedOpError,
)
from xlapy.trace.op import registry

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
ROW = np.array([1, 2, 3], np.float32)


@pytest.fixture(autouse=True)
def interpreter() -> Any:
    with xlapy.use_backend("interpreter"):
        yield


def c(value: Any) -> xlapy.Tensor:
    return ops.constant(value)


# --- how operands meet ----------------------------------------------------------------------------


def test_broadcast_dimensions_place_the_lower_rank() -> None:
    assert (ops.add(c(MATRIX), c(ROW), [1]).numpy() == MATRIX + ROW).all()
    assert (ops.sub(c(ROW), c(MATRIX), (1,)).numpy() == ROW - MATRIX).all()
    column = np.array([10, 20], np.float32)
    assert (ops.lt(c(column), c(MATRIX), [0]).numpy() == (column[:, None] < MATRIX)).all()


def test_dimensions_of_size_one_are_broadcast() -> None:
    column = np.array([[10], [20]], np.float32)
    assert (ops.mul(c(column), c(ROW[None])).numpy() == column * ROW).all()
    assert (ops.add(c(column), c(ROW), [1]).numpy() == column + ROW).all()


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: ops.add(c(MATRIX), c(ROW)), ShapeError, r"add: .*one shape.*\[C1\]"),
        (lambda: ops.add(c(MATRIX), c(ROW), [0]), ShapeError, r"add: the sizes .*\[X1\]"),
        (lambda: ops.add(c(MATRIX), c(ROW), [2]), ConstraintError, r"add: broadcast_dim.*\[X1\]"),
        (lambda: ops.add(c(MATRIX), c(ROW), [0, 1]), ConstraintError, r"add: broadcast_dim.*\[X1\]"),
        (lambda: ops.add(c(MATRIX), c(ROW), "a"), DTypeError, r"add: broadcast_dim.*\[X1\]"),
        (lambda: ops.add(c([1, 2]), 1.5), DTypeError, r"add: .*must fit.*\[X3\]"),
        (lambda: ops.add(c(np.int8([1])), 300), DTypeError, r"add: .*must fit.*\[X3\]"),
        (lambda: ops.add(c([1, 2]), "a"), DTypeError, r"add: .*\[X1\]"),
        (lambda: ops.exp(c(ROW), "best"), ConstraintError, r"exp: result_accuracy .*\[X1\]"),
        (lambda: ops.exp(c(ROW), (1, 2)), ConstraintError, r"exp: result_accuracy .*\[X1\]"),
        (lambda: ops.exp(c(ROW), {"eps": 1}), ConstraintError, r"exp: result_accuracy .*\[X1\]"),
        (lambda: ops.select(True, (c(1),), ()), ShapeError, r"select: .*one length.*\[C2\]"),
        (lambda: ops.select(c([True]), (c(1),), (c(2),)), ShapeError, r"select: .*scalar.*\[C1\]"),
        (lambda: ops.convert(c(ROW), "nope"), DTypeError, r"convert_element_type: dtype .*\[X1\]"),
        (lambda: ops.reduce_precision(c(ROW), 1.5, 2), DTypeError, r"reduce_precision: .*\[C2\]"),
        (lambda: ops.reduce_precision(c(ROW), 2**40, 2), ConstraintError, r"reduce_prec.*\[C2\]"),
    ],
)  # fmt: skip
def test_errors_name_the_operation_and_the_line(
    call: Callable[[], Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match) as caught:
        call()
    assert "test_elementwise.py" in str(caught.value)


def test_a_python_scalar_in_a_trace_is_one_constant() -> None:
    builder = xlapy.XlaBuilder("f")
    x = builder.parameter(0, "bf16[8]")
    y = ops.max(ops.add(x, 1), -0.0)
    computation = builder.build(ops.select(True, y, x))
    names = [i.op.name for i in computation.instructions]
    assert names == ["constant", "add", "constant", "max", "constant", "select"]
    zeros = computation.instructions[2].params["value"]
    assert zeros.shape == (8,)
    assert np.signbit(zeros.astype(np.float32)).all()


def test_a_scalar_argument_takes_the_type_of_what_it_meets() -> None:
    scaled = xlapy.compile(lambda x, s: ops.clamp(s, ops.mul(x, s), 8))
    assert scaled(c(np.array([1, 20], np.float16)), 0.5).numpy().tolist() == [0.5, 8]
    with pytest.raises(DTypeError, match="C1"):
        scaled(c([1, 2]), 0.5)


def test_arrays_give_their_type_to_scalars_on_either_side() -> None:
    assert ops.add(2.0, np.array([1.0])).dtype.name == "f64"
    assert ops.sub(np.array([3], np.int8), 2).dtype.name == "s8"


def test_select_of_tuples() -> None:
    one, other = ops.select(False, (c(1), c(2.0)), (c(3), c(4.0)))
    assert (one.item(), other.item()) == (3, 4.0)

    def f(x: Any) -> Any:
        chosen = ops.select(False, ops.tuple((x, c([1]))), ops.tuple((ops.neg(x), c([2]))))
        return ops.get_tuple_element(chosen, 0), ops.get_tuple_element(chosen, 1)

    first, second = xlapy.compile(f)(c(1.5))
    assert (first.item(), second.tolist()) == (-1.5, [2])


def test_select_broadcasts_scalars_to_the_predicate() -> None:
    assert ops.select(c([True, False]), 1.0, 2.0).tolist() == [1.0, 2.0]


def test_bounded_sizes_pass_through() -> None:
    builder = xlapy.XlaBuilder("f")
    x = builder.parameter(0, "f32[<=8]")
    results = [ops.add(x, x), ops.exp(x), ops.convert(x, "s32"), ops.gt(x, x), ops.clamp(0, x, 1)]
    assert all(r.spec.dynamic == (0,) for r in results)
    with pytest.raises(ShapeError, match="X1"):
        ops.add(x, 1.0)


# --- derivatives at the edges ---------------------------------------------------------------------


def slope(f: Callable[..., Any], at: float, order: int = 1) -> float:
    for _ in range(order):
        f = xlapy.grad(f)
    result: float = f(c(np.float64(at))).item()
    return result


@pytest.mark.parametrize(
    "f, at, expected",
    [
        (lambda x: ops.max(x, 1.0), 1.0, (0.5,)),
        (lambda x: ops.min(x, 1.0), 1.0, (0.5,)),
        (lambda x: ops.max(x, x), 1.0, (1.0,)),
        (lambda x: ops.abs(x), 0.0, (0.0, 0.0)),
        (lambda x: ops.clamp(0.0, x, 1.0), 0.0, (0.5,)),
        (lambda x: ops.clamp(0.0, x, 1.0), 0.25, (1.0,)),
        (lambda x: ops.clamp(0.0, x, 1.0), 2.0, (0.0,)),
        (lambda x: ops.pow(x, 0.0), 0.0, (0.0, 0.0)),
        (lambda x: ops.pow(x, 1.0), 0.0, (1.0, 0.0)),
        (lambda x: ops.pow(x, 2.0), 0.0, (0.0, 2.0)),
        (lambda x: ops.pow(x, 3.0), -2.0, (12.0, -12.0)),
        (lambda y: ops.pow(0.0, y), 2.0, (0.0, 0.0)),
        (lambda x: ops.rem(x, 3.0), 7.0, (1.0, 0.0)),
        (lambda y: ops.rem(7.0, y), 3.0, (-2.0, 0.0)),
        (lambda y: xlapy.grad(lambda x: ops.pow(x, y))(np.float64(2.0)), 0.0, (0.5,)),
        (lambda x: ops.pow(x, 0.0), np.inf, (0.0,)),
        (lambda x: ops.bessel_i1e(x), 0.0, (0.5, 0.0)),
        (lambda x: ops.bessel_i1e(x), 1e-20, (0.5, -1.0)),
        (lambda x: ops.bessel_i1e(x), -1e-20, (0.5, 1.0)),
        (lambda x: ops.bessel_i1e(x), 1e12, (-1.99471140200566e-19, 2.992067103007e-31)),
        (lambda x: ops.sqrt(x), 0.0, (np.inf,)),
        (lambda x: ops.cbrt(x), 0.0, (np.inf, -np.inf)),
        (lambda x: ops.cbrt(x), np.inf, (0.0, 0.0)),
        (lambda x: ops.next_after(x, 3.0), 1.0, (1.0,)),
    ],
)  # fmt: skip
def test_derivative_at(f: Callable[..., Any], at: float, expected: tuple[float, ...]) -> None:
    assert tuple(slope(f, at, n + 1) for n in range(len(expected))) == pytest.approx(expected)


def test_sign_of_a_complex_zero_does_not_turn() -> None:
    _, tangent = xlapy.jvp(ops.sign, (c(np.array([0j, 2j])),), (c(np.array([1 + 0j, 1 + 0j])),))
    assert tangent.tolist() == [0j, 0.5 + 0j]


@pytest.mark.parametrize("name", ["polygamma", "zeta"])
def test_the_first_operand_has_no_derivative(name: str) -> None:
    function = getattr(ops, name)
    with pytest.raises(NotDifferentiableError, match=name):
        xlapy.grad(lambda n: function(n, 2.0))(c(2.0))
    with pytest.raises(NotDifferentiableError, match=name):
        xlapy.jvp(function, (c(2.0), c(2.0)), (c(1.0), c(1.0)))


# --- documentation, accuracy, spellings -----------------------------------------------------------


def test_the_docstrings_are_complete() -> None:
    for name in ("add", "exp", "erf", "gt_total_order", "real", "neg", "mulhi"):
        text = getattr(ops, name).__doc__
        for heading in ("Parameters\n", "Returns\n", "Raises\n", "Notes\n", "Examples\n"):
            assert heading in text, f"{name} lacks {heading}"


def test_an_accuracy_that_chlo_cannot_say_is_refused_by_the_writer() -> None:
    assert ops.erf(c([0.0]), "highest").tolist() == [0.0]
    lowered = xlapy.compile(lambda x: ops.erf(x, "highest"), backend="pjrt:cpu")
    with pytest.raises(UnsupportedOpError, match=r"erf: chlo.erf has no result_accuracy.*\[X6\]"):
        lowered(ROW)


def read(body: str, result: str = "tensor<2x3xf32>") -> Any:
    return xlapy.from_stablehlo(
        f"module {{ func.func @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> {result} {{\n"
        f"%0 = {body} -> {result}\n return %0 : {result} }} }}"
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ('"chlo.broadcast_add"(%a, %b) : (tensor<2x3xf32>, tensor<3xf32>)', MATRIX + ROW),
        (
            '"chlo.broadcast_subtract"(%b, %a) {broadcast_dimensions = array<i64: 1>}'
            " : (tensor<3xf32>, tensor<2x3xf32>)",
            ROW - MATRIX,
        ),
        ('"chlo.constant_like"(%a) {value = 2.5 : f32} : (tensor<2x3xf32>)', np.full((2, 3), 2.5)),
        ('"chlo.tan"(%a) : (tensor<2x3xf32>)', np.tan(MATRIX)),
        ('"mhlo.sinh"(%a) : (tensor<2x3xf32>)', np.sinh(MATRIX)),
    ],
)
def test_other_spellings_are_read(text: str, expected: Any) -> None:
    assert read(text)(MATRIX, ROW).numpy() == pytest.approx(expected, rel=1e-6)


def test_a_broadcasting_comparison_is_read() -> None:
    text = (
        '"chlo.broadcast_compare"(%a, %b) {comparison_direction = #chlo<comparison_direction LT>}'
        " : (tensor<2x3xf32>, tensor<3xf32>)"
    )
    assert (read(text, "tensor<2x3xi1>")(MATRIX, ROW).numpy() == (MATRIX < ROW)).all()


def test_quantized_types_are_refused() -> None:
    text = (
        "module { func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) ->"
        " tensor<2x!quant.uniform<i8:f32, 0.5>> {\n"
        " return %a : tensor<2x!quant.uniform<i8:f32, 0.5>> } }"
    )
    with pytest.raises((UnsupportedOpError, ArtifactError), match="uniform<i8"):
        xlapy.from_stablehlo(text)


def test_every_operation_here_has_a_case() -> None:
    from cases import comparison, conversion, elementwise, elementwise_unary, selection, special

    tables = (comparison, conversion, elementwise, elementwise_unary, selection, special)
    covered = {case.op for table in tables for case in table.CASES}
    makers = {f"xlapy.ops.{m}" for m in ("families", "comparison", "conversion", "selection")}
    mine = {name for name, op in registry.items() if op.infer.__module__ in makers}
    assert mine <= covered
