"""Programs with quantised types: values by the formulas of the types, and what is refused.

``(q - zero_point) * scale`` is the float that an integer stands for; the integer for a float is
``clamp(x / scale + zero_point)`` rounded to nearest, ties to even.
"""

from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy.errors import ArtifactError, ConstraintError, UnsupportedOpError, XlapyError

BACKENDS = ("interpreter", "pjrt:cpu")
A = "!quant.uniform<i8:f32, 0.5:-2>"
B = "!quant.uniform<i8:f32, 0.25:3>"
WIDE = "!quant.uniform<i32:f32, 0.125>"
ROWS = "!quant.uniform<i8:f32:0, {0.5:-2, 0.25:3}>"
COLUMNS = "!quant.uniform<i8:f32:1, {0.5:-2, 0.25:3}>"


def floats(q: Any, scale: Any, zero_point: Any) -> Any:
    """What integers stand for, in doubles."""
    return (np.asarray(q, np.float64) - zero_point) * scale


def integers(x: Any, scale: Any, zero_point: Any, low: int = -128, high: int = 127) -> Any:
    """The integers for floats."""
    return np.rint(np.clip(np.asarray(x, np.float64) / scale + zero_point, low, high))


def program(body: str, parameters: str, result: str) -> str:
    """A program whose last value is %r, with A, B and so on for types."""
    text = f"func.func @main({parameters}) -> {result} {{\n{body}\n  return %r : {result}\n}}"
    for name, kind in (("ROWS", ROWS), ("COLUMNS", COLUMNS), ("WIDE", WIDE), ("QA", A), ("QB", B)):
        text = text.replace(name, kind)
    return text


def check(text: str, arguments: list[Any], expected: Any, dtype: Any) -> None:
    """On both backends, as it was read and read again."""
    f = xlapy.from_stablehlo(text)
    exported = xlapy.export(f)
    assert "quant" not in exported.stablehlo_text
    again = xlapy.from_stablehlo(exported.serialize())
    for each in (f, again):
        for backend in BACKENDS:
            found = each(*arguments, backend=backend).numpy()
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.asarray(expected).astype(dtype))


X = np.array([-70.0, -0.75, -0.25, 0.0, 0.25, 0.75, 1.25, 100.0], np.float32)
Q = np.array([-128, -3, -2, 0, 1, 2, 100, 127], np.int8)
R = np.array([127, 5, -2, 3, -7, 40, 90, -128], np.int8)


@pytest.mark.parametrize("form", ["pretty", "generic"])
def test_quantize(form: str) -> None:
    """Ties go to even after the zero point is added; what is out of range saturates."""
    call = {
        "pretty": "%q = stablehlo.uniform_quantize %x : (tensor<8xf32>) -> tensor<8xQA>",
        "generic": '%q = "stablehlo.uniform_quantize"(%x) : (tensor<8xf32>) -> tensor<8xQA>',
    }[form]
    body = f"  {call}\n  %r = stablehlo.bitcast_convert %q : (tensor<8xQA>) -> tensor<8xi8>"
    expected = [-128, -4, -2, -2, -2, 0, 0, 127]
    np.testing.assert_array_equal(expected, integers(X, 0.5, -2))
    check(program(body, "%x: tensor<8xf32>", "tensor<8xi8>"), [X], expected, np.int8)


