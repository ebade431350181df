"""The user's lines: in errors, in programs and in tracebacks, through every transformation and however deep."""

import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import ShapeError, XlapyError
from xlapy.source import Location, caller, locate

X = np.ones(3, np.float32)
LONG = np.ones(4, np.float32)


def wrong(x: Any) -> Any:
    y = xlapy.sin(x)
    return y + LONG  # the line that is named


LINE = f"{os.path.basename(__file__)}:{wrong.__code__.co_firstlineno + 2} in wrong: return y + LONG"


def test_the_line_is_the_innermost_of_the_users() -> None:
    for transform in (
        lambda f: f,
        xlapy.compile,
        xlapy.grad,
        xlapy.jacfwd,
        lambda f: xlapy.compile(xlapy.grad(xlapy.compile(f))),
        lambda f: lambda x: xlapy.fori_loop(0, 2, lambda i, c: f(c), x),
        lambda f: lambda x: xlapy.cond(True, f, f, x),
        lambda f: lambda x: xlapy.vjp(f, x),
        lambda f: lambda x: xlapy.export(f, x),
        lambda f: lambda x: xlapy.vmap(f)(np.stack([x, x])),
    ):
        with pytest.raises(XlapyError) as caught:
            transform(wrong)(xlapy.asarray(X))
        assert LINE in str(caught.value)
        assert str(caught.value).count("\n  at ") == 1


def test_a_builders_line() -> None:
    b = xlapy.XlaBuilder("lines")
    x = b.parameter(0, "f32[3]")
    with refused(ShapeError, "test_a_builders_line: ops.add"):
        ops.add(x, LONG)


def test_tracebacks_end_in_the_users_line() -> None:
    with pytest.raises(XlapyError) as caught:
        xlapy.compile(wrong)(X)
    files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    package = os.path.dirname(xlapy.__file__)
    assert not any(file.startswith(package) for file in files)


def test_full_tracebacks_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAPY_TRACEBACK", "full")
    with pytest.raises(XlapyError) as caught:
        xlapy.compile(wrong)(X)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(file.startswith(os.path.dirname(xlapy.__file__)) for file in files)


def sines(x: Any) -> Any:
    y = ops.sin(x)
    return xlapy.sum(ops.exp(y))


@pytest.mark.parametrize(
    ("transform", "given", "expected"),
    [
        (lambda f: f, X, {"sin": 1, "exp": 2}),
        (xlapy.grad, X, {"sin": 1, "exp": 2, "cos": 1}),
        (xlapy.vmap, np.stack([X, X]), {"sin": 1, "exp": 2}),
        (lambda f: xlapy.vmap(xlapy.grad(f)), np.stack([X, X]), {"sin": 1, "exp": 2, "cos": 1}),
    ],
    ids=["as it is", "grad", "vmap", "both"],
)
def test_instructions_know_their_lines(transform: Any, given: Any, expected: Any) -> None:
    found = {}
    for instruction in xlapy.compile(transform(sines)).trace(given).instructions:
        if instruction.op.name in ("sin", "exp", "cos"):
            location = locate(instruction.source)
            assert location is not None
            assert location.file == __file__
            found[instruction.op.name] = location.line - sines.__code__.co_firstlineno
    assert found == expected


def test_locations() -> None:
    here = locate(caller())
    assert here is not None
    assert here.file == __file__
    assert here.function == "test_locations"
    assert str(Location("/nowhere/model.py", 7, "f")) == "/nowhere/model.py:7 in f"
    assert locate(None) is None
    assert locate(here) is here


def test_errors_may_go_to_another_process() -> None:
    with pytest.raises(ShapeError) as caught:
        wrong(xlapy.asarray(X))
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is ShapeError
    assert str(again) == str(caught.value)
    with pytest.raises(ShapeError) as caught:
        xlapy.zeros(-1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.label, again.annotated) == (caught.value.label, True)


def test_code_without_a_file(tmp_path: Path) -> None:
    program = """import xlapy
try:
    xlapy.ones(3) + xlapy.ones(4)
except xlapy.errors.XlapyError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=120,
    )
    # From Python 3.13 on the text of such code is known.
    assert "at <string>:3 in <module>" in done.stdout


def test_the_librarys_frames_are_hidden_where_no_other_function_was_running() -> None:
    # The derivative of zeta is asked for after the user's function has returned.
    with pytest.raises(XlapyError) as caught:
        xlapy.grad(lambda x: ops.zeta(x, 2.0))(3.0)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(f.filename).name for f in frames] == [Path(__file__).name, "differentiation.py"]
