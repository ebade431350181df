"""Programs as StableHLO text, and read from it: exact, with the user's lines, and refused where malformed."""

import re
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import _jaxlib, ops
from xlapy.errors import ArtifactError, UnsupportedOpError
from xlapy.source import locate
from xlapy.specs import parse_spec
from xlapy.trace.stablehlo import constant_text, to_stablehlo
from xlapy.trace.stablehlo_reader import from_stablehlo_module, spec_of_type, split_text

X = np.arange(3, dtype=np.float32)


def read(text: str) -> Any:
    return from_stablehlo_module(_jaxlib.parse(text))


def program(x: Any, n: Any) -> Any:
    looped = xlapy.fori_loop(0, n, lambda i, c: ops.sin(c) * x, x)
    chosen = xlapy.cond(n > 1, lambda: ops.reduce(looped, 0.0, ops.add, (0,)), lambda: x[0])
    return chosen, ops.sort(x)


def test_what_is_written_is_read_as_the_same() -> None:
    computation = xlapy.compile(program).trace(X, 3)
    text = to_stablehlo(computation)
    again = read(text)
    assert again.parameter_specs == computation.parameter_specs
    assert again.result_specs == computation.result_specs
    assert to_stablehlo(again, module_name="m", locations=False) == to_stablehlo(
        computation, module_name="m", locations=False
    )


def test_the_users_lines_are_in_it() -> None:
    def f(x: Any) -> Any:
        return ops.sin(x)

    text = to_stablehlo(xlapy.compile(f).trace(X))
    line = f.__code__.co_firstlineno + 1
    assert re.search(rf'"{re.escape(__file__)}":{line}:\d+', text)
    assert "loc(" not in to_stablehlo(xlapy.compile(f).trace(X), locations=False)
    again = read(text)
    assert again.instructions[0].source.line == line


SHARED = {
    "an operation": lambda x: ops.reduce(x, 0.0, ops.add, (0,)),
    "a function of numpy's": lambda x: xlapy.max(x),
    "positions": lambda x: ops.argmax(x, "s32", 0),
    "a scan": lambda x: ops.reduce_window(x, 0.0, ops.add, (3,), (1,), padding=((2, 0),)),
    "ordered": lambda x: xlapy.sort(x),
}


def regions_and_lines(text: str) -> tuple[int, list[int]]:
    """How many operations have regions, and the lines of the user's that stand in the text, each once."""
    return len(re.findall("\n}", text)) - 2, [int(n) for n in re.findall(r'py":(\d+):', text)]


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_computation_has_the_line_of_each_use(name: str) -> None:
    use = SHARED[name]

    def first(x: Any) -> Any:
        return use(x)

    def second(x: Any) -> Any:
        return use(x)

    code = use.__code__.co_firstlineno
    for f in (first, second, lambda x: first(x) + second(x)):
        text = to_stablehlo(xlapy.compile(f).trace(X))
        assert "#here" not in text
        regions, lines = regions_and_lines(text)
        assert regions >= 1
        assert set(lines) <= {code, f.__code__.co_firstlineno}
        for inner in re.findall(r"\n\^bb0.*?\n}.*", text, re.DOTALL):
            assert len(set(re.findall(r"loc\((#l\d+)\)", inner.split("\n}")[0]))) == 1, inner


def test_a_shared_computation_is_differentiated_for_the_line_of_its_use() -> None:
    ops.reduce(X, 1.0, ops.mul, (0,))

    def f(x: Any) -> Any:
        return ops.reduce(x, 1.0, ops.mul, (0,))

    def whole(x: Any) -> Any:
        return xlapy.grad(f)(x)

    computation = xlapy.compile(whole).trace(X)
    lines = [locate(i.source).line for i in computation.instructions]
    assert set(lines) == {f.__code__.co_firstlineno + 1, whole.__code__.co_firstlineno + 1}
    assert (
        lines.count(whole.__code__.co_firstlineno + 1) == 2
    )  # the copy of x, and what grad starts with