@pytest.mark.parametrize(
    ("kind", "low", "high", "dtype"),
    [
        ("i8<-100:90>", -100, 90, np.int8),
        ("u8", 0, 255, np.uint8),
        ("i16", -32768, 32767, np.int16),
        ("u16<7:60000>", 7, 60000, np.uint16),
        ("i32", -(2**31), 2**31 - 1, np.int32),
    ],
)
@pytest.mark.parametrize("expressed", ["f16", "bf16", "f32", "f64"])
def test_storage_types(kind: str, low: int, high: int, dtype: Any, expressed: str) -> None:
    storage = kind.split("<")[0].replace("u", "ui")
    quantized = f"!quant.uniform<{kind}:{expressed}, 2.5e-1:9>"
    body = (
        f"  %c = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4x{expressed}>\n"
        f"  %q = stablehlo.uniform_quantize %c : (tensor<4x{expressed}>) -> tensor<4x{quantized}>\n"
        f"  %r = stablehlo.bitcast_convert %q : (tensor<4x{quantized}>) -> tensor<4x{storage}>"
    )
    x = np.array([-60.0, -1.0, 0.375, 20.0], np.float32)
    text = program(body, "%x: tensor<4xf32>", f"tensor<4x{storage}>")
    check(text, [x], integers(x, 0.25, 9, low, high), dtype)


def test_dequantize() -> None:
    """The difference to the zero point does not wrap around."""
    body = (
        "  %q = stablehlo.bitcast_convert %x : (tensor<8xi8>) -> tensor<8xQA>\n"
        "  %r = stablehlo.uniform_dequantize %q : (tensor<8xQA>) -> tensor<8xf32>"
    )
    expected = [-63.0, -0.5, 0.0, 1.0, 1.5, 2.0, 51.0, 64.5]
    np.testing.assert_array_equal(expected, floats(Q, 0.5, -2))
    check(program(body, "%x: tensor<8xi8>", "tensor<8xf32>"), [Q], expected, np.float32)


def test_requantize_along_an_axis() -> None:
    """Each row, or column, has its own scale."""
    q = np.array([[10, -10], [20, 127]], np.int8)
    body = (
        "  %q = stablehlo.bitcast_convert %x : (tensor<2x2xi8>) -> tensor<2x2xROWS>\n"
        "  %s = stablehlo.uniform_quantize %q : (tensor<2x2xROWS>) -> tensor<2x2xCOLUMNS>\n"
        "  %r = stablehlo.bitcast_convert %s : (tensor<2x2xCOLUMNS>) -> tensor<2x2xi8>"
    )
    scale, zero = np.array([0.5, 0.25]), np.array([-2, 3])
    x = floats(q, scale[:, None], zero[:, None])
    np.testing.assert_array_equal(x, [[6.0, -4.0], [4.25, 31.0]])
    expected = [[10, -13], [6, 127]]
    np.testing.assert_array_equal(expected, integers(x, scale, zero))
    check(program(body, "%x: tensor<2x2xi8>", "tensor<2x2xi8>"), [q], expected, np.int8)


