"""Algorithms of products: which there are, and what their numbers must be."""

from __future__ import annotations

from typing import Any

import pytest

from xlapy.errors import ConstraintError
from xlapy.ops.dot_algorithm import DotAlgorithm, as_algorithm


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"lhs_component_count": 0}, "C22"),
        ({"rhs_component_count": -1}, "C23"),
        ({"num_primitive_operations": 0}, "C24"),
        ({"num_primitive_operations": 1.0}, "C24"),
        ({"num_primitive_operations": 2}, "X2"),
        ({"lhs_component_count": 3}, "X2"),
        ({"allow_imprecise_accumulation": True}, "X2"),
        ({"accumulation_type": "f64"}, "X2"),
    ],
)
def test_an_algorithm_that_no_hardware_has_is_refused(given: dict[str, Any], label: str) -> None:
    plain = {
        "lhs_precision_type": "bf16", "rhs_precision_type": "bf16", "accumulation_type": "f32"
    }  # fmt: skip
    with pytest.raises(ConstraintError) as caught:
        DotAlgorithm(**{**plain, **given})
    assert caught.value.label == label


def test_algorithms_have_names() -> None:
    assert as_algorithm("bf16_bf16_f32_x3") == DotAlgorithm(
        "bf16", "bf16", "f32", num_primitive_operations=3
    )
    assert as_algorithm(None) is None
    with pytest.raises(ConstraintError, match="TF32_TF32_F32_X3"):
        as_algorithm("TF32_TF32_F32_X2")


def test_an_algorithm_is_read_as_it_is_written() -> None:
    imprecise = DotAlgorithm("f8e5m2", "f8e4m3fn", "f32", allow_imprecise_accumulation=True)
    assert DotAlgorithm.parse(DotAlgorithm.print(imprecise)) == imprecise