def test_options() -> None:
    computation = xlapy.compile(lambda x: x).trace(X)
    text = to_stablehlo(
        computation,
        name="entry",
        module_name="a module",
        locations=False,
        parameter_attributes={0: "jax.buffer_donor = true"},
        module_attributes="mhlo.num_replicas = 2 : i32",
    )
    assert "@entry(" in text
    assert "jax.buffer_donor = true" in text
    assert "mhlo.num_replicas = 2 : i32" in text
    assert str(_jaxlib.parse(text))


CONSTANTS = [
    np.array([np.nan, np.inf, -np.inf, -0.0, 0.1], np.float32),
    np.array([5e-324, -1.7976931348623157e308]),
    np.array([65504, 6e-8], np.float16),
    np.array([[1 + 2j, complex(np.nan, -0.0)]], np.complex64),
    np.array([2**63 - 1, -(2**63)]),
    np.array([2**64 - 1, 0], np.uint64),
    np.array([-128, 127], np.int8),
    np.array([True, False, True]),
    np.array(3.5, np.float32),
    np.zeros((0, 3), np.float32),
    np.broadcast_to(np.float32(-0.0), (4, 5)),
    np.arange(24, dtype=np.int16).reshape(2, 3, 4),
]


@pytest.mark.parametrize("value", CONSTANTS, ids=lambda v: f"{v.dtype}{list(v.shape)}")
def test_constants_are_exact(value: np.ndarray) -> None:
    text = to_stablehlo(xlapy.compile(lambda: ops.constant(value)).trace())
    (found,) = [i.params["value"] for i in read(text).instructions]
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert found.tobytes() == np.ascontiguousarray(value).tobytes()
    assert "dense<" in constant_text(value)


@pytest.mark.parametrize(
    "spec",
    ["f32[]", "f32[3,4]", "pred[2]", "s4[8]", "u64[1]", "bf16[0,2]", "c128[2]", "f8e4m3fn[4]", "f32[<=8,2]",
     "token[]", "(f32[2], s32[])", "((f32[]), token[])"],
)  # fmt: skip
def test_types(spec: str) -> None:
    parsed = parse_spec(spec)
    assert spec_of_type(parsed.mlir) == parsed


def test_splitting_leaves_what_is_bracketed_together() -> None:
    assert split_text("a, b<c, d>, (e, [f, g]), {h, i}") == [
        "a",
        "b<c, d>",
        "(e, [f, g])",
        "{h, i}",
    ]
    assert split_text("") == []


MODULE = """
module {{
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {{
    {}
    return %0 : tensor<3xf32>
  }}
}}
"""


def test_by_hand() -> None:
    found = read(MODULE.format("%0 = stablehlo.sine %arg0 : tensor<3xf32>"))
    assert [i.op.name for i in found.instructions] == ["sin"]
    called = read(
        "module { func.func public @main(%x: tensor<f32>) -> tensor<f32> {"
        " %0 = call @inner(%x) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }"
        " func.func private @inner(%x: tensor<f32>) -> tensor<f32> {"
        " %0 = stablehlo.negate %x : tensor<f32> return %0 : tensor<f32> } }"
    )
    assert str(called.result_specs[0]) == "f32[]"


def test_what_is_refused() -> None:
    for text in ("", "module", "module {", "func.func", "not a program", MODULE.format("%0 = ")):
        with pytest.raises(ArtifactError):
            xlapy.from_stablehlo(text or " ")
    with pytest.raises(ArtifactError, match="X6"):
        xlapy.from_stablehlo("module { }")
    with pytest.raises(UnsupportedOpError, match="math"):
        xlapy.from_stablehlo(
            MODULE.format('%0 = "math.exp"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>')
        )


def test_python_functions_have_no_text() -> None:
    spec = xlapy.TensorSpec((3,), "f32")

    def f(x: Any) -> Any:
        return ops.python_callback(np.sin, [x], spec)

    with pytest.raises(UnsupportedOpError, match="python_callback"):
        xlapy.export(f, spec)
