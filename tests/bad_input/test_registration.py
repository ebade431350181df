"""What is registered, seeded or compiled for a place: refused when it is given, not when it is used."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy.errors import BackendError, ConstraintError, DTypeError, ShapeError


def test_backends() -> None:
    for name, factory in ((3, lambda: None), ("test-no-function", 3), (None, None)):
        with refused(BackendError, "by a name and a function"):
            xlapy.register_backend(name, factory)  # type: ignore[arg-type]
    with refused(BackendError, "must be unique"):
        xlapy.register_backend("interpreter", lambda: None)  # type: ignore[arg-type, return-value]
    xlapy.register_backend("test-no-backend", lambda: 1)  # type: ignore[arg-type, return-value]
    for _ in range(2):
        with refused(BackendError, "must give a Backend"), xlapy.use_backend("test-no-backend"):
            pass


def test_containers() -> None:
    for given in ((3, len, len), (int, None, len), (int, len, None)):
        with refused(DTypeError, "a class and two functions"):
            xlapy.tree.register(*given)  # type: ignore[arg-type]
    with refused(ConstraintError, "once"):
        xlapy.tree.register(list, list, list)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 2**70, "a", 1.5, None, True])
def test_seeds(seed: Any) -> None:
    with refused(DTypeError, "seed"):
        xlapy.random.key(seed)


def test_specs() -> None:
    for dynamic in ((1,), (-1,), (0, 5)):
        with refused(ShapeError, "dynamic must name axes"):
            xlapy.TensorSpec((2,), "f32", dynamic)
    for shape in ((-2,), "ab", (2.0,), 1.5):
        with refused():
            xlapy.TensorSpec(shape, "f32")  # type: ignore[arg-type]


def test_terms_of_einsum() -> None:
    for subscripts, operand in (("i", np.ones((2, 2))), ("ij,jk", np.ones(2)), (None, np.ones(2))):
        with refused():
            xlapy.einsum(subscripts, operand)


TWO_DEVICES = """
import numpy as np
import xlapy
first, second = xlapy.devices()
x = xlapy.ones(3)
y = x.to(second)
f = xlapy.compile(lambda a: a + 1)
attempts = [
    lambda: x + y,
    lambda: xlapy.compile(lambda a, b: a + b)(x, y),
    lambda: xlapy.compile(lambda a, b: a + b, donate_argnames="a")(x, y),
    lambda: xlapy.compile(lambda a: a + y)(x),
    lambda: f.lower(x).compile()(y),
    lambda: xlapy.grad(lambda a: xlapy.sum(a * y))(x),
    lambda: xlapy.concatenate([x, y]),
    lambda: x.at[0].set(y[0]),
]
for attempt in attempts:
    try:
        attempt()
    except xlapy.errors.BackendError as error:
        assert "must lie" in str(error), error
        assert str(error).split("\\n")[-1].startswith("  at <string>:"), error
    else:
        raise AssertionError(attempt)
assert x.tolist() == [1, 1, 1]
assert f(y).device is second
assert f.lower(x).compile()(np.ones(3, np.float32)).device is first
"""


def test_two_devices() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES],
        env={**os.environ, "XLAPY_NUM_CPU_DEVICES": "2"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_sizes_that_equal_those_of_a_known_spec() -> None:
    xlapy.TensorSpec((2, 1), "f32")
    for shape in ((2.0, 1), (2, True)):
        with refused():
            xlapy.TensorSpec(shape, "f32")  # type: ignore[arg-type]
