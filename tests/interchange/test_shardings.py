"""Programs that say how arrays are to be divided among devices."""

import numpy as np
import pytest

import xlapy
from xlapy.errors import UnsupportedOpError

X = np.arange(8, dtype=np.float32)
BACKENDS = ["pjrt:cpu", "interpreter"]

SHARDY = """
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32>
      {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %c = stablehlo.constant dense<2.0> : tensor<8xf32>
    BODY
    return %r : tensor<8xf32>
  }
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "body",
    [
        "%r = stablehlo.add %x, %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : tensor<8xf32>",
        "%y = sdy.sharding_constraint %x <@mesh, [{\"x\"}]> : tensor<8xf32>\n"
        "%r = stablehlo.multiply %y, %c : tensor<8xf32>",
        "%y = sdy.reshard %x <@mesh, [{}]> : tensor<8xf32>\n%r = stablehlo.multiply %y, %c : tensor<8xf32>",
        "%y = sdy.propagation_barrier %x allowed_direction = NONE : tensor<8xf32>\n"
        "%r = stablehlo.multiply %y, %c : tensor<8xf32>",
        "sdy.sharding_group %x group_id = 21 : tensor<8xf32>\n%r = stablehlo.multiply %x, %c : tensor<8xf32>",
        "%r = sdy.named_computation<\"double\">(%x) (%y: tensor<8xf32>) {\n"
        "%z = stablehlo.add %y, %y : tensor<8xf32>\n"
        "sdy.return %z : tensor<8xf32>\n} : (tensor<8xf32>) -> tensor<8xf32>",
        "%y = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = \"{devices=[4]<=[4]}\"} :"
        " (tensor<8xf32>) -> tensor<8xf32>\n%r = stablehlo.multiply %y, %c : tensor<8xf32>",
    ],
)  # fmt: skip
def test_annotations_change_no_value(body: str, backend: str) -> None:
    f = xlapy.from_stablehlo(SHARDY.replace("BODY", body))
    assert f(X, backend=backend).tolist() == (2 * X).tolist()
    assert xlapy.export(f).load()(X, backend=backend).tolist() == (2 * X).tolist()


def test_the_sharding_of_a_call_is_kept() -> None:
    body = '%r = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[4]<=[4]}"} :\n'
    f = xlapy.from_stablehlo(SHARDY.replace("BODY", body + " (tensor<8xf32>) -> tensor<8xf32>"))
    assert 'mhlo.sharding = "{devices=[4]<=[4]}"' in xlapy.export(f).stablehlo_text


def test_parts_on_devices_of_their_own() -> None:
    body = """%r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]
      manual_axes={"x"} (%y: tensor<2xf32>) {
        %z = stablehlo.add %y, %y : tensor<2xf32>
        sdy.return %z : tensor<2xf32>
      } : (tensor<8xf32>) -> tensor<8xf32>"""
    with pytest.raises(UnsupportedOpError, match="sdy.manual_computation"):
        xlapy.from_stablehlo(SHARDY.replace("BODY", body))
