"""Programs over arrays of any size: each call is one of the program for the sizes of its arguments."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy.errors import ArtifactError, DTypeError, ShapeError, UnsupportedOpError

BACKENDS = ["pjrt:cpu", "interpreter"]
X = np.arange(12, dtype=np.float32).reshape(4, 3)

#: the start of a program: %n is the number of rows, %shape those of an array as large as the argument
HEAD = """
func.func @main(%x: tensor<?x3xf32>) -> RESULT {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %three = stablehlo.constant dense<3> : tensor<1xi32>
  %zeros = stablehlo.constant dense<0> : tensor<2xi32>
  %ones = stablehlo.constant dense<1> : tensor<2xi32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %shape = stablehlo.concatenate %n1, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  BODY
  return %r : RESULT
}
"""


def program(body: str, result: str = "tensor<?x3xf32>", more: str = "") -> str:
    """A program of one parameter."""
    return HEAD.replace("RESULT", result).replace("BODY", body) + more


BODIES: dict[str, tuple[str, str, Any]] = {
    "elementwise": ("%r = stablehlo.add %x, %x : tensor<?x3xf32>", "tensor<?x3xf32>", lambda x: x + x),
    "dynamic_broadcast_in_dim": (
        "%r = stablehlo.dynamic_broadcast_in_dim %zero, %shape, dims = [] :"
        " (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>",
        "tensor<?x3xf32>", np.zeros_like,
    ),
    "dynamic_iota": (
        "%r = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<2xi32>) -> tensor<?x3xf32>", "tensor<?x3xf32>",
        lambda x: np.broadcast_to(np.arange(len(x), dtype=np.float32)[:, None], x.shape),
    ),
    "dynamic_reshape": (
        "%m = stablehlo.multiply %n1, %three : tensor<1xi32>\n"
        "%r = stablehlo.dynamic_reshape %x, %m : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>",
        "tensor<?xf32>", np.ravel,
    ),
    "dynamic_pad": (
        "%low = stablehlo.concatenate %n1, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%r = stablehlo.dynamic_pad %x, %zero, %low, %zeros, %zeros : (tensor<?x3xf32>, tensor<f32>, tensor<2xi32>,"
        " tensor<2xi32>, tensor<2xi32>) -> tensor<?x4xf32>",
        "tensor<?x4xf32>", lambda x: np.pad(x, ((len(x), 0), (1, 0))),
    ),
    "real_dynamic_slice": (
        "%m = stablehlo.subtract %n1, %one : tensor<1xi32>\n"
        "%limit = stablehlo.concatenate %m, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%r = stablehlo.real_dynamic_slice %x, %zeros, %limit, %ones : (tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>,"
        " tensor<2xi32>) -> tensor<?x3xf32>",
        "tensor<?x3xf32>", lambda x: x[:-1],
    ),
    "a slice of a size that is known at a place that is not": (
        "%sum = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [0, 1] :"
        " (tensor<?x3xf32>, tensor<f32>) -> tensor<f32>\n"
        "%at = stablehlo.convert %sum : (tensor<f32>) -> tensor<i32>\n"
        "%two = stablehlo.constant dense<2> : tensor<i32>\n"
        "%first = stablehlo.remainder %at, %two : tensor<i32>\n"
        "%f1 = stablehlo.reshape %first : (tensor<i32>) -> tensor<1xi32>\n"
        "%z1 = stablehlo.constant dense<0> : tensor<1xi32>\n"
        "%start = stablehlo.concatenate %f1, %z1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%m = stablehlo.subtract %n1, %one : tensor<1xi32>\n"
        "%size = stablehlo.concatenate %m, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%limit = stablehlo.add %start, %size : tensor<2xi32>\n"
        "%r = stablehlo.real_dynamic_slice %x, %start, %limit, %ones : (tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>,"
        " tensor<2xi32>) -> tensor<?x3xf32>",
        "tensor<?x3xf32>", lambda x: x[int(x.max()) % 2 :][: len(x) - 1],
    ),
    "dynamic_gather": (
        "%i = stablehlo.constant dense<[[0], [1]]> : tensor<2x1xi32>\n"
        "%m = stablehlo.divide %n1, %n1 : tensor<1xi32>\n"
        "%size = stablehlo.concatenate %m, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        '%r = "stablehlo.dynamic_gather"(%x, %i, %size) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],'
        " start_index_map = [0], index_vector_dim = 1>}> : (tensor<?x3xf32>, tensor<2x1xi32>, tensor<2xi32>) ->"
        " tensor<2x?x3xf32>",
        "tensor<2x?x3xf32>", lambda x: x[:2][:, None],
    ),
    "dynamic_conv": (
        "%s = stablehlo.constant dense<[1, 1, 3, 0]> : tensor<4xi32>\n"
        "%z1 = stablehlo.constant dense<1> : tensor<1xi32>\n"
        "%four = stablehlo.concatenate %z1, %n1, %three, %z1, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,"
        " tensor<1xi32>) -> tensor<4xi32>\n"
        "%y = stablehlo.dynamic_reshape %x, %four : (tensor<?x3xf32>, tensor<4xi32>) -> tensor<1x?x3x1xf32>\n"
        "%k = stablehlo.constant dense<1.0> : tensor<2x1x1x1xf32>\n"
        "%m = stablehlo.subtract %n1, %n1 : tensor<1xi32>\n"
        "%m4 = stablehlo.concatenate %m, %one, %m, %m, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,"
        " tensor<1xi32>) -> tensor<4xi32>\n"
        "%p = stablehlo.reshape %m4 : (tensor<4xi32>) -> tensor<2x2xi32>\n"
        '%r = "stablehlo.dynamic_conv"(%y, %k, %p) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64,'
        " dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>}> :"
        " (tensor<1x?x3x1xf32>, tensor<2x1x1x1xf32>, tensor<2x2xi32>) -> tensor<1x?x3x1xf32>",
        "tensor<1x?x3x1xf32>", lambda x: (x + np.concatenate([x[1:], 0 * x[:1]]))[None, ..., None],
    ),
    "a window over sizes that have to be known": (
        '%r = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 2, 1>}> ({\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "%c = stablehlo.add %a, %b : tensor<f32>\n"
        '"stablehlo.return"(%c) : (tensor<f32>) -> ()\n'
        "}) : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>",
        "tensor<?x3xf32>", lambda x: x[1:] + x[:-1],
    ),
    "a loop that hands the size on": (
        "%i0 = stablehlo.constant dense<0> : tensor<i32>\n"
        "%r, %k, %j = stablehlo.while(%a = %x, %c = %n, %i = %i0) : tensor<?x3xf32>, tensor<i32>, tensor<i32>\n"
        "cond { %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "stablehlo.return %p : tensor<i1> }\n"
        "do { %s = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>\n"
        "%t = stablehlo.concatenate %s, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%f = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "%q = stablehlo.dynamic_broadcast_in_dim %f, %t, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>\n"
        "%u = stablehlo.add %a, %q : tensor<?x3xf32>\n"
        "%o = stablehlo.constant dense<1> : tensor<i32>\n"
        "%v = stablehlo.add %i, %o : tensor<i32>\n"
        "stablehlo.return %u, %c, %v : tensor<?x3xf32>, tensor<i32>, tensor<i32> }",
        "tensor<?x3xf32>", lambda x: x + len(x),
    ),
    "branches": (
        "%p = stablehlo.compare GT, %n, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        '%r = "stablehlo.if"(%p) ({ "stablehlo.return"(%x) : (tensor<?x3xf32>) -> () }, {\n'
        "%y = stablehlo.negate %x : tensor<?x3xf32>\n"
        '"stablehlo.return"(%y) : (tensor<?x3xf32>) -> () }) : (tensor<i1>) -> tensor<?x3xf32>',
        "tensor<?x3xf32>", np.negative,
    ),
    "sizes that are clamped, compared and chosen": (
        "%five = stablehlo.constant dense<5> : tensor<i32>\n"
        "%two = stablehlo.constant dense<2> : tensor<i32>\n"
        "%a = stablehlo.clamp %two, %n, %five : tensor<i32>\n"
        "%p = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "%b = stablehlo.select %p, %two, %a : tensor<i1>, tensor<i32>\n"
        "%s = stablehlo.sign %b : tensor<i32>\n"
        "%m = stablehlo.multiply %b, %s : tensor<i32>\n"
        "%t = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>\n"
        "%r = stablehlo.dynamic_iota %t, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>",
        "tensor<?xf32>", lambda x: np.arange(2 if len(x) > 5 else len(x), dtype=np.float32),
    ),
    "calls of one function with several sizes": (
        "%m = func.call @twice(%n) : (tensor<i32>) -> tensor<i32>\n"
        "%a = func.call @range(%m) : (tensor<i32>) -> tensor<?xf32>\n"
        "%b = func.call @range(%n) : (tensor<i32>) -> tensor<?xf32>\n"
        "%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>",
        "tensor<?xf32>", lambda x: np.concatenate([np.arange(2.0 * len(x)), np.arange(len(x))]).astype(np.float32),
    ),
    "conversions to and from a size that is not said": (
        "%y = stablehlo.convert %ones : (tensor<2xi32>) -> tensor<?xf32>\n"
        "%r = stablehlo.add %y, %y : tensor<?xf32>",
        "tensor<?xf32>", lambda x: np.float32([2, 2]),
    ),
    "a top_k of a number that is computed": (
        '%r, %i = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) : (tensor<?x3xf32>, tensor<i32>)'
        " -> (tensor<?x?xf32>, tensor<?x?xi32>)",
        "tensor<?x?xf32>", lambda x: x[:, :0:-1],
    ),
    "an array beside its shape": (
        '%r = stablehlo.custom_call @stablehlo.shape_refinement_operand_wrapper(%x, %shape) :'
        " (tensor<?x3xf32>, tensor<2xi32>) -> tensor<?x3xf32>",
        "tensor<?x3xf32>", lambda x: x,
    ),
    "a window that is computed": (
        "%w = stablehlo.constant dense<[2, 1]> : tensor<2xi32>\n"
        "%p = stablehlo.constant dense<[[0, 1], [0, 0]]> : tensor<2x2xi32>\n"
        "%r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %zero, %w, %ones, %ones, %ones, %p)"
        " {called_computations = [@add]} : (tensor<?x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>,"
        " tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x3xf32>",
        "tensor<?x3xf32>", lambda x: x + np.concatenate([x[1:], 0 * x[:1]]),
    ),
    "a library's function that is given shapes": (
        "%s = stablehlo.constant dense<9.0> : tensor<f32>\n"
        "%e = stablehlo.dynamic_broadcast_in_dim %s, %cube, dims = [] : (tensor<f32>, tensor<3xi32>)"
        " -> tensor<?x1x1xf32>\n"
        "%r, %i = stablehlo.custom_call @lapack_spotrf_ffi(%e, %cube, %n1) {mhlo.backend_config = {uplo = 76 : ui8},"
        " indices_of_shape_operands = dense<[1, 2]> : tensor<2xi64>, operand_layouts = [dense<[1, 2, 0]> :"
        " tensor<3xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<[1, 2, 0]>"
        " : tensor<3xindex>, dense<0> : tensor<1xindex>]} : (tensor<?x1x1xf32>, tensor<3xi32>, tensor<1xi32>) ->"
        " (tensor<?x1x1xf32>, tensor<?xi32>)",
        "tensor<?x1x1xf32>", lambda x: np.full((len(x), 1, 1), 3, np.float32),
    ),
}  # fmt: skip
BEFORE = {
    "a top_k": "%k = stablehlo.constant dense<2> : tensor<i32>\n",
    "a library": (
        "%cube = stablehlo.concatenate %n1, %one, %one, dim = 0 :"
        " (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>\n"
    ),
}
FUNCTIONS = """
func.func private @twice(%n: tensor<i32>) -> tensor<i32> {
  %m = stablehlo.add %n, %n : tensor<i32>
  return %m : tensor<i32>
}
func.func private @range(%n: tensor<i32>) -> tensor<?xf32> {
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %c = stablehlo.add %a, %b : tensor<f32>
  return %c : tensor<f32>
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BODIES)
def test_programs(name: str, backend: str) -> None:
    body, result, expected = BODIES[name]
    before = next((text for start, text in BEFORE.items() if name.startswith(start)), "")
    f = xlapy.from_stablehlo(program(before + body, result, FUNCTIONS))
    for x in (X, X[:2], np.concatenate([X, X])):
        found = f(x, backend=backend).numpy()
        want = expected(x)
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)


