"""Tables of cases: one module for each module of `xlapy.ops`, read by `tests/ops/test_cases.py`.

Each module defines ``CASES: list[OpCase]`` and ``ERRORS: list[ErrorCase]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any


@dataclass(frozen=True)
class OpCase:
    """One use of an operation, checked in every way that applies.

    Attributes
    ----------
    op : str
        The name in the registry.
    operands : sequence
        Each a spec such as ``"f32[3,4]"`` (filled from `domain` by a seeded generator) or a numpy array with the
        exact values.
    params : mapping
        The record's static parameters, normalised; `body` makes the computations among them.
    domain : (low, high)
        Of the random operands.
    tol : float
        Relative and absolute tolerance between kernel, XLA and the reference interpreter; 0 is bit-equality.
    order : int
        To which order derivatives are checked numerically; 0 for none.
    wrt : sequence of int, optional
        The operands that derivatives are taken with respect to; by default all that vary.
    name : str
        Distinguishes the cases of one operation.
    xfail : mapping
        From a check's name (kernel, pjrt, reference, jvp, vjp, vmap, roundtrip) to the reason why it must fail.
    skip : mapping
        From a check's name to the reason why it cannot be run at all (it would abort or hang the process).
    """

    op: str
    operands: Sequence[Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    domain: tuple[float, float] = (-2.0, 2.0)
    tol: float = 1e-5
    order: int = 2
    wrt: Sequence[int] | None = None
    name: str = ""
    xfail: Mapping[str, str] = field(default_factory=dict)
    skip: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What pytest shows."""
        operands = "_".join(
            str(o) if isinstance(o, str) else f"{o.dtype}{list(o.shape)}" for o in self.operands
        )
        return f"{self.op}-{self.name or operands}".replace(" ", "")


@dataclass(frozen=True)
class ErrorCase:
    """A wrong use, and the error that it must give.

    Attributes
    ----------
    op : str
    operands : sequence of str or spec
        Specs; one object in two places stands for the same operand twice.
    params : mapping
    label : str
        Of the violated constraint, such as ``"C5"``.
    match : str
        A regular expression found in the message.
    """

    op: str
    operands: Sequence[Any]
    params: Mapping[str, Any]
    label: str
    match: str = ""


def body(function: Callable[..., Any], *specs: str) -> Any:
    """A computation for a case's parameter, from a function of tensors of these specs."""
    from xlapy.specs import parse_spec
    from xlapy.trace.builder import as_computation

    return as_computation(function, [parse_spec(s) for s in specs])


def until(release: str, reasons: Mapping[str, str]) -> Mapping[str, str]:
    """Reasons for `OpCase.xfail` that hold with a jaxlib before a release, and none with that one and later ones."""

    def numbers(text: str) -> list[int]:
        return [int(n) for n in text.split(".")[:3] if n.isdecimal()]

    return reasons if numbers(version("jaxlib")) < numbers(release) else {}
