"""Forms of StableHLO text that other programs write and that are not written here."""

import numpy as np
import pytest

import xlapy
from xlapy.errors import ArtifactError, UnsupportedOpError

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


OLDER = {
    "broadcast": (
        '"stablehlo.broadcast"(%x) {broadcast_sizes = array<i64: 2, 1>} : (tensor<3xf32>) -> tensor<2x1x3xf32>',
        "tensor<2x1x3xf32>",
        lambda x: np.broadcast_to(x, (2, 1, 3)),
    ),
    "cross_replica_sum": (
        '"stablehlo.cross-replica-sum"(%x) {replica_groups = dense<[[0]]> : tensor<1x1xi64>}'
        " : (tensor<3xf32>) -> tensor<3xf32>",
        "tensor<3xf32>",
        lambda x: x,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OLDER)
@pytest.mark.parametrize("backend", BACKENDS)
def test_older_operations(name: str, backend: str) -> None:
    call, kind, expected = OLDER[name]
    f = xlapy.from_stablehlo(
        f"func.func @main(%x: tensor<3xf32>) -> {kind} {{\n  %r = {call}\n  return %r : {kind}\n}}"
    )
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(f(x, backend=backend).numpy(), expected(x))


RESOURCE = """func.func @main() -> tensor<KIND> {
  %r = stablehlo.constant dense_resource<NAME> : tensor<KIND>
  return %r : tensor<KIND>
}
{-#
  dialect_resources: { builtin: { one: "0x040000000000803F00000040", bits: "0x01000000010001", two: "0x0400000001" } }
#-}"""


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("one", "2xf32", np.array([1, 2], np.float32)),
        ("one", "2x2xi16", np.array([[0, 0x3F80], [0, 0x4000]], np.int16)),
        ("bits", "3xi1", np.array([True, False, True])),
    ],
)
def test_constants_at_the_end(name: str, kind: str, expected: np.ndarray) -> None:
    """The bytes of a constant may stand at the end of the text."""
    f = xlapy.from_stablehlo(RESOURCE.replace("KIND", kind).replace("NAME", name))
    for backend in BACKENDS:
        found = f(backend=backend).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_constants_without_values() -> None:
    """What leaves them out, has too few, or lists those that are not zero."""
    with pytest.raises(ArtifactError, match="leaves those of __elided__ out(.|\n)*line 2"):
        xlapy.from_stablehlo(
            RESOURCE.split("{-#")[0].replace("KIND", "2xf32").replace("NAME", "__elided__")
        )
    with pytest.raises(ArtifactError, match="bytes of(.|\n)*line 2"):
        xlapy.from_stablehlo(RESOURCE.replace("KIND", "2xf32").replace("NAME", "two"))
    with pytest.raises(UnsupportedOpError, match="dense(.|\n)*line 2"):
        xlapy.from_stablehlo("""func.func @main() -> tensor<2xi32> {
  %r = stablehlo.constant sparse<[[1]], [5]> : tensor<2xi32>
  return %r : tensor<2xi32>
}""")
