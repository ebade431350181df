"""Eager tensors: numpy-like operations that run at once on XLA."""

import numpy as np

import xlapy

x = xlapy.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
print("x =", x)
print("shape, element type:", x.shape, x.dtype)
print("x[1:, ::2] =", x[1:, ::2])

# Broadcasting and promotion are numpy's; a Python number takes the tensor's element type.
y = (x - x.mean(axis=0)) / 2
print("columns centred and halved:", y)
print("x @ x.T =", x @ x.T)

# A slice is a copy; `at` gives a changed copy, and assigning to an element rebinds x itself.
print("x.at[0].add(100)[0] =", x.at[0].add(100)[0])

# Back to numpy, or on another backend: the interpreter runs numpy kernels, without a compiler.
print("as numpy:", type(np.asarray(y)).__name__)
with xlapy.use_backend("interpreter"):
    z = xlapy.sin(xlapy.asarray([0.0, 1.0]))
    print("on the interpreter:", z)

# An error names what must hold, what was given, and the line that did it.
try:
    x @ x
except xlapy.errors.XlapyError as error:
    print(f"{type(error).__name__}: {error}")
