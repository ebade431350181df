"""Python functions that programs call, where they fail."""

from typing import Any

import pytest
from agreement import BACKENDS

import xlapy
from xlapy import ops
from xlapy.errors import BackendError


class OwnError(Exception):
    """An error of the function."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_a_function_raises_is_the_cause_of_one_error(backend: str, compiled: bool) -> None:
    def failing(x: Any) -> Any:
        raise OwnError("no such row")

    def call(x: Any) -> Any:
        return ops.python_callback(failing, [x], "f32[2]")

    with xlapy.use_backend(backend):
        x = xlapy.ones(2)
        shown = r"must not fail; got OwnError: no such row \[X1\]"
        for _ in range(2):
            with pytest.raises(BackendError, match=shown) as caught:
                xlapy.block_until_ready((xlapy.compile(call) if compiled else call)(x))
            assert type(caught.value.__cause__) is OwnError
            assert "test_callbacks.py" in str(caught.value)