def simple(body: str = "%r = stablehlo.sine %x : tensor<?x3xf32>") -> Any:
    return xlapy.from_stablehlo(program(body))


def test_specs_and_form() -> None:
    f = simple()
    assert [str(s) for s in (*f.parameter_specs, *f.result_specs)] == ["f32[?,3]", "f32[?,3]"]
    assert "sin" in repr(f)
    again = xlapy.export(f).load()
    np.testing.assert_array_equal(again(X).numpy(), f(X).numpy())


def test_what_needs_to_know_sizes_has_no_form_without_them() -> None:
    """Nevertheless it runs."""
    text = """
    func.func @main(%x: tensor<?x4xcomplex<f32>>) -> tensor<?x4xcomplex<f32>> {
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xcomplex<f32>>) -> tensor<i32>
      %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %four = stablehlo.constant dense<4> : tensor<1xi32>
      %shape = stablehlo.concatenate %four, %s, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %y = stablehlo.dynamic_reshape %x, %shape : (tensor<?x4xcomplex<f32>>, tensor<2xi32>) -> tensor<4x?xcomplex<f32>>
      %z = stablehlo.fft %y, type = FFT, length = [2] : (tensor<4x?xcomplex<f32>>) -> tensor<4x?xcomplex<f32>>
      %back = stablehlo.concatenate %s, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %r = stablehlo.dynamic_reshape %z, %back : (tensor<4x?xcomplex<f32>>, tensor<2xi32>) -> tensor<?x4xcomplex<f32>>
      return %r : tensor<?x4xcomplex<f32>>
    }"""
    f = xlapy.from_stablehlo(text)
    assert repr(f) == "main(c64[?,4]) -> c64[?,4]"
    x = np.arange(8, dtype=np.complex64).reshape(2, 4)
    found = f(x).numpy()
    np.testing.assert_allclose(found, np.fft.fft(x.reshape(4, 2)).reshape(2, 4), rtol=1e-6)
    with pytest.raises(ShapeError, match="known sizes"):
        _ = f.computation
    with pytest.raises(ShapeError, match="known sizes"):
        xlapy.export(f)


