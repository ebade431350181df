"""Our own programs, read back from the HLO that XLA is given and from that which it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import Program, leaves
from programs.collectives import COLLECTIVES, GRIDS
from programs.models import MODELS
from programs.operations import OPERATIONS

import xlapy
from xlapy import ops
from xlapy.backends.pjrt import Pjrt
from xlapy.errors import ConstraintError, UnsupportedOpError

Array = np.ndarray[Any, Any]
PROGRAMS = {**MODELS, **OPERATIONS}


def assert_close(found: Array, wanted: Array, tolerance: float) -> None:
    """Of one type and shape, and differing by no more than a share of the largest finite value."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance * scale, equal_nan=True)


def check(found: Any, wanted: list[Array], program: Program) -> None:
    """All results."""
    for a, b in zip(leaves(found), wanted, strict=True):
        assert_close(a, b, program.tolerance)


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
        check(xlapy.from_hlo(text)(*arguments, backend="interpreter"), wanted, program)


xlapy.register_backend("test-pjrt-of-hlo", lambda: Pjrt("cpu", num_devices=4))


@pytest.mark.parametrize("name", COLLECTIVES)
def test_program_over_four_devices(name: str) -> None:
    """The same with devices that communicate, simulated by the interpreter."""
    program = COLLECTIVES[name]
    replicas, partitions = GRIDS[name.split("_")[-1]]

    def on(backend: str, function: Any) -> Any:
        return xlapy.replicate(
            function, num_replicas=replicas, num_partitions=partitions, backend=backend
        )

    compiled = on("test-pjrt-of-hlo", program.function)
    wanted = leaves(compiled(*program.arguments))
    lowered = compiled.lower(*program.arguments)
    for text in (lowered.hlo_text, lowered.compile().optimized_hlo_text):
        again = on("interpreter", xlapy.from_hlo(text).__call__)
        check(again(*leaves(program.arguments)), wanted, program)


def test_a_program_with_a_callback_is_refused() -> None:
    """The function is in the process that compiled it, and in no text."""
    with xlapy.use_backend("pjrt:cpu"):
        sorted_ = xlapy.compile(lambda x: ops.python_callback(np.sort, [ops.neg(x)], "f32[3]"))
        text = sorted_.lower(np.ones(3, np.float32)).compile().optimized_hlo_text
    with pytest.raises(UnsupportedOpError, match="xla_ffi_python_cpu_callback"):
        xlapy.from_hlo(text)


def test_a_program_over_several_devices_is_refused_on_one() -> None:
    """Its groups are of devices that there are not."""
    program = COLLECTIVES["all_reduce_replicas"]
    compiled = xlapy.replicate(program.function, num_replicas=4, backend="interpreter")
    again = xlapy.from_hlo(compiled.lower(*program.arguments).hlo_text)
    with pytest.raises(ConstraintError, match="replica_groups"):
        again(program.arguments[0][0], backend="interpreter")
