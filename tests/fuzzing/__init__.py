"""Random programs, run in every way that has to give the same.

`benchmarks/fuzz.py` runs campaigns of them, `tests/test_fuzz.py` a few. A program is drawn from a seed by the
generators in `fuzzing.generators`, one function for each operation or group of them; what is checked of it stands in
`fuzzing.checks`, how near results have to come in `fuzzing.rounding`, and what is known to differ, and why, in
`fuzzing.known_differences`.
"""
