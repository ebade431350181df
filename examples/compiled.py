"""A compiled function: recorded once for each signature, and open to reading at every stage."""

import numpy as np

import xlapy


@xlapy.compile
def standardise(x: xlapy.Tensor) -> xlapy.Tensor:
    """Columns of mean 0 and variance 1."""
    centred = x - xlapy.mean(x, axis=0)
    return centred / xlapy.sqrt(xlapy.mean(centred * centred, axis=0))


x = xlapy.asarray(np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32))
for _ in range(3):
    y = standardise(x)
print("means:", np.asarray(y).mean(axis=0).round(6), "deviations:", np.asarray(y).std(axis=0))
print(f"called 3 times: {standardise.traces} trace, {standardise.compiles} compilation")

# What was recorded, the text that goes to the compiler, and what the compiler made of it.
print("\n--- the computation ---")
print(standardise.trace(x))
lowered = standardise.lower(x)
print("\n--- StableHLO ---")
print(lowered.stablehlo_text)
print("\n--- HLO ---")
print(lowered.hlo_text)
print("\n--- optimised HLO ---")
print(lowered.compile().optimized_hlo_text)
