"""Settings of every test run: a user's environment and cache decide nothing that a test sees."""

import os
import shutil
import tempfile

# The differential tests compare with jax, which would take an accelerator where there is one.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests that need another backend say so themselves.
os.environ.pop("XLAPY_BACKEND", None)

_own_cache: str | None = None
if "XLAPY_CACHE_DIR" not in os.environ:
    # One cache of compiled programs for the run: worker processes inherit the variable.
    _own_cache = tempfile.mkdtemp(prefix="xlapy-test-cache-")
    os.environ["XLAPY_CACHE_DIR"] = _own_cache


def pytest_unconfigure() -> None:
    """Remove the cache; only the process that made it does so."""
    if _own_cache is not None:
        shutil.rmtree(_own_cache, ignore_errors=True)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a parameter by its class where its representation holds an address, which differs between processes."""
    text = str(val)
    return type(val).__name__ if " at 0x" in text and not callable(val) else None
