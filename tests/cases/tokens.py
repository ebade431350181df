"""Cases of after_all, create_token, infeed and outfeed; queues and their errors are in tests/ops/test_tokens.py."""

from __future__ import annotations

from cases import ErrorCase, OpCase
from xlapy.specs import parse_spec

#: the checks that run an operation, or its derivative
RUNS = ("kernel", "pjrt", "vmap", "jvp", "vjp")
NOTHING = {"pjrt": "XLA waits for ever"}
HOST = dict.fromkeys(RUNS, "needs the host; see tests/ops/test_tokens.py")


def infeed(*results: str, **given: object) -> dict[str, object]:
    """Parameters of an infeed."""
    specs = tuple(map(parse_spec, results))
    return {"results": specs, "infeed_config": "", "layout": None, **given}


CASES: list[OpCase] = [
    OpCase("create_token", []),
    OpCase("after_all", []),
    OpCase("after_all", ["token[]"]),
    OpCase("after_all", ["token[]", "token[]", "token[]"]),
    OpCase("infeed", ["token[]"], infeed("f32[2,3]"), skip=HOST, name="array"),
    OpCase("infeed", ["token[]"], infeed("f32[2,3]", "s4[]", "c64[0]", infeed_config='a "b"\n\\'),
           skip=HOST, name="config"),
    OpCase("infeed", ["token[]"], infeed("f32[2,3]", "pred[]", layout=((0, 1), ())), skip=HOST, name="layout"),
    OpCase("infeed", ["token[]"], infeed(), skip=NOTHING, name="nothing"),
    OpCase("outfeed", ["f32[2,3]", "token[]"], {"outfeed_config": ""}, skip=HOST),
    OpCase("outfeed", ["f32[2]", "pred[]", "s4[3]", "token[]"], {"outfeed_config": "c"}, skip=HOST),
    OpCase("outfeed", ["token[]"], {"outfeed_config": ""}, skip=NOTHING, name="nothing"),
]  # fmt: skip

T = ["token[]"]
ERRORS: list[ErrorCase] = [
    ErrorCase("after_all", ["token[]", "f32[]"], {}, "I1", "token"),
    ErrorCase("infeed", ["f32[]"], infeed("f32[2]"), "I1", "token"),
    ErrorCase("infeed", T, infeed("f32[2]", infeed_config=1), "I2", "string"),
    ErrorCase("infeed", T, infeed("token[]"), "C2", "arrays"),
    ErrorCase("infeed", T, infeed("(f32[2])"), "C2", "arrays"),
    ErrorCase("infeed", T, infeed() | {"results": "f32[2]"}, "C2", "arrays"),
    ErrorCase("infeed", T, infeed("f32[<=2]"), "X1", "known shape"),
    ErrorCase("infeed", T, infeed("f32[2]", layout=()), "X1", "layout"),
    ErrorCase("infeed", T, infeed("f32[2,2]", layout=((0, 0),)), "X1", "minor to major"),
    ErrorCase("infeed", T, infeed("f32[2,2]", layout=((0,),)), "X1", "minor to major"),
    ErrorCase("outfeed", ["token[]", "f32[2]", "token[]"], {"outfeed_config": ""}, "I1", "arrays"),
    ErrorCase("outfeed", ["f32[2]"], {"outfeed_config": ""}, "I2", "token"),
    ErrorCase("outfeed", [], {"outfeed_config": ""}, "I2", "token"),
    ErrorCase("outfeed", ["f32[2]", "token[]"], {"outfeed_config": None}, "I3", "string"),
]
