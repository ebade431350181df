"""Our own programs, read back from the HLO that XLA is given and from that which it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import leaves
from programs.models import MODELS
from programs.operations import OPERATIONS

import xlapy

Array = np.ndarray[Any, Any]
PROGRAMS = {**MODELS, **OPERATIONS}


def assert_close(found: Array, wanted: Array, tolerance: float) -> None:
    """Of one type and shape, and differing by no more than a share of the largest finite value."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance * scale, equal_nan=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    """The interpreter computes from XLA's program, before and after optimisation, what XLA does."""
    program = PROGRAMS[name]
    with xlapy.use_backend("pjrt:cpu"):
        lowered = xlapy.compile(program.function).lower(*program.arguments)
        executable = lowered.compile()
        wanted = leaves(executable(*program.arguments))
    arguments = leaves(program.arguments)
    for text in (lowered.hlo_text, executable.optimized_hlo_text):
        found = leaves(xlapy.from_hlo(text)(*arguments, backend="interpreter"))
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert_close(a, b, program.tolerance)
