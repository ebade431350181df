"""Shardy's annotations, which say where parts of arrays are to lie: they change no value, and nothing is kept of them.

A program over one device computes what it computes on several. What is written for one of several devices, each with
its own part of an array, is refused by the name of its operation.
"""

from __future__ import annotations

from typing import Any

from xlapy.errors import UnsupportedOpError
from xlapy.trace.op import register_reader
from xlapy.trace.replay import inline
from xlapy.trace.stablehlo_reader import Reader


def read_annotation(reader: Reader, operation: Any) -> Any:
    """The operand."""
    (x,) = reader.operands(operation)
    return x


def read_group(reader: Reader, operation: Any) -> Any:
    """It says that arrays are divided alike, and gives nothing."""
    return ()


def read_named_computation(reader: Reader, operation: Any) -> Any:
    """What it names, as it stands."""
    operands = reader.operands(operation)
    computation, captured = reader.region(operation, 0, "named_computation", operands)
    return tuple(inline(computation, [*operands, *captured]))


def read_manual_computation(reader: Reader, operation: Any) -> Any:
    """It runs on parts of arrays, one on each device of a mesh."""
    raise UnsupportedOpError(
        f"the parts of arrays must not be computed each on its own device of a mesh; got"
        f" {reader.text(operation, 'in_shardings')}: import the program for one device, and run it on several with"
        " xlapy.replicate [X5]"
    )


for _name in ("sharding_constraint", "reshard", "propagation_barrier"):
    register_reader(f"sdy.{_name}", read_annotation)
register_reader("sdy.sharding_group", read_group)
register_reader("sdy.named_computation", read_named_computation)
register_reader("sdy.manual_computation", read_manual_computation)
