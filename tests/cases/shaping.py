"""Cases of broadcast_in_dim, reshape, transpose and rev."""

from __future__ import annotations

from cases import ErrorCase, OpCase


def broadcast(spec: str, shape: tuple[int, ...], dims: tuple[int, ...]) -> OpCase:
    """An operand repeated to a shape."""
    params = {"shape": shape, "broadcast_dimensions": dims}
    order = 0 if spec.startswith("f8") else 2  # sums of narrow floats are far from exact
    return OpCase(
        "broadcast_in_dim", [spec], params, tol=0.0, order=order, name=f"{spec}_{shape}_{dims}"
    )


def reshape(spec: str, shape: tuple[int, ...]) -> OpCase:
    """An operand in another shape."""
    return OpCase("reshape", [spec], {"shape": shape}, tol=0.0, name=f"{spec}_{shape}")


def transpose(spec: str, permutation: tuple[int, ...]) -> OpCase:
    """Dimensions in another order."""
    params = {"permutation": permutation}
    return OpCase("transpose", [spec], params, tol=0.0, name=f"{spec}_{permutation}")


def rev(spec: str, dimensions: tuple[int, ...]) -> OpCase:
    """Dimensions reversed."""
    return OpCase("rev", [spec], {"dimensions": dimensions}, tol=0.0, name=f"{spec}_{dimensions}")


CASES: list[OpCase] = [
    broadcast("f64[]", (2, 3), ()),
    broadcast("f64[3]", (2, 3), (1,)),
    broadcast("f64[2]", (2, 3), (0,)),
    broadcast("f64[1]", (2, 3), (1,)),
    broadcast("f64[2,3]", (3, 4, 2), (2, 0)),
    broadcast("f64[1,3]", (3, 2), (1, 0)),
    broadcast("f64[1,1]", (1, 1), (1, 0)),
    broadcast("f64[0]", (2, 0), (1,)),
    broadcast("f64[1]", (0,), (0,)),
    broadcast("c128[2]", (2, 2), (1,)),
    broadcast("pred[2]", (2, 2), (1,)),
    broadcast("s4[2]", (2, 2), (1,)),
    broadcast("f8e5m2[2]", (2, 2), (1,)),
    reshape("f64[2,3]", (3, 2)),
    reshape("f64[]", (1, 1)),
    reshape("f64[1,1]", ()),
    reshape("f64[2,0]", (0, 3)),
    reshape("c64[4]", (2, 2)),
    reshape("bf16[4]", (2, 2)),
    reshape("u4[4]", (2, 2)),
    reshape("pred[4]", (2, 2)),
    transpose("f64[2,3,4]", (2, 0, 1)),
    transpose("f64[2,3]", (0, 1)),
    transpose("f64[]", ()),
    transpose("f64[0,3]", (1, 0)),
    transpose("c128[2,3]", (1, 0)),
    transpose("s8[2,3]", (1, 0)),
    rev("f64[2,3]", (0, 1)),
    rev("f64[2,3]", (1,)),
    rev("f64[3]", ()),
    rev("f64[]", ()),
    rev("f64[0,2]", (0,)),
    rev("c64[3]", (0,)),
    rev("s4[3]", (0,)),
]

ERRORS: list[ErrorCase] = [
    ErrorCase("broadcast_in_dim", ["token[]"], {"shape": (), "broadcast_dimensions": ()}, "I1"),
    ErrorCase("broadcast_in_dim", ["f32[2]"], {"shape": (2,), "broadcast_dimensions": ()}, "C2"),
    ErrorCase("broadcast_in_dim", ["f32[2]"], {"shape": (2,), "broadcast_dimensions": (1,)}, "C3"),
    ErrorCase("broadcast_in_dim", ["f32[2]"], {"shape": (2,), "broadcast_dimensions": (-1,)}, "C3"),
    ErrorCase(
        "broadcast_in_dim", ["f32[2,2]"], {"shape": (2, 2), "broadcast_dimensions": (0, 0)}, "C4"
    ),
    ErrorCase("broadcast_in_dim", ["f32[2]"], {"shape": (3,), "broadcast_dimensions": (0,)}, "C5"),
    ErrorCase("broadcast_in_dim", ["f32[2]"], {"shape": (-1, 2), "broadcast_dimensions": (1,)}, "X1"),
    ErrorCase("broadcast_in_dim", ["f32[?]"], {"shape": (-1, -1), "broadcast_dimensions": (1,)}, "X1"),
    ErrorCase("reshape", ["(f32[2])"], {"shape": (2,)}, "I1"),
    ErrorCase("reshape", ["f32[2,3]"], {"shape": (5,)}, "C2", "6 elements"),
    ErrorCase("reshape", ["f32[<=6]"], {"shape": (5,)}, "C2"),
    ErrorCase("reshape", ["f32[<=6]"], {"shape": (2, 3)}, "X2", "split"),
    ErrorCase("reshape", ["f32[<=6,<=2]"], {"shape": (12,)}, "X2", "at most one"),
    ErrorCase("reshape", ["f32[2]"], {"shape": (-1,)}, "X2"),
    ErrorCase("reshape", ["f32[?]"], {"shape": (-1, -1)}, "X2"),
    ErrorCase("transpose", ["token[]"], {"permutation": ()}, "I1"),
    ErrorCase("transpose", ["f32[2,3]"], {"permutation": (0, 0)}, "C2"),
    ErrorCase("transpose", ["f32[2,3]"], {"permutation": (0,)}, "C2"),
    ErrorCase("rev", ["token[]"], {"dimensions": ()}, "I1"),
    ErrorCase("rev", ["f32[2,3]"], {"dimensions": (0, 0)}, "C2"),
    ErrorCase("rev", ["f32[2,3]"], {"dimensions": (2,)}, "C3"),
]  # fmt: skip
