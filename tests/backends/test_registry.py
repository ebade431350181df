"""Backends by name: those of other packages, clashes, unknown names."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import xlapy
from xlapy.errors import BackendError

_ENTRY_POINTS = (
    "[console_scripts]\nother = other:main\n[xlapy.backends]\n{name} = offered:Offered\n"
)
_MODULE = "from xlapy.backends.interpreter import Interpreter as Offered\n"
_METADATA = "Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n"


def offer(folder: Path, name: str, archive: bool = False) -> Path:
    """A package with one backend, as it lies when installed; gives what belongs on the path."""
    files = {
        "offered.py": _MODULE,
        "offered-1.0.dist-info/METADATA": _METADATA,
        "offered-1.0.dist-info/entry_points.txt": _ENTRY_POINTS.format(name=name),
    }
    if archive:
        with zipfile.ZipFile(folder / "offered.zip", "w") as file:
            for path, text in files.items():
                file.writestr(path, text)
        return folder / "offered.zip"
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder


def python(program: str, path: Path) -> str:
    """What a program prints, run with a package on its path."""
    root = Path(xlapy.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(root)])},
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("archive", [False, True])
def test_an_installed_package_offers_a_backend(tmp_path: Path, archive: bool) -> None:
    path = offer(tmp_path, "offered", archive)
    program = "import xlapy\nwith xlapy.use_backend('offered'): print(xlapy.ones(2) + 1)"
    assert python(program, path).strip() == "[2. 2.]"


def test_an_offered_name_that_is_taken_is_an_error_naming_both(tmp_path: Path) -> None:
    text = python("import xlapy; xlapy.devices()", offer(tmp_path, "interpreter"))
    assert "backend names must be unique; got 'interpreter'" in text
    assert "offered:Offered" in text
    assert "xlapy.backends.interpreter" in text


def test_without_packages_the_search_takes_no_metadata_reader(tmp_path: Path) -> None:
    program = "import sys, xlapy; xlapy.devices(); print('importlib.metadata' in sys.modules)"
    assert python(program, tmp_path).strip().endswith("False")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BackendError, match=r"one of .*interpreter, .*pjrt:cpu, .*got 'nowhere'"):
        xlapy.devices("nowhere")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(BackendError, match="backend names must be unique; got 'interpreter'"):
        xlapy.register_backend("interpreter", lambda: None)  # type: ignore[arg-type, return-value]
