"""What tests of several backends need."""

from pathlib import Path

import pytest


@pytest.fixture
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where executables are kept on disk, nothing being there yet."""
    monkeypatch.setenv("XLAPY_CACHE_DIR", str(tmp_path))
    return tmp_path / "executables"
