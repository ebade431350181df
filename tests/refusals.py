"""The form that every refusal has: what must hold, the value, the label, and the user's line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from xlapy.errors import XlapyError

_FORM = re.compile(r"; got.*\[[CIX]\d+\]", re.DOTALL)


@contextmanager
def refused(kind: type[XlapyError] = XlapyError, match: str = "") -> Iterator[None]:
    """Expect an error of ours, in the documented form, that names the line of a test."""
    with pytest.raises(kind) as caught:
        yield
    check_form(caught.value)
    assert re.search(match, str(caught.value)), str(caught.value)


def check_form(error: BaseException) -> None:
    """An error of ours in the documented form, whose last line names a line of the tests."""
    text = str(error)
    assert isinstance(error, XlapyError), repr(error)
    assert _FORM.search(text), text
    last = text.split("\n")[-1]
    assert re.match(r"  at .*test_\w+\.py:\d+ in ", last), text
    assert text.count("\n  at ") == 1, text