@pytest.mark.parametrize("backend", BACKENDS)
def test_transformations(backend: str) -> None:
    f = simple()
    with xlapy.use_backend(backend):
        found = xlapy.grad(lambda x: xlapy.sum(f(x)))(X)
        np.testing.assert_allclose(found.numpy(), np.cos(X), rtol=1e-6)
        rows = xlapy.vmap(f)(np.stack([X, X + 1]))
        np.testing.assert_allclose(rows.numpy(), np.sin([X, X + 1]), rtol=1e-6)
        inner = xlapy.compile(lambda x: f(x) + f(x * 2))(X)
        np.testing.assert_allclose(inner.numpy(), np.sin(X) + np.sin(2 * X), rtol=1e-6)


def test_one_program_for_each_size() -> None:
    f = simple()
    for rows in range(1, 80):
        assert f(np.zeros((rows, 3), np.float32), backend="interpreter").shape == (rows, 3)
    assert f._any_size is not None
    assert len(f._any_size._known) <= 64


def test_arguments_that_do_not_fit() -> None:
    f = simple()
    for wrong in (X[0], X[:, :2], X.astype(np.float64), np.zeros((2, 3, 3), np.float32)):
        with refused(DTypeError, r"argument 0 must be f32\[\?,3\]"):
            f(wrong)
    with refused(DTypeError, "1 arguments"):
        f(X, X)


