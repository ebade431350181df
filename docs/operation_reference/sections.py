"""The sections of XLA's operation semantics, and who claims each of them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operation_reference.docstrings import Docstring
from operation_reference.records import public_functions
from xlapy.trace.op import registry

__all__ = ["claims", "opcodes", "section_names", "unclaimed"]

_FILE = Path(__file__).resolve().parent.parent / "sections.toml"


@functools.cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(_FILE.read_text())


def section_names() -> tuple[str, ...]:
    """The sections that are about operations, in the order of the document."""
    return tuple(_table()["names"])


def unclaimed() -> Mapping[str, str]:
    """The reason of each section that no operation claims."""
    reasons: Mapping[str, str] = _table()["unclaimed"]
    return reasons


def opcodes() -> Mapping[str, str]:
    """The opcodes in HLO that do not follow from the MLIR name, by operation."""
    found: Mapping[str, str] = _table()["opcodes"]
    return found


def claims() -> dict[str, list[str]]:
    """From each section that is claimed to the public functions and operations that do, functions first.

    An operation claims a section by its record, a function of `xlapy.ops` by the sentence "Section NAME of the
    operation semantics" in its docstring.
    """
    found: dict[str, list[str]] = {}
    for name, function in public_functions().items():
        for section in Docstring.of(function).sections:
            found.setdefault(section, []).append(name)
    for op in registry.values():
        names = found.setdefault(op.section, [])
        if op.name not in [n.rstrip("_") for n in names]:
            names.append(op.name)
    return found
