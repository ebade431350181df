"""A computation as text for people: one line an instruction, in HLO's notation of types."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from xlapy.trace.computation import Computation, Value, subcomputations
from xlapy.trace.zeros import is_splat

__all__ = ["format_computation"]


def format_computation(computation: Computation, indent: str = "") -> str:
    """The text of a computation.

    Parameters
    ----------
    computation : Computation
    indent : str
        What each line starts with.

    Returns
    -------
    str

    Examples
    --------
    >>> import xlapy
    >>> b = xlapy.XlaBuilder("double")
    >>> x = b.parameter(0, "f32[4]", "x")
    >>> print(format_computation(b.build(xlapy.ops.add(x, x))))
    double(x: f32[4]) -> f32[4] {
      %0: f32[4] = add(x, x)
      return %0
    }
    """
    names: dict[Value, str] = {}
    numbers = itertools.count()
    taken: set[str] = set()
    parameters = []
    for i, (value, name) in enumerate(
        zip(computation.parameters, computation.parameter_names, strict=True)
    ):
        label = name if name and name not in taken else f"arg{i}"
        taken.add(label)
        names[value] = label
        parameters.append(f"{label}: {value.spec}")
    results = ", ".join(str(s) for s in computation.result_specs)
    lines = [f"{indent}{computation.name}({', '.join(parameters)}) -> {results or '()'} {{"]
    for instruction in computation.instructions:
        outs = []
        for value in instruction.results:
            names[value] = f"%{next(numbers)}"
            outs.append(f"{names[value]}: {value.spec}")
        operands = [names.get(v, "%undefined") for v in instruction.operands]
        params = [
            f"{k}={_format(v)}"
            for k, v in instruction.params.items()
            if not any(True for _ in subcomputations({k: v}))
        ]
        head = f"{', '.join(outs)} = " if outs else ""
        lines.append(f"{indent}  {head}{instruction.op.name}({', '.join(operands + params)})")
        for key, value in instruction.params.items():
            for inner in subcomputations({key: value}):
                text = format_computation(inner, indent + "    ")
                lines.append(f"{indent}    {key} = {text.lstrip()}")
    lines.append(
        f"{indent}  return {', '.join(names.get(v, '%undefined') for v in computation.results)}"
    )
    lines.append(f"{indent}}}")
    return "\n".join(lines)


def _format(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.size > 8:
            return f"{value.reshape(-1)[0]}, ..." if is_splat(value) else f"<{value.size} elements>"
        return np.array2string(value, separator=", ").replace("\n", "")
    return str(value)
