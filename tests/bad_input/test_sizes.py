"""Shapes that no machine holds: refused before anything is allocated, and never an abort."""

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import BackendError, ShapeError, XlapyError
from xlapy.memory import host_memory, require_memory

HUGE = 2**40
BACKENDS = ["pjrt:cpu", "interpreter"]


def test_the_memory_is_known() -> None:
    assert 2**28 < host_memory() <= 2**62
    require_memory("an array", [xlapy.TensorSpec((1000,), "f32")])
    with refused(BackendError, "must fit the memory"):
        require_memory("an array", [xlapy.TensorSpec((1000,), "f32")], count=2**45)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_that_do_not_fit(backend: str) -> None:
    with xlapy.use_backend(backend):
        row, column = xlapy.zeros((1, 2**21)), xlapy.zeros((2**21, 1))
        key = xlapy.random.key(0)
        for attempt in (
            lambda: xlapy.zeros(HUGE),
            lambda: xlapy.full(HUGE, 1.0),
            lambda: xlapy.eye(2**28),
            lambda: xlapy.tri(2**28),
            lambda: xlapy.linspace(0, 1, HUGE),
            lambda: xlapy.arange(0.0, float(HUGE)),
            lambda: xlapy.asarray(np.broadcast_to(np.float32(1), (HUGE,))),
            lambda: ops.iota("f32", HUGE),
            lambda: xlapy.tile(row, 2**22),
            lambda: xlapy.repeat(column, 2**22),
            lambda: xlapy.pad(column[:, 0], (0, HUGE)),
            lambda: row * column,
            lambda: column @ row,
            lambda: xlapy.random.uniform(key, (HUGE,)),
            lambda: xlapy.compile(lambda r, c: r * c)(row, column),
            lambda: xlapy.compile(lambda r, c: (r, r * c))(row, column),
        ):
            with refused(BackendError, "must fit"):
                attempt()


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_beyond_counting(backend: str) -> None:
    with xlapy.use_backend(backend):
        one = xlapy.ones(1)
        for attempt in (
            lambda: xlapy.zeros((2**62, 8)),
            lambda: xlapy.zeros(2**63),
            lambda: xlapy.zeros((0, 2**63)),
            lambda: xlapy.zeros((0, 2**62, 4)),
            lambda: xlapy.zeros(2**100),
            lambda: xlapy.eye(2**40),
            lambda: xlapy.arange(1e30),
            lambda: xlapy.broadcast_to(one, (2**31, 2**31, 4)),
            lambda: ops.broadcast(1.0, (2**31, 2**31, 4)),
            lambda: xlapy.compile(lambda x: xlapy.broadcast_to(x, (2**31, 2**31, 4)))(one),
            lambda: xlapy.zeros((1,) * 65),
            lambda: xlapy.reshape(one, (1,) * 65),
            lambda: ops.reshape(one, (1,) * 65),
        ):
            with refused(ShapeError):
                attempt()
        assert xlapy.zeros((1,) * 64).numpy().ndim == 64
        assert xlapy.reshape(one, (1,) * 64).numpy().ndim == 64


def test_specs_beyond_counting() -> None:
    for text in (
        "f32[2147483648,2147483648,4]",
        "c128[1152921504606846976]",
        "f32[99999999999999999999]",
    ):
        with refused(ShapeError, r"2\*\*62 bits"):
            xlapy.export(lambda x: x, text)
    for text in ("f33[2]", "f32", "f32[", "f32[-1]", "f32[2]x", "f32[a]", ""):
        with refused(XlapyError):
            xlapy.export(lambda x: x, text)


def test_a_program_that_does_not_fit_may_be_looked_at() -> None:
    lowered = xlapy.compile(lambda x: xlapy.broadcast_to(x, (HUGE,)) * 2).lower(1.0)
    assert f"tensor<{HUGE}xf32>" in lowered.stablehlo_text
    program = lowered.compile()
    assert "ENTRY" in program.optimized_hlo_text
    with refused(BackendError, "must fit the memory"):
        program(1.0)


def test_what_does_not_fit_need_not_be_held() -> None:
    total = xlapy.compile(lambda x: xlapy.max(xlapy.broadcast_to(x, (2**36,))[:10]))
    assert total(3.0).item() == 3
