"""A program built instruction by instruction, with the operations of HLO and nothing else."""

import numpy as np

import xlapy
from xlapy import ops

b = xlapy.XlaBuilder("axpy")
a = b.parameter(0, "f32[]", "a")
x = b.parameter(1, "f32[8]", "x")
y = b.parameter(2, "f32[8]", "y")

# HLO's operations neither promote nor broadcast by themselves: every step is written out.
scaled = ops.mul(ops.broadcast_in_dim(a, out_dim_size=(8,), broadcast_dimensions=()), x)
axpy = b.build(ops.add(scaled, y))
print(axpy)

# It runs on whichever backend its operands are.
arguments = (np.float32(2.0), np.arange(8, dtype=np.float32), np.ones(8, np.float32))
for backend in ("pjrt:cpu", "interpreter"):
    with xlapy.use_backend(backend):
        result = ops.call(axpy, *map(xlapy.asarray, arguments))
        print(f"{backend:<12}", np.asarray(result))
        assert np.array_equal(np.asarray(result), 2 * arguments[1] + arguments[2])
