"""Cases of pad and concatenate."""

from __future__ import annotations

from cases import ErrorCase, OpCase


def pad(spec: str, *config: tuple[int, int, int]) -> OpCase:
    """An operand padded by (low, high, interior) in each dimension."""
    scalar = spec.split("[")[0] + "[]"
    low, high, interior = zip(*config, strict=True) if config else ((), (), ())
    params = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": interior}
    order = 0 if spec.startswith(("f8", "bf")) else 2  # sums of narrow floats are far from exact
    name = f"{spec}_{config}"
    return OpCase("pad", [spec, scalar], params, tol=0.0, order=order, name=name)


def concatenate(dimension: int, *specs: str) -> OpCase:
    """Operands one after the other."""
    params = {"dimension": dimension}
    return OpCase("concatenate", specs, params, tol=0.0, name=f"{'_'.join(specs)}_{dimension}")


CASES: list[OpCase] = [
    pad("f64[3]", (1, 2, 0)),
    pad("f64[3]", (0, 0, 0)),
    pad("f64[2,3]", (1, 2, 1), (0, 1, 2)),
    pad("f64[4]", (-1, -2, 0)),
    pad("f64[4]", (-3, 2, 2)),
    pad("f64[4]", (2, -5, 2)),
    pad("f64[3]", (-7, 5, 1)),  # every element is removed
    pad("f64[3]", (5, -6, 0)),
    pad("f64[3]", (-3, 0, 0)),
    pad("f64[0]", (2, 1, 3)),
    pad("f64[1]", (0, 0, 5)),
    pad("f64[]"),
    pad("f64[0,2]", (0, 0, 0), (1, 1, 0)),
    pad("c128[2]", (1, 1, 1)),
    pad("pred[3]", (1, 1, 1)),
    pad("s4[3]", (1, -1, 1)),
    pad("bf16[3]", (1, 1, 1)),
    pad("f8e4m3fn[3]", (1, 1, 1)),
    concatenate(0, "f64[2]", "f64[3]", "f64[0]", "f64[1]"),
    concatenate(1, "f64[2,1]", "f64[2,3]"),
    concatenate(0, "f64[2]"),
    concatenate(0, "c128[1]", "c128[2]"),
    concatenate(0, "pred[1]", "pred[2]"),
    concatenate(0, "u4[1]", "u4[2]"),
    concatenate(0, "f8e5m2[1]", "f8e5m2[2]"),
    concatenate(0, "s64[1]", "s64[2]"),
]


def bad_pad(
    operands: list[str],
    label: str,
    low: tuple[int, ...] = (0,),
    high: tuple[int, ...] = (0,),
    inner: tuple[int, ...] = (0,),
) -> ErrorCase:
    """A pad that must be refused."""
    params = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": inner}
    return ErrorCase("pad", operands, params, label)


ERRORS: list[ErrorCase] = [
    bad_pad(["token[]", "f32[]"], "I1"),
    bad_pad(["f32[2]", "f32[1]"], "I2"),
    bad_pad(["f32[2]", "token[]"], "I2"),
    bad_pad(["f32[2]", "f64[]"], "C1"),
    bad_pad(["f32[2]", "f32[]"], "C2", low=(0, 0)),
    bad_pad(["f32[2]", "f32[]"], "C2", high=()),
    bad_pad(["f32[2]", "f32[]"], "C2", inner=()),
    bad_pad(["f32[2]", "f32[]"], "C3", inner=(-1,)),
    bad_pad(["f32[2]", "f32[]"], "C4", low=(-3,)),
    ErrorCase("concatenate", ["f32[2]", "f64[2]"], {"dimension": 0}, "C1"),
    ErrorCase("concatenate", ["f32[2,2]", "f32[2,3]"], {"dimension": 0}, "C2"),
    ErrorCase("concatenate", ["f32[2,2]", "f32[2]"], {"dimension": 0}, "C2"),
    ErrorCase("concatenate", [], {"dimension": 0}, "C3"),
    ErrorCase("concatenate", ["f32[2]"], {"dimension": 1}, "C4"),
    ErrorCase("concatenate", ["f32[]"], {"dimension": 0}, "C4"),
    ErrorCase("concatenate", ["token[]"], {"dimension": 0}, "I1"),
]
