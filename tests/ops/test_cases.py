"""Every case of the tables, in every way that applies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import case_checks
import pytest
from case_checks import TABLES, computation_of, error_cases, has_derivative_check, op_cases
from cases import ErrorCase, OpCase
from reference_programs import INCOMPARABLE, IncomparableError, reference_program

from xlapy.errors import XlapyError
from xlapy.specs import parse_spec
from xlapy.trace.op import registry

CHECKS: dict[str, Callable[[OpCase], None]] = {
    "kernel": case_checks.check_kernel,
    "pjrt": case_checks.check_pjrt,
    "reference": case_checks.check_reference,
    "roundtrip": case_checks.check_roundtrip,
    "vmap": case_checks.check_vmap,
    "jvp": case_checks.check_derivatives,
}


# What no case can check; read from HLO and run in tests/interchange/test_hlo.py instead.
ELSEWHERE = {
    "rng_get_and_update_state": "draws from a state, so no two runs agree",
}


def _parameters() -> Iterator[Any]:
    for table, case in op_cases():
        for check in CHECKS:
            if check == "jvp" and not has_derivative_check(case):
                continue
            # The two modes are one check, for the reverse one is held against the forward one.
            names = ("jvp", "vjp") if check == "jvp" else (check,)
            marks: list[Any] = []
            for name in names:
                if name in case.skip:
                    marks = [pytest.mark.skip(reason=case.skip[name])]
                elif name in case.xfail and not marks:
                    marks = [pytest.mark.xfail(reason=case.xfail[name], strict=True)]
            yield pytest.param(case, check, id=f"{table}-{case.id}-{check}", marks=marks)


@pytest.mark.parametrize(("case", "check"), list(_parameters()))
def test_case(case: OpCase, check: str) -> None:
    CHECKS[check](case)


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=f"{t}-{c.op}-{c.label}-{i}") for i, (t, c) in enumerate(error_cases())],
)
def test_error(case: ErrorCase) -> None:
    specs = [parse_spec(o) for o in case.operands]
    with pytest.raises(XlapyError) as caught:
        registry[case.op].infer(*specs, **case.params)
    assert caught.value.label == case.label
    assert re.search(case.match, str(caught.value))


def test_each_operation_has_a_case() -> None:
    covered = {case.op for _, case in op_cases()}
    assert sorted(set(registry) - covered) == sorted(ELSEWHERE)


def _is_compared(case: OpCase) -> bool:
    """Whether the reference interpreter can run a case."""
    try:
        reference_program(computation_of(case))
    except IncomparableError:
        return False
    return True


def test_operations_are_compared_with_the_reference_interpreter() -> None:
    """Of each operation a case is, or the table says why none can be."""
    compared: set[str] = set()
    for _, case in op_cases():
        if case.op not in compared and "reference" not in case.skip and _is_compared(case):
            compared.add(case.op)
    assert sorted({case.op for _, case in op_cases()} - compared) == sorted(INCOMPARABLE)


@pytest.mark.parametrize("table", sorted(TABLES))
def test_cases_have_names_of_their_own(table: str) -> None:
    names = [case.id for case in getattr(TABLES[table], "CASES", ())]
    assert sorted({n for n in names if names.count(n) > 1}) == []
