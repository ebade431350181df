"""A program as a script that runs without this package."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.trace.stablehlo import to_stablehlo

from .programs import Program


def script(program: Program) -> str:
    """Python text that runs the program on both backends and prints the results."""
    try:
        text = to_stablehlo(program.computation, locations=False)
    except Exception as error:
        text = f"(it cannot be written: {error})"
    arrays = ",\n    ".join(literal(a) for a in program.arrays)
    return (
        "import ml_dtypes, numpy as np, xlapy\n"
        "from numpy import inf, nan\n"
        f'f = xlapy.from_stablehlo("""\n{text}""")\n'
        f"arrays = [\n    {arrays}\n]\n"
        'for backend in ("interpreter", "pjrt:cpu"):\n'
        "    print(f(*arrays, backend=backend))\n"
    )


def literal(array: Any) -> str:
    """An array as Python text, exact to the bit."""
    dtype = as_dtype(array.dtype)
    name = dtype.numpy.name
    kind = f"np.{name}" if hasattr(np, name) else f"ml_dtypes.{name}"
    if dtype.bits < 8 or dtype.kind in ("bool", "int", "uint"):
        values = array.astype(object if dtype.bits == 64 else np.int64).tolist()
        if dtype.kind == "bool":
            values = array.tolist()
        return f"np.array({values}, np.{'uint64' if name == 'uint64' else 'int64'}).astype({kind})"
    if dtype.kind == "complex" or name in ("float32", "float64"):
        return f"np.array({array.tolist()}, {kind})"
    return f"np.array({array.astype(np.float64).tolist()}).astype({kind})"
