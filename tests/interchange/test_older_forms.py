"""Forms of StableHLO text that other programs write and that are not written here."""

import numpy as np
import pytest

import xlapy

BACKENDS = ("interpreter", "pjrt:cpu")

CHOLESKY = """func.func @main(%x: tensor<3x3xf64>) -> tensor<3x3xf64> {
  %f:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%x) {
    backend_config = "", mhlo.backend_config = {uplo = LETTER : ui8},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
  } : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i32>)
  return %f#0 : tensor<3x3xf64>
}"""
TOP = """func.func @larger(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @main(%x: tensor<30xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %i = stablehlo.iota dim = 0 : tensor<30xi32>
  %none = stablehlo.constant dense<-1> : tensor<i32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %least, %none) {
    backend_config = "", called_computations = [@larger],
    mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.95 : f32,
                           reduction_dim = 0 : i64, reduction_input_size_override = -1 : i64, top_k = 3 : i64}
  } : (tensor<30xf32>, tensor<30xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %r#0, %r#1 : tensor<3xf32>, tensor<3xi32>
}"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("letter", "LU")
def test_attributes_beside_backend_config(backend: str, letter: str) -> None:
    """Typed attributes of a custom call in an attribute of MHLO's."""
    a = np.random.default_rng(0).standard_normal((3, 3))
    x = a @ a.T + np.eye(3)
    f = xlapy.from_stablehlo(CHOLESKY.replace("LETTER", str(ord(letter))))
    again = xlapy.from_stablehlo(xlapy.export(f).stablehlo_text)
    factor = np.linalg.cholesky(x)
    for each in (f, again):
        found = each(x, backend=backend).numpy()
        kept = np.tril(found) if letter == "L" else np.triu(found).T
        np.testing.assert_allclose(kept, factor, rtol=1e-12)


def test_attributes_that_xla_finds_nowhere_else() -> None:
    x = np.random.default_rng(0).permutation(30).astype(np.float32)
    f = xlapy.from_stablehlo(TOP)
    for each in (f, xlapy.from_stablehlo(xlapy.export(f).stablehlo_text)):
        values, places = each(x, backend="pjrt:cpu")
        np.testing.assert_array_equal(values.numpy(), [29, 28, 27])
        np.testing.assert_array_equal(x[places.numpy()], [29, 28, 27])
