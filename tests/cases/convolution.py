"""Cases of convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, until
from cases.values import numpy_dtype


def params(
    spatial: int = 1, numbers: str = "", preferred: str = "f64", **given: Any
) -> dict[str, Any]:
    """The parameters of a convolution; by default a window that moves by one."""
    from xlapy.dtypes import as_dtype
    from xlapy.ops.convolution import ConvolutionDimensionNumbers

    named = (
        ConvolutionDimensionNumbers.parse(numbers)
        if numbers
        else ConvolutionDimensionNumbers.default(spatial + 2)
    )
    return {
        "window_strides": (1,) * spatial,
        "padding": ((0, 0),) * spatial,
        "lhs_dilation": (1,) * spatial,
        "rhs_dilation": (1,) * spatial,
        "window_reversal": (False,) * spatial,
        **vars(named),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "precision_config": None,
        "preferred_element_type": as_dtype(preferred),
    } | given


def conv(name: str, lhs: str, rhs: str, numbers: str = "", **given: Any) -> OpCase:
    """A convolution in float64."""
    spatial = lhs.count(",") - 1
    own = {k: given.pop(k) for k in ("skip", "xfail", "order") if k in given}
    return OpCase(
        "convolution", [lhs, rhs], params(spatial, numbers, **given), tol=1e-11, name=name, **own
    )


def typed(lhs: str, rhs: str, preferred: str, **own: Any) -> OpCase:
    """A convolution of other element types."""
    tol = {"f16": 4e-3, "bf16": 3e-2}.get(preferred, 1e-5)
    own = {"tol": tol, "order": 1, **own}
    given = params(1, preferred=preferred, padding=((1, 1),))
    return OpCase(
        "convolution",
        [f"{lhs}[2,3,4]", f"{rhs}[2,3,3]"],
        given,
        name=f"{lhs}_{rhs}_{preferred}",
        **own,
    )


_ROUNDS = until("0.11", {"reference": "StableHLO's interpreter sums in the operands' type"})
_LAYOUTS = until(
    "0.12", {"reference": "aborts where the layouts of the operands and the result differ"}
)
_generator = np.random.default_rng(0)


def _whole_range(dtype: str) -> OpCase:
    limits = np.iinfo(numpy_dtype(dtype))
    x, y = (
        _generator.integers(limits.min, limits.max, shape, numpy_dtype(dtype), endpoint=True)
        for shape in ((2, 3, 6), (4, 3, 2))
    )
    return OpCase(
        "convolution",
        [x, y],
        params(1, preferred=dtype),
        tol=0.0,
        order=0,
        name=f"{dtype}_whole_range",
    )


def _everything(**groups: int) -> dict[str, Any]:
    return {
        "window_strides": (2, 1),
        "padding": ((2, 1), (-1, 3)),
        "lhs_dilation": (1, 2),
        "rhs_dilation": (2, 1),
        "window_reversal": (True, False),
        **groups,
    }


CASES: list[OpCase] = [
    conv("one_dimension", "f64[2,3,5]", "f64[4,3,2]"),
    conv("two_dimensions", "f64[2,3,5,4]", "f64[4,3,2,3]"),
    conv("three_dimensions", "f64[1,2,3,4,3]", "f64[2,2,2,1,2]"),
    conv("no_spatial_dimensions", "f64[2,3]", "f64[4,3]"),
    conv("strides", "f64[2,3,7,6]", "f64[4,3,2,3]", window_strides=(2, 3)),
    conv("padding", "f64[2,3,5]", "f64[4,3,2]", padding=((2, 1),)),
    conv("negative_padding", "f64[2,3,7]", "f64[4,3,2]", padding=((-1, -2),)),
    conv("padding_of_both_signs", "f64[1,2,5,5]", "f64[2,2,2,2]", padding=((-2, 3), (4, -1))),
    conv("lhs_dilation", "f64[2,3,4]", "f64[4,3,3]", lhs_dilation=(2,), padding=((1, 2),)),
    conv("rhs_dilation", "f64[2,3,7]", "f64[4,3,3]", rhs_dilation=(2,)),
    conv("reversal", "f64[2,3,5,4]", "f64[4,3,2,3]", window_reversal=(True, False)),
    conv("channels_last", "f64[2,5,4,3]", "f64[2,3,3,4]", "b01f_01io->b01f"),
    conv("mixed_layouts", "f64[5,3,4,2]", "f64[4,2,3,3]", "0f1b_o10i->f0b1", xfail=_LAYOUTS),
    conv(
        "spatial_out_of_order",
        "f64[2,4,5,3]",
        "f64[3,3,2,4]",
        "b10f_0i1o->1bf0",
    ),
    conv("everything", "f64[2,3,6,5]", "f64[4,3,2,3]", **_everything()),
    conv("feature_groups", "f64[2,4,5]", "f64[6,2,2]", feature_group_count=2),
    conv("depthwise", "f64[2,3,5]", "f64[6,1,2]", feature_group_count=3),
    conv(
        "depthwise_channels_last", "f64[2,5,3]", "f64[2,1,6]", "b0f_0io->b0f", feature_group_count=3
    ),
    conv(
        "feature_groups_and_everything",
        "f64[2,4,6,5]",
        "f64[4,2,2,3]",
        **_everything(feature_group_count=2),
    ),
    conv("batch_groups", "f64[4,3,5]", "f64[6,3,2]", batch_group_count=2),
    conv("batch_groups_all", "f64[3,2,5]", "f64[3,2,2]", batch_group_count=3),
    conv(
        "batch_groups_and_everything",
        "f64[4,3,6,5]",
        "f64[4,3,2,3]",
        **_everything(batch_group_count=2),
    ),
    conv(
        "batch_groups_mixed_layouts",
        "f64[6,3,4,2]",
        "f64[4,2,3,2]",
        "b01f_o10i->f0b1",
        batch_group_count=2,
        xfail=_LAYOUTS,
    ),
    conv(
        "feature_groups_mixed_layouts",
        "f64[5,3,4,4]",
        "f64[4,2,3,2]",
        "01bf_o10i->f0b1",
        feature_group_count=2,
        xfail=_LAYOUTS,
    ),
    conv("window_too_large", "f64[2,3,2]", "f64[4,3,3]"),
    conv(
        "cut_to_nothing",
        "f64[2,3,2]",
        "f64[4,3,1]",
        padding=((-2, -1),),
        xfail={"reference": "aborts where nothing is left of the operand"},
    ),
    conv("empty_batch", "f64[0,3,4]", "f64[4,3,3]"),
    conv("no_features", "f64[2,0,4]", "f64[4,0,3]", xfail={"reference": "aborts of an empty sum"}),
    conv("no_outputs", "f64[2,3,4]", "f64[0,3,3]"),
    conv("empty_input", "f64[2,3,0]", "f64[4,3,3]", padding=((2, 2),)),
    conv("precision", "f64[1,1,4]", "f64[1,1,2]", precision_config=("HIGHEST", "HIGHEST")),
    typed("f32", "f32", "f32"),
    typed("f16", "f16", "f16"),
    typed("bf16", "bf16", "bf16"),
    typed("bf16", "bf16", "f32", xfail=_ROUNDS),
    typed("f32", "f32", "f64"),
    typed("c64", "c64", "c64"),
    typed("c128", "c128", "c128", order=2),
    typed("f8e5m2", "f8e5m2", "f32", order=0, xfail=_ROUNDS),
    typed("f8e4m3fn", "f8e4m3fn", "f8e4m3fn", order=0, tol=0.25),
    typed("s8", "s8", "s8"),
    typed("s8", "s8", "s32"),
    typed("u8", "u8", "u8"),
    typed("s32", "s32", "s32"),
    typed("u64", "u64", "u64"),
    typed("pred", "pred", "pred"),
    typed("s4", "s4", "s4"),
    *[typed(t, t, t) for t in ("s2", "u2", "u4")],
    typed("f4e2m1fn", "f4e2m1fn", "f4e2m1fn", xfail={"reference": "adds in the element type"}),
    typed("s2", "s2", "s32", xfail=until("0.12", {"reference": "multiplies in the element type"})),
    typed("u2", "u2", "u4"),
    *[_whole_range(t) for t in ("s8", "u16", "s32", "s64")],
]


def error(
    label: str, lhs: str = "f32[2,4,5]", rhs: str = "f32[4,4,3]", match: str = "", **given: Any
) -> ErrorCase:
    """A wrong convolution."""
    return ErrorCase("convolution", [lhs, rhs], params(1, preferred="f32", **given), label, match)


ERRORS: list[ErrorCase] = [
    error("I1", lhs="token[]"),
    error("I2", rhs="(f32[2])"),
    error("C1", rhs="f32[4,4]", match="one rank"),
    error("C1", lhs="f32[4]", rhs="f32[4]", match="two dimensions"),
    error("C2", window_strides=(1, 1)),
    error("C3", window_strides=(0,)),
    error("C4", padding=((1,),)),
    error("C4", padding=()),
    error("C5", lhs_dilation=()),
    error("C6", lhs_dilation=(0,)),
    error("C7", rhs_dilation=(1, 2)),
    error("C8", rhs_dilation=(-1,)),
    error("C9", window_reversal=()),
    error("C10", batch_group_count=3),
    error("C11", feature_group_count=3),
    error("C12", input_spatial_dimensions=()),
    error("C13", input_spatial_dimensions=(1,), match="once"),
    error("C13", input_batch_dimension=3, match="once"),
    error("C14", rhs="f32[4,3,3]"),
    error("C15", rhs="f32[5,4,3]", batch_group_count=2),
    error("C16", rhs="f32[5,2,3]", feature_group_count=2),
    error("C17", kernel_spatial_dimensions=(1, 2)),
    error("C18", kernel_input_feature_dimension=-1),
    error("C19", output_spatial_dimensions=()),
    error("C20", output_feature_dimension=0),
    error("C21", feature_group_count=0),
    error("C22", batch_group_count=-1),
    error("C23", lhs="f32[4,4,5]", rhs="f32[4,2,3]", feature_group_count=2, batch_group_count=2),
    error("C24", precision_config=("HIGH",)),
    error("X1", preferred_element_type=None),
    error("X2", lhs="f32[<=2,4,5]", batch_group_count=2),
    error("X2", rhs="f32[4,4,<=3]"),
    error("X3", rhs="f32[4,4,0]"),
    error("C27", rhs="f64[4,4,3]"),
]