# --- assertions -----------------------------------------------------------------------------------------------------

ASSERTED = program("""
  %two = stablehlo.constant dense<2> : tensor<i32>
  %rest = stablehlo.remainder %n, %two : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %ok = stablehlo.compare EQ, %rest, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%ok, %n) {error_message = "Expected an even size, obtained {0}",
    has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
  %r = stablehlo.negate %x : tensor<?x3xf32>
""")


@pytest.mark.parametrize("backend", BACKENDS)
def test_assertions_of_shapes(backend: str) -> None:
    f = xlapy.from_stablehlo(ASSERTED)
    for g in (f, xlapy.from_stablehlo(xlapy.export(f).stablehlo_text), xlapy.export(f).load()):
        np.testing.assert_array_equal(g(X, backend=backend).numpy(), -X)
        with refused(ShapeError, "Expected an even size, obtained 3; got 3"):
            g(X[:3], backend=backend)


def test_assertions_of_what_is_computed_run() -> None:
    text = """
    func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %ok = stablehlo.compare GT, %x, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%ok, %x) {error_message = "positive, obtained {0}",
        has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
      return %x : tensor<i32>
    }"""
    f = xlapy.from_stablehlo(text)
    assert f(3, backend="interpreter").item() == 3
    with refused(ShapeError, "positive, obtained -2"):
        f(-2, backend="interpreter")
    with refused(UnsupportedOpError, "shape_assertion"):
        f(3, backend="pjrt:cpu")


