"""Whatever is wrong with the programs kept on disk costs a compilation: never an error, an abort or a wrong value."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Each run is a process of its own: what is loaded from the cache runs as machine code.
PROGRAM = """
import numpy as np
import xlapy

f = xlapy.compile(lambda x: xlapy.sum(xlapy.sin(x) * 3) + 1)
backend = xlapy.devices()  # opens the backend
found = f(np.arange(4, dtype=np.float32))
pjrt = found.backend
print(round(found.item(), 4), pjrt.compiles, pjrt.loads)
"""


def run(directory: Path | str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "XLAPY_CACHE_DIR": str(directory)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


VALUE = "6.6757"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cache")
    assert run(directory) == f"{VALUE} 1 0"
    return directory


def _flip(place: float) -> Callable[[Path], None]:
    def damage(entry: Path) -> None:
        data = bytearray(entry.read_bytes())
        data[int(len(data) * place)] ^= 1
        entry.write_bytes(data)

    return damage


def _directory(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


def _another_version(entry: Path) -> None:
    entry.write_bytes(entry.read_bytes().replace(b"executable 1", b"executable 0", 1))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": lambda e: e.write_bytes(e.read_bytes()[:-100]),
    "cut to its head": lambda e: e.write_bytes(e.read_bytes()[:30]),
    "empty": lambda e: e.write_bytes(b""),
    "longer": lambda e: e.write_bytes(e.read_bytes() + b"x"),
    "a bit flipped": _flip(0.6),
    "a bit of the checksum flipped": _flip(0.0001),
    "another version": _another_version,
    "a directory": _directory,
    "a link to nowhere": lambda e: (e.unlink(), e.symlink_to("/nowhere"))[1],
}


def test_a_damaged_entry_is_built_again(filled: Path) -> None:
    (entry,) = (filled / "executables").iterdir()
    sound = entry.read_bytes()
    assert run(filled) == f"{VALUE} 0 1"
    for name, damage in DAMAGES.items():
        damage(entry)
        assert run(filled) == f"{VALUE} 1 0", name
        if entry.is_dir():
            entry.rmdir()
        elif entry.is_symlink():
            entry.unlink()
        entry.write_bytes(sound)


def test_a_directory_that_cannot_be_used_costs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "entries").mkdir()
    (tmp_path / "entries" / "executables").write_text("")
    for directory in (file, file / "below", tmp_path / "entries", "/proc/nothing", "/dev/null/x"):
        assert run(directory) == f"{VALUE} 1 0", directory
    assert file.read_text() == ""
