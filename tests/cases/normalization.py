"""Cases of batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase

#: shapes, and the dimension of the features
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((4, 3, 2), 1), ((3, 4), 0), ((2, 3, 4), 2), ((6,), 0), ((5, 1), 1), ((1, 3), 1), ((2, 2, 3, 2), 1),
]  # fmt: skip


def spec(dtype: str, shape: Sequence[int]) -> str:
    """As it is written."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def params(feature_index: int, epsilon: float = 0.01) -> dict[str, Any]:
    """The parameters; epsilon is a number of 32 bits."""
    return {"epsilon": float(np.float32(epsilon)), "feature_index": feature_index}


def training(dtype: str, shape: Sequence[int], index: int, **more: Any) -> OpCase:
    """batch_norm_training."""
    vector = spec(dtype, (shape[index],))
    operands = [spec(dtype, shape), vector, vector]
    return OpCase(
        "batch_norm_training",
        operands,
        params(index),
        **{"tol": 1e-10, **more},
    )


def inference(dtype: str, shape: Sequence[int], index: int, **more: Any) -> OpCase:
    """batch_norm_inference; the domain is that of a variance too."""
    vector = spec(dtype, (shape[index],))
    operands = [spec(dtype, shape), *[vector] * 4]
    more = {"tol": 1e-10, "domain": (0.3, 2.0), **more}
    return OpCase("batch_norm_inference", operands, params(index), **more)


def gradient(dtype: str, shape: Sequence[int], index: int, **more: Any) -> OpCase:
    """batch_norm_grad."""
    vector = spec(dtype, (shape[index],))
    operands = [spec(dtype, shape), *[vector] * 3, spec(dtype, shape)]
    more = {"tol": 1e-10, "domain": (0.3, 2.0), **more}
    return OpCase("batch_norm_grad", operands, params(index), **more)


ROUNDS = {"reference": "the pass that decomposes it sums in bf16"}
CASES: list[OpCase] = []
for _shape, _index in SHAPES:
    CASES += [make("f64", _shape, _index) for make in (training, inference, gradient)]
for _make in (training, inference, gradient):
    CASES += [
        _make("f32", (4, 3), 1, order=0, tol=2e-5),
        _make("f16", (4, 3), 1, order=0, tol=2e-2),
        _make("bf16", (4, 3), 1, order=0, tol=0.1, xfail=ROUNDS if _make is training else {}),
        _make("f64", (2, 0), 1, order=0, name=f"{_make.__name__}_no_features"),
        _make(
            "f64",
            (0, 2),
            1,
            order=0,
            name=f"{_make.__name__}_no_rows",
            skip={"vmap": "0 / 0"},
        ),
    ]
CASES += [
    OpCase("batch_norm_training", [np.full((3, 2), 2.5), np.ones(2), np.zeros(2)], params(1), order=0,
           name="constant_features", tol=1e-10),
    OpCase("batch_norm_training", [np.array([[1.0], [np.nan]]), np.ones(1), np.zeros(1)], params(1), order=0,
           name="nan"),
    OpCase("batch_norm_training", [(np.array([0.5, -1, 2, 0])[:, None] + [1e4, -3e4]).astype("f4"), np.ones(2, "f4"),
           np.zeros(2, "f4")], params(1), order=0, name="far_from_zero", tol=1e-3,
           xfail={"reference": "the pass that decomposes it takes the square of the mean off the mean of the squares"}),
    OpCase("batch_norm_grad", [np.array([[0.0], [1.0], [-1.0], [2.0]], "f2"), np.full(1, 3e4, "f2"), np.zeros(1, "f2"),
           np.zeros(1, "f2"), np.array([[0.5], [-0.5], [0.5], [0.5]], "f2")], params(1, 0.1), order=0,
           name="large_narrow", tol=1e-2),
    OpCase("batch_norm_training", ["f64[4,3]", "f64[3]", "f64[3]"], params(1, 0.0),
           name="no_epsilon", tol=1e-9),
]  # fmt: skip


def error(
    name: str, label: str, operands: Sequence[str], match: str = "", **given: Any
) -> ErrorCase:
    """A wrong normalisation."""
    return ErrorCase(f"batch_norm_{name}", operands, {**params(1), **given}, label, match)


X, V, W = "f32[4,3]", "f32[3]", "f32[4]"
ERRORS: list[ErrorCase] = [
    error("training", "I1", ["token[]", V, V]),
    error("training", "I1", ["s32[4,3]", "s32[3]", "s32[3]"], "floats"),
    error("training", "I2", [X, "token[]", V]),
    error("training", "I3", [X, V, "token[]"]),
    error("training", "C1", [X, V, V], r"in \[0, 2\)", feature_index=2),
    error("training", "C1", [X, V, V], feature_index=-1),
    error("training", "C2", [X, "f64[3]", V]),
    error("training", "C3", [X, W, V], "each of 3 features"),
    error("training", "C4", [X, V, "f32[3,1]"]),
    error("training", "I4", [X, V, V], "epsilon", epsilon=1),
    error("training", "X1", ["f32[<=4,3]", V, V], "known"),
    error("inference", "I4", [X, V, V, "token[]", V]),
    error("inference", "I5", [X, V, V, V, "token[]"]),
    error("inference", "I6", [X, V, V, V, V], "epsilon", epsilon=1),
    error("inference", "C3", [X, W, V, V, V]),
    error("inference", "C4", [X, V, W, V, V]),
    error("inference", "C5", [X, V, V, W, V]),
    error("inference", "C6", [X, V, V, V, W]),
    error("grad", "I1", ["token[]", V, V, V, X]),
    error("grad", "I2", [X, "token[]", V, V, X]),
    error("grad", "I3", [X, V, "token[]", V, X]),
    error("grad", "I4", [X, V, V, "token[]", X]),
    error("grad", "I5", [X, V, V, V, "token[]"]),
    error("grad", "I6", [X, V, V, V, X], "epsilon", epsilon=1),
    error("grad", "C2", [X, V, V, V, "f64[4,3]"]),
    error("grad", "C3", [X, V, V, V, "f32[3,3]"]),
    error("grad", "C4", [X, V, W, V, X]),
    error("grad", "C5", [X, W, V, V, X]),
]
