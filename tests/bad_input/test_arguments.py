"""Wrong values for any argument of any public function: accepted for what they are, or refused in our form."""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import xlapy
from xlapy import ops
from xlapy.errors import XlapyError

MODULES = {"xlapy": xlapy, "ops": ops, "random": xlapy.random}
#: what has effects on everything else
LEFT_OUT = {"register_backend", "clear_caches", "set_default_backend"}


def deep(x: Any, depth: int = 3000) -> Any:
    for _ in range(depth):
        x = [x]
    return x


WRONG: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "text": lambda: "x",
    "object": object,
    "dict": dict,
    "float": lambda: 1.5,
    "complex": lambda: 1j,
    "negative": lambda: -1,
    "large": lambda: 2**70,
    "larger": lambda: 10**400,
    "mixed": lambda: [1, "a"],
    "deep": lambda: deep(1),
    "deep beside numbers": lambda: [1, deep(1)],
}


def functions() -> Iterator[Any]:
    for where, module in MODULES.items():
        for name in sorted(getattr(module, "__all__", dir(module))):
            f = getattr(module, name)
            if name.startswith("_") or name in LEFT_OUT or isinstance(f, type | ModuleType):
                continue
            if callable(f):
                yield pytest.param(f, id=f"{where}.{name}")


@pytest.mark.parametrize("f", list(functions()))
def test_wrong_values(f: Any) -> None:
    x = xlapy.ones((2, 2))
    parameters = list(inspect.signature(f).parameters.values())
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in placed)
    named = {p.name: x for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    faults = []
    for wrong, make in WRONG.items():
        for i, p in enumerate(parameters):
            args: list[Any] = [x] * needed
            keywords = dict(named)
            if p in placed:
                args = [make() if j == i else x for j in range(max(needed, i + 1))]
            elif p.kind is p.KEYWORD_ONLY:
                keywords[p.name] = make()
            else:
                continue
            try:
                f(*args, **keywords)
            except Exception as error:
                if not isinstance(error, XlapyError) or "; got" not in str(error):
                    faults.append(f"{p.name}={wrong}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)
