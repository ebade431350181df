"""Regions of StableHLO programs that use values from outside."""

import numpy as np
import pytest

import xlapy
from xlapy.errors import UnsupportedOpError

BACKENDS = ("interpreter", "pjrt:cpu")

REDUCE = """func.func @main(%x: tensor<4xi32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  OUTSIDE
  %r = stablehlo.reduce(%x init: %zero) across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
    reducer(%a: tensor<i32>, %b: tensor<i32>) {
      INSIDE
      %s = stablehlo.add %a, %b : tensor<i32>
      %l = stablehlo.minimum %s, %limit : tensor<i32>
      stablehlo.return %l : tensor<i32>
    }
  return %r : tensor<i32>
}"""
LIMIT = "%limit = stablehlo.constant dense<7> : tensor<i32>"


@pytest.mark.parametrize("place", ["OUTSIDE", "INSIDE"])
@pytest.mark.parametrize("portable", [False, True])
def test_constants(place: str, portable: bool) -> None:
    """A body may use constants from outside; MLIR moves them there itself where it writes bytes."""
    f = xlapy.from_stablehlo(
        REDUCE.replace(place, LIMIT).replace("OUTSIDE", "").replace("INSIDE", "")
    )
    if portable:
        f = xlapy.from_stablehlo(xlapy.export(f).serialize())
    for backend in BACKENDS:
        assert f(np.array([1, 2, 3, 4], np.int32), backend=backend).item() == 7
        assert f(np.array([1, 2, 0, 1], np.int32), backend=backend).item() == 4


def test_returned_constants() -> None:
    """Branches that give constants from outside, within other regions."""
    f = xlapy.from_stablehlo("""func.func @main(%p: tensor<i1>, %q: tensor<i1>) -> tensor<i32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r = "stablehlo.if"(%p) ({
    %i = "stablehlo.if"(%q) ({
      stablehlo.return %one : tensor<i32>
    }, {
      stablehlo.return %two : tensor<i32>
    }) : (tensor<i1>) -> tensor<i32>
    %s = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }, {
    stablehlo.return %two : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>
  return %r : tensor<i32>
}""")
    for backend in BACKENDS:
        found = [
            f(np.bool_(p), np.bool_(q), backend=backend).item() for p in (1, 0) for q in (1, 0)
        ]
        assert found == [3, 4, 2, 2]


def test_other_values() -> None:
    """A body that uses what is computed outside can not be run by XLA."""
    with pytest.raises(UnsupportedOpError, match="outer values"):
        xlapy.from_stablehlo(
            REDUCE.replace("OUTSIDE", "%limit = stablehlo.add %zero, %zero : tensor<i32>").replace(
                "INSIDE", ""
            )
        )
