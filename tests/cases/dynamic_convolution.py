"""Cases of dynamic_conv where the result's size does not vary."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, convolution
from cases.dynamic import spec
from xlapy.dtypes import as_dtype
from xlapy.specs import parse_spec

WINDOW: dict[str, Any] = {
    "window_strides": (1,),
    "lhs_dilation": (1,),
    "rhs_dilation": (1,),
    "window_reversal": (False,),
    "input_batch_dimension": 0,
    "input_feature_dimension": 1,
    "input_spatial_dimensions": (2,),
    "kernel_input_feature_dimension": 1,
    "kernel_output_feature_dimension": 0,
    "kernel_spatial_dimensions": (2,),
    "output_batch_dimension": 0,
    "output_feature_dimension": 1,
    "output_spatial_dimensions": (2,),
    "feature_group_count": 1,
    "batch_group_count": 1,
    "precision_config": None,
    "preferred_element_type": as_dtype("f64"),
}


def conv(name: str, low: int, high: int, size: int, **changed: Any) -> OpCase:
    """An input of 5, a kernel of 3."""
    params = {**WINDOW, **changed, "result": spec(2, 4, size)}
    padding = np.array([[low, high]], np.int32)
    operands = ["f64[2,3,5]", "f64[4,3,3]", padding]
    return OpCase("dynamic_conv", operands, params, tol=1e-12, name=name)


CASES: list[OpCase] = [
    conv("same", 1, 1, 5),
    conv("strided", 2, 2, 4, window_strides=(2,)),
    conv("dilated", 2, 2, 11, lhs_dilation=(2,)),
    conv("window_dilated", 1, 1, 3, rhs_dilation=(2,)),
    conv("negative", -1, -1, 1),
    conv("reversed", 1, 1, 5, window_reversal=(True,)),
]

OPERANDS = ("f64[2,3,5]", "f64[4,3,3]", "s32[1,2]")


def bad(label: str, place: int, wrong: str, **changed: Any) -> ErrorCase:
    """One operand replaced by a wrong one."""
    given = [*OPERANDS[:place], wrong, *OPERANDS[place + 1 :]]
    return ErrorCase("dynamic_conv", given, {**WINDOW, "result": spec(2, 4, 5), **changed}, label)


def as_dynamic(case: ErrorCase) -> ErrorCase:
    """A wrong convolution with the padding as an operand."""
    count = max(parse_spec(case.operands[0]).rank - 2, 0)
    params = {k: v for k, v in case.params.items() if k != "padding"}
    operands = [*case.operands, f"s32[{count},2]"]
    return ErrorCase(
        "dynamic_conv", operands, {**params, "result": spec(2, 4, 5)}, case.label, case.match
    )


# Whatever is wrong with a convolution is so if the padding is computed.
WRONG = [as_dynamic(c) for c in convolution.ERRORS if c.label not in ("I1", "I2", "C4")]

ERRORS: list[ErrorCase] = [
    *WRONG,
    bad("I1", 0, "token[]"),
    bad("I2", 1, "token[]"),
    bad("I3", 2, "token[]"),
    bad("I3", 2, "f32[1,2]"),
    bad("C4", 2, "s32[2]"),
    bad("C4", 2, "s32[2,2]"),
    bad("C25", 2, "s32[1,2]", result=spec(2, 5, 5)),
    bad("C26", 2, "s32[1,2]", result=spec(2, 4)),
    bad("C27", 2, "s32[1,2]", result=spec(2, 4, 5, dtype="f32")),
]
