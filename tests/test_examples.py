"""Each example runs as a user would run it, and prints what it is there to show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

# What each example must print: its point, not its every line.
SHOWN = {
    "eager": ["shape, element type: (3, 4) f32", "on the interpreter:", "ShapeError:"],
    "compiled": ["called 3 times: 1 trace, 1 compilation", "stablehlo.", "HloModule"],
    "gradients": ["[8.0, 12.0, 12.0]", "'slope': 3.0", "sqrt(9) by iteration: 3.0"],
    "builder": ["axpy", "pjrt:cpu", "interpreter"],
}


def run_example(name: str, directory: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        cwd=directory,
        env=environment,
        text=True,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SHOWN, "digits"}


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_example(name: str, tmp_path: Path) -> None:
    output = run_example(name, tmp_path)
    missing = [text for text in SHOWN[name] if text not in output]
    assert not missing, f"{missing} not in:\n{output}"


def test_digits_learns_and_agrees_on_both_backends(tmp_path: Path) -> None:
    """Fewer epochs than `make demo`; the example checks accuracy and agreement itself."""
    output = run_example("digits", tmp_path, "--epochs", "30", "--output", str(tmp_path))
    assert "(1 trace, 1 compilation)" in output
    assert (tmp_path / "digits_loss.png").stat().st_size > 1000
    assert (tmp_path / "digits.mlirbc").is_file()
