"""Where programs run and how their results are compared; what all checks have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import xlapy
from xlapy.backends.base import Backend, CompileOptions
from xlapy.backends.eager import compile_checked, put
from xlapy.backends.registry import get_backend
from xlapy.trace.computation import Computation
from xlapy.trace.replay import inline

from .evaluation import values_of
from .programs import Program
from .rounding import (
    Expected,
    differing,
    expectation,
    flush_step,
    has_denormals,
    samples_of,
)
from .values import Array


class Fault(Exception):
    """Something that must not be.

    Attributes
    ----------
    check : str
        The check that found it.
    op : str
        The operation that is to blame, where that is known.
    """

    def __init__(self, check: str, message: str, op: str = "") -> None:
        super().__init__(message)
        self.check = check
        self.op = op

    @property
    def kind(self) -> tuple[str, str]:
        """What makes two faults the same one, for shrinking."""
        return self.check, self.op


@dataclass
class Setting:
    """Where programs run, and what came of it.

    Attributes
    ----------
    reference, tested : str
        The two backends.
    counts : Counter
        How often each check was done, or not done and why; elements compared and not.
    began : callable
        Is told each check's name before it is done.
    """

    reference: str = "interpreter"
    tested: str = "pjrt:cpu"
    counts: Counter[str] = field(default_factory=Counter)
    began: Callable[[str], None] = lambda name: None

    def backend(self, name: str) -> Backend:
        """The backend of a name."""
        return get_backend(name)


# --- running ------------------------------------------------------------------------------------------------------


def run_on(
    setting: Setting,
    backend: str,
    computation: Computation,
    arrays: Sequence[Array],
    flags: tuple[tuple[str, Any], ...] = (),
) -> list[Array]:
    """The results of a computation on a backend, as a builder's program."""
    chosen = setting.backend(backend)
    placement = chosen.placement
    options = CompileOptions(device=placement.device, flags=flags)
    executable = compile_checked(computation, placement, options)
    payloads = [put(a, placement).payload for a in arrays]
    return [np.array(chosen.get(p)) for p in executable.execute(payloads)]


def run_compiled(backend: str, computation: Computation, arrays: Sequence[Array]) -> list[Array]:
    """The results of a program as a function under @compile."""

    def fuzz(*tensors: Any) -> Any:
        return tuple(inline(computation, tensors))

    fuzz.__name__ = computation.name
    with xlapy.use_backend(backend):
        return [t.numpy() for t in xlapy.compile(fuzz)(*[put(a) for a in arrays])]


def run_eagerly(backend: str, computation: Computation, arrays: Sequence[Array]) -> list[Array]:
    """The results of a program whose operations are called one after the other."""
    with xlapy.use_backend(backend):
        return [t.numpy() for t in inline(computation, [put(a) for a in arrays])]


def lowered_on(backend: str, computation: Computation, arrays: Sequence[Array]) -> Any:
    """A program as a function that was lowered."""

    def fuzz(*tensors: Any) -> Any:
        return tuple(inline(computation, tensors))

    with xlapy.use_backend(backend):
        return xlapy.compile(fuzz).lower(*[put(a) for a in arrays])


def generator(program: Program, purpose: int) -> np.random.Generator:
    """Chance for a check of a program."""
    return np.random.default_rng([*program.seed, purpose])


def expected_results(computation: Computation, arrays: Sequence[Array]) -> list[Expected]:
    """What the kernels give for each result, with how far it may be off: computed once for all checks."""
    key = ("expected", *map(id, arrays))
    kept: Any = computation.cache.get(key)
    if kept is None:
        # With the arrays, so that no others are in their places.
        kept = computation.cache[key] = (_expected_results(computation, arrays), list(arrays))
    found: list[Expected] = kept[0]
    return found


def _expected_results(computation: Computation, arrays: Sequence[Array]) -> list[Expected]:
    env = values_of(computation, arrays)
    samples = samples_of(computation, arrays, 1, count=6)
    others = []
    if has_denormals(list(env.values())):
        others = [values_of(computation, arrays, flush_step)]
    return [
        expectation(
            np.asarray(env[v]),
            [np.asarray(s[v]) for s in samples],
            [np.asarray(o[v]) for o in others],
        )
        for v in computation.results
    ]


def count_elements(setting: Setting, expected: Sequence[Expected]) -> None:
    for e in expected:
        setting.counts["elements"] += e.array.size
        setting.counts["elements not determined"] += int(np.isinf(e.tolerance).sum())


def show(actual: Array, expected: Expected, bad: Array, limit: int = 4) -> str:
    """Some elements that differ."""
    lines = []
    for index in list(zip(*np.nonzero(bad), strict=True))[:limit] if bad.ndim else [()]:
        lines.append(
            f"  at {[int(i) for i in index]}: {actual[index]!r} for {expected.array[index]!r}"
            f" within {expected.tolerance[index]:.3g}"
        )
    return (
        f"{int(bad.sum())} of {bad.size} elements of {actual.dtype}{list(actual.shape)}\n"
        + "\n".join(lines)
    )


def compare(
    setting: Setting,
    check: str,
    program: Program,
    actual: Sequence[Array],
    expected: Sequence[Expected],
) -> None:
    """Raise unless each result is as expected."""
    count_elements(setting, expected)
    if len(actual) != len(expected):
        raise Fault(check, f"{len(actual)} results for {len(expected)}")
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if (a.shape, a.dtype) != (e.array.shape, e.array.dtype):
            raise Fault(check, f"result {i}: {a.dtype}{a.shape} for {e.array.dtype}{e.array.shape}")
        bad = differing(a, e)
        if bad.any():
            raise Fault(check, f"result {i}: {show(a, e, bad)}")


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are the same, not-a-number being the same as itself."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    exact = Expected(b, np.zeros(b.shape))
    return not differing(a, exact, signs=True).any()