def test_a_negative_size() -> None:
    f = simple(
        "%m = stablehlo.subtract %one, %n1 : tensor<1xi32>\n"
        "%s = stablehlo.concatenate %m, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%r = stablehlo.dynamic_broadcast_in_dim %zero, %s, dims = [] :"
        " (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>"
    )
    assert f(X[:1], backend="interpreter").shape == (0, 3)
    with refused(ShapeError, "must not be negative"):
        f(X, backend="interpreter")


def test_a_result_of_another_size_than_declared() -> None:
    f = simple(
        "%s = stablehlo.concatenate %n1, %n1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        "%r = stablehlo.dynamic_broadcast_in_dim %zero, %s, dims = [] :"
        " (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>"
    )
    with refused(ArtifactError, "must be what the operation gives"):
        f(X, backend="interpreter")


# --- other attributes of custom calls -------------------------------------------------------------------------------


def test_further_attributes_are_kept() -> None:
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %r = stablehlo.custom_call @example(%x) {my.note = "a, {b}", level = 3 : i32, mhlo.sharding = "{replicated}"} :
        (tensor<2xf32>) -> tensor<2xf32>
      return %r : tensor<2xf32>
    }"""
    written = xlapy.export(xlapy.from_stablehlo(text)).stablehlo_text
    assert 'my.note = "a, {b}"' in written
    assert "level = 3 : i32" in written
    assert 'mhlo.sharding = "{replicated}"' in written
    assert repr(xlapy.from_stablehlo(written).computation).count("level = 3") == 1


@pytest.mark.parametrize(
    "target",
    [
        "xla_ffi_python_cpu_callback", "xla_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback",
        "xla_python_gpu_callback", "xla_buffer_python_cpu_callback",
    ],
)  # fmt: skip
def test_functions_of_another_process(target: str) -> None:
    """XLA would call what lies at an address of the process that wrote the program."""
    text = f"""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
      %r = stablehlo.custom_call @{target}(%x) {{api_version = 4 : i32, backend_config = {{index = 0 : ui64}}}} :
        (tensor<2xf32>) -> tensor<2xf32>
      return %r : tensor<2xf32>
    }}"""
    with pytest.raises(UnsupportedOpError, match="python_callback"):
        xlapy.from_stablehlo(text)


@pytest.mark.parametrize("version", [1, 4])
def test_libraries_that_are_not_there(version: int) -> None:
    text = f"""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
      %r = stablehlo.custom_call @nowhere(%x) {{api_version = {version} : i32}} : (tensor<2xf32>) -> tensor<2xf32>
      return %r : tensor<2xf32>
    }}"""
    f = xlapy.from_stablehlo(text)
    for backend in BACKENDS:
        with pytest.raises(UnsupportedOpError, match="nowhere"):
            f(X[0, :2], backend=backend)
    f = xlapy.from_stablehlo(text.replace("nowhere", '"__onednn$softmax"'))
    with pytest.raises(UnsupportedOpError, match="onednn"):
        f(X[0, :2], backend="pjrt:cpu")
