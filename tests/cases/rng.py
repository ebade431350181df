"""Cases of rng_uniform, rng_normal and rng_bit_generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase
from xlapy.dtypes import as_dtype

Shape = tuple[int, ...]

DRAWN = {"pjrt": "no two runs draw the same", "vmap": "no two runs draw the same"}


def rng(
    op: str, dtype: str, a: float, b: float, shape: Shape, name: str = "", **own: Any
) -> OpCase:
    """A draw of one element type."""
    kind = as_dtype(dtype).numpy
    operands = [np.array(a).astype(kind), np.array(b).astype(kind)]
    own = {"skip": DRAWN, "tol": 0.0, "order": 0, **own}
    return OpCase(op, operands, {"shape": shape}, name=name or f"{dtype}_{shape}", **own)


def bits(
    algorithm: str, state: list[int], dtype: str, shape: Shape, **own: Any
) -> OpCase:  # fmt: skip
    """Bits from a state."""
    params = {"rng_algorithm": algorithm, "shape": shape, "dtype": as_dtype(dtype)}
    name = f"{algorithm}_{'_'.join(f'{s:x}' for s in state)}_{dtype}_{shape}"
    own = {"tol": 0.0, "order": 0, **own}
    return OpCase(
        "rng_bit_generator", [np.array(state, np.uint64)], params, name=name, **own
    )  # fmt: skip


# What is read as unsigned bits once it was written is not the operation that it was.
MIXED = [0x123456789ABCDEF0, 0xFEDCBA9876543210, 0x0F1E2D3C4B5A6978]
TOP = 2**64 - 1
WORDS = ("u8", "u16", "u32", "u64")
OTHERS = (
    "u2", "u4", "s2", "s4", "s8", "s16", "s32", "s64", "f4e2m1fn", "f8e5m2", "f8e4m3fn", "f8e8m0fnu", "f16", "bf16",
    "f32", "f64",
)  # fmt: skip
SHAPES: tuple[Shape, ...] = (
    (), (1,), (7,), (8,), (0,), (3, 0), (3, 4), (3, 5), (5, 3), (3, 3), (2, 1, 3), (1, 3, 7, 5), (5, 2, 2), (1, 1),
)  # fmt: skip

CASES: list[OpCase] = [
    *[bits("THREE_FRY", MIXED[:2], "u32", shape) for shape in SHAPES],
    *[bits("PHILOX", MIXED, "u32", shape) for shape in SHAPES],
    *[
        bits(algorithm, state, dtype, shape)
        for algorithm, state in (("THREE_FRY", MIXED[:2]), ("PHILOX", MIXED), ("DEFAULT", MIXED))
        for dtype in WORDS
        if dtype != "u32"
        for shape in ((3, 5), ())
    ],
    *[
        bits(algorithm, MIXED[:2], dtype, (9,))
        for algorithm in ("THREE_FRY", "PHILOX")
        for dtype in OTHERS
    ],
    bits("DEFAULT", MIXED[:2], "u32", (5,)),
    bits("DEFAULT", MIXED, "u32", (5,)),
    bits("PHILOX", MIXED[:2], "u64", (5,)),
    # The counter passes 2**32, 2**64 and 2**128.
    bits("THREE_FRY", [5, 2**32 - 2], "u32", (9,)),
    bits("THREE_FRY", [5, 2**32 - 2], "u64", (9,)),
    bits("THREE_FRY", [TOP, TOP - 1], "u32", (9,)),
    bits("THREE_FRY", [TOP, TOP - 1], "u64", (9,)),
    bits("THREE_FRY", [TOP, TOP], "u8", ()),
    bits("PHILOX", [5, 2**32 - 2, 0], "u32", (17,)),
    bits("PHILOX", [5, TOP - 1, 2**32 - 1], "u32", (17,)),
    bits("PHILOX", [5, TOP - 1, TOP], "u32", (17,)),
    bits("PHILOX", [5, TOP - 1, TOP], "u64", (9,)),
    bits("PHILOX", [5, TOP - 1], "u32", (17,)),
    bits("PHILOX", [TOP, TOP], "u64", (9,)),
    bits("DEFAULT", [TOP, TOP, TOP], "u16", (3,)),
    # Draws that are no surprise.
    *[
        rng(op, dtype, 1, 2, shape)
        for op, dtype in (
            ("rng_uniform", "s32"), ("rng_uniform", "u8"), ("rng_normal", "f32"), ("rng_normal", "f8e5m2"),
        )
        for shape in ((0,), (3, 0))
    ],
    *[
        rng("rng_uniform", dtype, 5, 6, (2, 3), name=f"one_{dtype}")
        for dtype in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
    ],
    rng("rng_uniform", "s4", -3, -2, (2, 3), name="one_s4"),
    rng("rng_uniform", "u2", 1, 2, (2, 3), name="one_u2"),
    *[
        rng("rng_uniform", dtype, 2, 2, (2, 3), name=f"nothing_{dtype}")
        for dtype in ("f4e2m1fn", "f8e4m3fn", "f8e8m0fnu", "f16", "bf16", "f32", "f64")
    ],
    *[
        rng("rng_normal", dtype, 2, 0, (2, 3), name=f"sure_{dtype}")
        for dtype in ("f4e2m1fn", "f8e4m3fn", "f16", "bf16", "f32", "f64")
    ],
    rng("rng_uniform", "f32", float("nan"), 1, (2,), name="nan"),
    rng("rng_normal", "f32", 0, float("nan"), (2,), name="nan"),
    # The rest is looked at in tests/ops/test_rng.py.
    *[
        rng(op, dtype, 0, 3, shape)
        for op, dtype in (
            ("rng_uniform", "f32"), ("rng_uniform", "s8"), ("rng_uniform", "bf16"), ("rng_normal", "f64"),
            ("rng_normal", "f8e5m2"),
        )
        for shape in ((), (4,), (2, 3))
    ],
]  # fmt: skip


def rng_error(label: str, op: str, a: str, b: str, shape: Any = (2,), match: str = "") -> ErrorCase:
    """A wrong draw."""
    return ErrorCase(op, [a, b], {"shape": shape}, label, match)


def bits_error(
    label: str, spec: str, algorithm: str = "PHILOX", shape: Any = (2,), dtype: str = "u32"
) -> ErrorCase:
    """A wrong use of the generator."""
    params = {"rng_algorithm": algorithm, "shape": shape, "dtype": as_dtype(dtype)}
    return ErrorCase("rng_bit_generator", [spec], params, label)


ERRORS: list[ErrorCase] = [
    rng_error("I1", "rng_uniform", "token[]", "f32[]"),
    rng_error("I1", "rng_uniform", "f32[1]", "f32[]", match="scalar"),
    rng_error("I1", "rng_uniform", "c64[]", "c64[]"),
    rng_error("I2", "rng_uniform", "f32[]", "f32[1]"),
    rng_error("I2", "rng_uniform", "f32[]", "(f32[])"),
    rng_error("C1", "rng_uniform", "f32[]", "f64[]"),
    rng_error("X1", "rng_uniform", "pred[]", "pred[]"),
    rng_error("X2", "rng_uniform", "f32[]", "f32[]", (-1,)),
    rng_error("I1", "rng_normal", "f32[1]", "f32[1]"),
    rng_error("C1", "rng_normal", "f32[]", "f16[]"),
    rng_error("C2", "rng_normal", "s32[]", "s32[]"),
    rng_error("X2", "rng_normal", "f32[]", "f32[]", (-1,)),
    bits_error("I1", "u64[2]", "MERSENNE"),
    bits_error("I2", "token[]"),
    bits_error("I2", "s64[2]"),
    bits_error("I2", "u32[4]"),
    bits_error("I2", "u64[]"),
    bits_error("I2", "u64[1,2]"),
    bits_error("I2", "u64[<=2]"),
    bits_error("C2", "u64[1]"),
    bits_error("C2", "u64[4]"),
    bits_error("C2", "u64[4]", "DEFAULT"),
    bits_error("C2", "u64[3]", "THREE_FRY"),
    bits_error("X1", "u64[2]", dtype="pred"),
    bits_error("X1", "u64[2]", dtype="c64"),
    bits_error("X2", "u64[2]", dtype="f6e2m3fn"),
    bits_error("X3", "u64[2]", shape=(-1,)),
]
