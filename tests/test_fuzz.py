"""Random programs give the same in every way to run them, and what watches over them sees what is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing.checks import CHECKS, check_all, run_check
from fuzzing.evaluation import executed, values_of
from fuzzing.generators import GENERATORS, WITHOUT
from fuzzing.programs import MOST_EXECUTED, Focus, Program, write
from fuzzing.reproduction import script
from fuzzing.setting import Fault, Setting
from fuzzing.shrinking import shrink

import xlapy
from xlapy import ops
from xlapy.backends.base import Backend, CompileOptions, Executable
from xlapy.backends.registry import get_backend, register_backend
from xlapy.numpy import indexing
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation
from xlapy.trace.op import registry
from xlapy.trace.stablehlo import to_stablehlo

TESTS = Path(__file__).resolve().parent
# Processes are forked, so they come from one that has run nothing yet.
CAMPAIGN = "import sys; sys.path.insert(0, {tests!r}); from fuzzing.campaign import main; sys.exit(main({arguments!r}))"


def campaign(*arguments: str, code: str = CAMPAIGN) -> subprocess.CompletedProcess[str]:
    """A campaign in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code.format(tests=str(TESTS), arguments=list(arguments))],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_random_programs() -> None:
    found = campaign("--seed", "7", "--programs", "10", "--minutes", "3", "--shrink", "20")
    assert found.returncode == 0, found.stdout + found.stderr[-3000:]
    assert "10 programs, 0 faults" in found.stdout


def test_each_operation_has_a_generator() -> None:
    assert sorted(set(registry) - set(GENERATORS) - set(WITHOUT)) == []
    assert set(WITHOUT) <= set(registry)


def test_each_generator_makes_programs() -> None:
    for name in GENERATORS:
        made = [write((3, i), Focus((name,)), size=1) for i in range(8)]
        assert any(p.computation.instructions for p in made), name


def test_a_seed_gives_one_program() -> None:
    one, two = write((5, 11)), write((5, 11))
    assert to_stablehlo(one.computation) == to_stablehlo(two.computation)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.arrays, two.arrays, strict=True))


# --- what is wrong is seen ----------------------------------------------------------------------------------------


class _Off(Executable):
    def __init__(self, inner: Executable) -> None:
        self.inner = inner
        self.placed = inner.placed

    def execute(self, payloads: Sequence[Any]) -> Sequence[Any]:
        return [_off(np.asarray(r)) for r in self.inner.execute(payloads)]

    @property
    def optimized_hlo_text(self) -> str:
        return self.inner.optimized_hlo_text


def _off(array: Any) -> Any:
    """The last element wrong by little."""
    found = np.array(array)
    if found.size:
        last = (-1,) * found.ndim
        found[last] = found[last] * 1.001 if found.dtype.kind in "fc" else ~found[last]
    return found


class Wrong(Backend):
    """The interpreter, with errors."""

    def __init__(self) -> None:
        self.name = "wrong"
        self.inner = get_backend("interpreter")
        self.placement = xlapy.tensor.Placement(self)

    @property
    def devices(self) -> Sequence[Any]:
        return ("wrong:0",)

    def put(self, array: Any, spec: TensorSpec, device: Any = None) -> Any:
        return self.inner.put(array, spec)

    def get(self, payload: Any) -> Any:
        return np.asarray(payload)

    def compile(self, computation: Computation, options: CompileOptions) -> Executable:
        return _Off(self.inner.compile(computation, CompileOptions()))


register_backend("wrong", Wrong)


@pytest.mark.parametrize("check", ["whole", "steps"])
@pytest.mark.parametrize(
    "operation", ["add", "sin", "dot_general", "reduce", "sort", "gather", "convert_element_type"]
)
def test_a_wrong_backend_is_found(check: str, operation: str) -> None:
    focus = Focus((operation,), ("f32", "f64", "s32"))
    seen = compared = 0
    for i in range(6):
        program = write((1, i), focus, size=2)
        if not any(s.size for s in program.computation.result_specs):  # type: ignore[union-attr]
            continue
        setting = Setting(tested="wrong")
        compared += 1
        try:
            run_check(setting, check, program)
        except Fault:
            seen += 1
    # A last element that is zero, infinite or no number stays what it is.
    assert compared >= 3
    assert seen >= compared / 2


def test_a_right_backend_is_not() -> None:
    shares = []
    for i in range(6):
        setting = Setting(tested="interpreter")
        assert list(check_all(setting, write((2, i)))) == []
        assert all(setting.counts[f"check {name}"] == 1 for name in CHECKS)
        shares.append(setting.counts["elements not determined"] / setting.counts["elements"])
    # Of one program in ten nearly nothing is determined, such as a convolution of what is not finite.
    assert sorted(shares)[-2] < 0.05


def test_shrinking_leaves_what_fails() -> None:
    def fails(candidate: Program) -> bool:
        return any(x.op.name == "tanh" for x in candidate.computation.instructions)

    program = next(
        p
        for p in (write((4, i)) for i in range(300))
        if fails(p) and len(p.computation.instructions) > 4
    )
    small = shrink(program, fails, seconds=10)
    assert [x.op.name for x in small.computation.instructions] == ["tanh"]
    assert all(n == 1 for a in small.arrays for n in a.shape)


def test_a_script_gives_the_program_again() -> None:
    program = write((6, 1), Focus(("add", "mul", "reduce", "select", "clamp")), size=5)
    text = script(program).replace('("interpreter", "pjrt:cpu")', '("interpreter",)')
    printed: list[Any] = []
    exec(text.replace("print(", "show("), {"show": printed.append})
    with xlapy.use_backend("interpreter"):
        expected = xlapy.from_stablehlo(to_stablehlo(program.computation))(*program.arrays)
    assert str(printed[0]) == str(expected)


ABORTING = CAMPAIGN.replace(
    "sys.exit(main",
    "import os; from fuzzing import checks;"
    " checks.CHECKS['verify'] = lambda s, p: os.abort() if p.seed[1] == 1 else None; sys.exit(main",
)


def test_a_process_that_is_lost_is_reported() -> None:
    found = campaign(
        "--programs", "3", "--shrink", "0", "--minutes", "2", "--only", "add", code=ABORTING
    )
    assert found.returncode == 1, found.stdout + found.stderr[-3000:]
    assert "abort" in found.stdout
    assert "programs 1\n" in found.stdout
    assert "3 programs, 1 faults" in found.stdout


def test_programs_that_would_take_long_are_drawn_again() -> None:
    focus = Focus(("while", "scan", "sort", "reduce"))
    for i in range(40):
        program = write((9, i), focus)
        before = executed.count
        values_of(program.computation, program.arrays)
        assert executed.count - before <= MOST_EXECUTED


def test_what_stands_in_brackets_is_held_against_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "read", lambda x, index: ops.neg(x))
    with pytest.raises(AssertionError):
        _ = [write((3, i), Focus(("getitem",), ("s32",)), size=4) for i in range(10)]