OF_TWO = {
    "add": ("stablehlo.add %a, %b : (tensor<8xQA>, tensor<8xQB>) -> tensor<8xQB>", np.add),
    "generic": (
        '"stablehlo.multiply"(%a, %b) : (tensor<8xQA>, tensor<8xQB>) -> tensor<8xQB>',
        np.multiply,
    ),
    "maximum": ("stablehlo.maximum %a, %b : (tensor<8xQA>, tensor<8xQB>) -> tensor<8xQB>", np.maximum),
    "unary": ("stablehlo.abs %a : (tensor<8xQA>) -> tensor<8xQB>", lambda a, b: np.abs(a)),
    "of_floats_only": (
        "stablehlo.sqrt %a : (tensor<8xQA>) -> tensor<8xQB>",
        lambda a, b: np.nan_to_num(np.sqrt(np.maximum(a, 0))),
    ),
    "clamp": (
        "stablehlo.clamp %a, %b, %a : (tensor<8xQA>, tensor<8xQB>, tensor<8xQA>) -> tensor<8xQB>",
        lambda a, b: np.minimum(np.maximum(a, b), a),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_TWO)
def test_computing(name: str) -> None:
    """Dequantise, compute, quantise."""
    call, function = OF_TWO[name]
    body = (
        "  %a = stablehlo.bitcast_convert %x : (tensor<8xi8>) -> tensor<8xQA>\n"
        "  %b = stablehlo.bitcast_convert %y : (tensor<8xi8>) -> tensor<8xQB>\n"
        f"  %c = {call}\n"
        "  %r = stablehlo.bitcast_convert %c : (tensor<8xQB>) -> tensor<8xi8>"
    )
    q = np.abs(Q.astype(np.int16)).clip(0, 127).astype(np.int8) if name == "of_floats_only" else Q
    expected = integers(function(floats(q, 0.5, -2), floats(R, 0.25, 3)), 0.25, 3)
    text = program(body, "%x: tensor<8xi8>, %y: tensor<8xi8>", "tensor<8xi8>")
    check(text, [q, R], expected, np.int8)


def test_compare_by_what_is_meant() -> None:
    body = (
        "  %a = stablehlo.bitcast_convert %x : (tensor<8xi8>) -> tensor<8xQA>\n"
        "  %b = stablehlo.bitcast_convert %y : (tensor<8xi8>) -> tensor<8xQB>\n"
        "  %r = stablehlo.compare LT, %a, %b : (tensor<8xQA>, tensor<8xQB>) -> tensor<8xi1>"
    )
    expected = floats(Q, 0.5, -2) < floats(R, 0.25, 3)
    text = program(body, "%x: tensor<8xi8>, %y: tensor<8xi8>", "tensor<8xi1>")
    check(text, [Q, R], expected, np.bool_)


@pytest.mark.parametrize("hybrid", [False, True])
def test_dot_general(hybrid: bool) -> None:
    """Into wide integers, or with floats on one side."""
    x = np.array([[1, -2, 3], [40, 5, -60]], np.int8)
    y = np.array([[7, 8], [-9, 10], [11, -12]], np.int8)
    dot = "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]"
    a = "  %a = stablehlo.bitcast_convert %x : (tensor<2x3xi8>) -> tensor<2x3xQA>\n"
    b = "  %b = stablehlo.bitcast_convert %y : (tensor<3x2xi8>) -> tensor<3x2xQB>\n"
    if hybrid:
        body = (
            f"  %a = stablehlo.convert %x : (tensor<2x3xi8>) -> tensor<2x3xf32>\n{b}"
            f"  %r = {dot} : (tensor<2x3xf32>, tensor<3x2xQB>) -> tensor<2x2xf32>"
        )
        expected, dtype, element = x @ floats(y, 0.25, 3), np.float32, "f32"
    else:
        body = (
            f"{a}{b}  %c = {dot} : (tensor<2x3xQA>, tensor<3x2xQB>) -> tensor<2x2xWIDE>\n"
            "  %r = stablehlo.bitcast_convert %c : (tensor<2x2xWIDE>) -> tensor<2x2xi32>"
        )
        product = floats(x, 0.5, -2) @ floats(y, 0.25, 3)
        expected, dtype, element = integers(product, 0.125, 0, -(2**31), 2**31 - 1), np.int32, "i32"
    text = program(body, "%x: tensor<2x3xi8>, %y: tensor<3x2xi8>", f"tensor<2x2x{element}>")
    check(text, [x, y], expected, dtype)


def test_moving() -> None:
    """Elements that only move stay the integers they are; scales move along."""
    q = np.array([[1, -2, 3], [40, 5, -60]], np.int8)
    body = (
        "  %a = stablehlo.bitcast_convert %x : (tensor<2x3xi8>) -> tensor<2x3xROWS>\n"
        "  %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xROWS>) -> tensor<3x2xCOLUMNS>\n"
        "  %s = stablehlo.slice %t [1:3, 0:2] : (tensor<3x2xCOLUMNS>) -> tensor<2x2xCOLUMNS>\n"
        "  %c = stablehlo.concatenate %s, %t, dim = 0"
        " : (tensor<2x2xCOLUMNS>, tensor<3x2xCOLUMNS>) -> tensor<5x2xCOLUMNS>\n"
        "  %r = stablehlo.uniform_dequantize %c : (tensor<5x2xCOLUMNS>) -> tensor<5x2xf32>"
    )
    moved = np.concatenate([q.T[1:], q.T])
    expected = floats(moved, np.array([0.5, 0.25]), np.array([-2, 3]))
    check(program(body, "%x: tensor<2x3xi8>", "tensor<5x2xf32>"), [q], expected, np.float32)


def test_regions_functions_and_aliases() -> None:
    """Bodies compute as elsewhere, step by step; functions pass integers; what is quoted or a comment stays."""
    text = """!small = !quant.uniform<i8:f32, 0.5:-2>
func.func private @twice(%q: tensor<4x!small>) -> tensor<4x!small> {
  %r = stablehlo.add %q, %q : tensor<4x!small> // as !quant.uniform<i8:f32, 3.0> would not
  return %r : tensor<4x!small>
}
func.func @main(%x: tensor<4xi8>) -> tensor<i8> {
  %q = "stablehlo.bitcast_convert"(%x) {note = "!quant.none"} : (tensor<4xi8>)
    -> tensor<4x!quant.uniform<i8<-128:127>:f32,
        5.0e-1:-2>>
  %d = call @twice(%q) : (tensor<4x!small>) -> tensor<4x!small>
  %z = stablehlo.constant dense<-2> : tensor<i8>
  %zero = stablehlo.bitcast_convert %z : (tensor<i8>) -> tensor<!small>
  %s = stablehlo.reduce(%d init: %zero) across dimensions = [0]
      : (tensor<4x!small>, tensor<!small>) -> tensor<!small>
    reducer(%a: tensor<!small>, %b: tensor<!small>) {
      %c = stablehlo.add %a, %b : tensor<!small>
      stablehlo.return %c : tensor<!small>
    }
  %r = stablehlo.bitcast_convert %s : (tensor<!small>) -> tensor<i8>
  return %r : tensor<i8>
}"""
    q = np.array([3, -4, 10, 6], np.int8)
    doubled = integers(2 * floats(q, 0.5, -2), 0.5, -2)
    expected = integers(floats(doubled, 0.5, -2).sum(), 0.5, -2)
    assert expected == 44
    check(text, [q], expected, np.int8)


def test_derivatives() -> None:
    """Around rounding everything is constant; what is beside it counts."""
    body = (
        "  %q = stablehlo.uniform_quantize %x : (tensor<8xf32>) -> tensor<8xQA>\n"
        "  %d = stablehlo.uniform_dequantize %q : (tensor<8xQA>) -> tensor<8xf32>\n"
        "  %r = stablehlo.multiply %d, %x : tensor<8xf32>"
    )
    f = xlapy.from_stablehlo(program(body, "%x: tensor<8xf32>", "tensor<8xf32>"))
    found = xlapy.grad(lambda x: xlapy.sum(f(x)))(xlapy.asarray(X))
    expected = floats(integers(X, 0.5, -2), 0.5, -2)
    np.testing.assert_array_equal(found.numpy(), expected.astype(np.float32))


OTHER = "!quant.uniform<i8:f32, 0.75:-2>"
REFUSED: dict[str, tuple[str, str, str, type[XlapyError], str]] = {
    "parameter": (
        "  %r = stablehlo.uniform_dequantize %x : (tensor<2xQA>) -> tensor<2xf32>",
        "%x: tensor<2xQA>", "tensor<2xf32>", UnsupportedOpError, "parameters and results",
    ),
    "result": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2xQA>",
        "%x: tensor<2xf32>", "tensor<2xQA>", UnsupportedOpError, "parameters and results",
    ),
    "scales_along_no_dimension": (
        "  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2xCOLUMNS>\n"
        "  %r = stablehlo.uniform_dequantize %q : (tensor<2xCOLUMNS>) -> tensor<2xf32>",
        "%x: tensor<2xf32>", "tensor<2xf32>", ConstraintError, "C12(.|\n)*line 2",
    ),
    "too_few_scales": (
        "  %q = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> tensor<3xROWS>\n"
        "  %r = stablehlo.uniform_dequantize %q : (tensor<3xROWS>) -> tensor<3xf32>",
        "%x: tensor<3xf32>", "tensor<3xf32>", ConstraintError, "C12",
    ),
    "moving_into_another_meaning": (
        "  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2xQA>\n"
        f"  %s = stablehlo.reshape %q : (tensor<2xQA>) -> tensor<1x2x{OTHER}>\n"
        f"  %r = stablehlo.uniform_dequantize %s : (tensor<1x2x{OTHER}>) -> tensor<1x2xf32>",
        "%x: tensor<2xf32>", "tensor<1x2xf32>", ConstraintError, "C1",
    ),
    "sub_channels": (
        "  %r = stablehlo.uniform_quantize %x"
        " : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32:{0:1}, {0.5, 0.25}>>",
        "%x: tensor<2xf32>", "tensor<2xf32>", UnsupportedOpError, "line 2",
    ),
    "any": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.any<i8:f32>>",
        "%x: tensor<2xf32>", "tensor<2xf32>", UnsupportedOpError, "uniform(.|\n)*line 2",
    ),
    "width": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i5:f32, 0.5>>",
        "%x: tensor<2xf32>", "tensor<2xf32>", UnsupportedOpError, "line 2",
    ),
    "scale_of_zero": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.0>>",
        "%x: tensor<2xf32>", "tensor<2xf32>", ConstraintError, "C6(.|\n)*line 2",
    ),
    "bounds": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8<-129:1>:f32, 0.5>>",
        "%x: tensor<2xf32>", "tensor<2xf32>", ConstraintError, "C3(.|\n)*line 2",
    ),
    "zero_point": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:128>>",
        "%x: tensor<2xf32>", "tensor<2xf32>", ConstraintError, "C8(.|\n)*line 2",
    ),
    "no_array": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> QA",
        "%x: tensor<2xf32>", "tensor<2xf32>", UnsupportedOpError, "elements of arrays(.|\n)*line 2",
    ),
    "custom_call": (
        "  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2xQA>\n"
        "  %r = stablehlo.custom_call @f(%q) : (tensor<2xQA>) -> tensor<2xf32>",
        "%x: tensor<2xf32>", "tensor<2xf32>", UnsupportedOpError, "outside(.|\n)*line 3",
    ),
    "mistake": (
        "  %r = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> tensor<2xQA>",
        "%x: tensor<2xf32>", "tensor<2xf32>", ArtifactError, "line 2",
    ),
    "integers_into_floats": (
        "  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2xQA>\n"
        "  %r = stablehlo.concatenate %q, %x, dim = 0 : (tensor<2xQA>, tensor<2xf32>) -> tensor<4xf32>",
        "%x: tensor<2xf32>", "tensor<4xf32>", XlapyError, "C1(.|\n)*:3",
    ),
    "loop_changes_meaning": (
        "  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2xQA>\n"
        "  %p = stablehlo.constant dense<false> : tensor<i1>\n"
        "  %w = stablehlo.while(%i = %q) : tensor<2xQA> cond { stablehlo.return %p : tensor<i1> } do {\n"
        f"    %s = stablehlo.abs %i : (tensor<2xQA>) -> tensor<2x{OTHER}>\n"
        f"    stablehlo.return %s : tensor<2x{OTHER}>\n"
        "  }\n"
        "  %r = stablehlo.uniform_dequantize %w : (tensor<2xQA>) -> tensor<2xf32>",
        "%x: tensor<2xf32>", "tensor<2xf32>", XlapyError, "C1|line",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, parameters, result, error, match = REFUSED[name]
    with pytest.raises(error, match=match):
        xlapy.from_stablehlo(program(body, parameters, result))
