"""Measure xlapy beside jax, row by row, and compare with the budgets.

Both sides run alternately in one process (the import row: in child processes), several times; a
row's times are medians, its ratio is the median of the ratios of neighbouring runs, so that a
slow spell of the machine falls on both.

    python benchmarks/budgets.py                      every row
    python benchmarks/budgets.py --row eager_add      one row; may be given several times
    python benchmarks/budgets.py --check              exit with 1 where a budget is missed
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# Both sides on the CPU, whatever the machine has.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLAPY_BACKEND", "pjrt:cpu")

import models
import numpy as np

Action = Callable[[], Any]
# A sample of a fast call repeats it until this much time has passed, in seconds.
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True)
class Row:
    """One line of the table: how to make its two sides, and what their ratio must not exceed."""

    name: str
    what: str
    budget: float
    make: Callable[[], tuple[Action, Action]]
    # Calls of one sample: 1 for what is slow or what only its first call shows; None: calibrated.
    calls: int | None = None
    other: str = "jax"
    # What a sample's time is: the default is the wall time of a call, in seconds.
    measured_by_action: bool = False


def jax_modules() -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    return jax, jnp


def to_xlapy(tree: Any) -> Any:
    import xlapy

    return xlapy.tree.map(xlapy.asarray, tree)


def to_jax(tree: Any) -> Any:
    jax, jnp = jax_modules()
    return jax.tree.map(jnp.asarray, tree)


def make_import() -> tuple[Action, Action]:
    def first_device(module: str) -> float:
        program = (
            "import time; start = time.perf_counter(); "
            f"import {module}; {module}.devices(); print(time.perf_counter() - start)"
        )
        child = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            # Installed packages have their bytecode; a working tree must be allowed to write it.
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            text=True,
        )
        return float(child.stdout)

    return lambda: first_device("xlapy"), lambda: first_device("jax")


def make_lowering(loss: Callable[..., Any], inputs: Any, gradient: bool) -> tuple[Action, Action]:
    """Trace and lower to text. A new function each time, so that no cache answers."""
    import xlapy

    jax, jnp = jax_modules()
    ours, theirs = to_xlapy(inputs), to_jax(inputs)

    def lower_ours() -> str:
        def function(*args: Any) -> Any:
            return loss(xlapy, *args)

        traced = xlapy.compile(xlapy.grad(function) if gradient else function)
        return traced.lower(*ours).stablehlo_text

    def lower_theirs() -> str:
        def function(*args: Any) -> Any:
            return loss(jnp, *args)

        traced = jax.jit(jax.grad(function) if gradient else function)
        return traced.lower(*theirs).as_text()

    return lower_ours, lower_theirs


def make_transformer(gradient: bool) -> tuple[Action, Action]:
    inputs = (models.transformer_parameters(), *models.transformer_batch())
    return make_lowering(models.transformer_loss, inputs, gradient)


def make_chain(gradient: bool) -> tuple[Action, Action]:
    inputs = (np.full(8, 0.5, np.float32), np.full(8, 0.25, np.float32))
    return make_lowering(models.chain_loss, inputs, gradient)


def make_call(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Action, Action]:
    """The call of a compiled function whose arguments are on the device."""
    import xlapy

    jax, _ = jax_modules()
    ours, theirs = to_xlapy(inputs), to_jax(inputs)
    compiled, jitted = xlapy.compile(function), jax.jit(function)
    return lambda: compiled(*ours), lambda: jitted(*theirs)


def make_call_two() -> tuple[Action, Action]:
    return make_call(lambda x, y: x + y, (np.ones(8, np.float32), np.ones(8, np.float32)))


def make_call_dict() -> tuple[Action, Action]:
    return make_call(models.sum_of_arrays, (models.many_arrays(),))


def make_eager(function: Callable[..., Any], count: int) -> tuple[Action, Action]:
    arrays = (np.arange(8, dtype=np.float32),) * count
    ours, theirs = to_xlapy(arrays), to_jax(arrays)
    return lambda: function(*ours), lambda: function(*theirs)


def make_from_numpy() -> tuple[Action, Action]:
    import xlapy

    _, jnp = jax_modules()
    array = np.arange(8, dtype=np.float32)
    return lambda: xlapy.asarray(array), lambda: jnp.asarray(array)


def make_training() -> tuple[Action, Action]:
    import xlapy

    jax, jnp = jax_modules()
    parameters = models.mlp_parameters()
    inputs = (parameters, models.adam_state(parameters), *models.mlp_batch())
    ours, theirs = to_xlapy(inputs), to_jax(inputs)
    step = xlapy.compile(models.training_step(xlapy, xlapy.value_and_grad, xlapy.tree.map))
    jitted = jax.jit(models.training_step(jnp, jax.value_and_grad, jax.tree.map))
    return lambda: xlapy.block_until_ready(step(*ours)), lambda: jax.block_until_ready(
        jitted(*theirs)
    )


def make_interpreter() -> tuple[Action, Action]:
    import xlapy

    parameters = models.mlp_parameters()
    x, _ = models.mlp_batch()

    def forward(parameters: Any, x: Any) -> Any:
        return models.mlp(xlapy, parameters, x)

    compiled = xlapy.compile(forward, backend="interpreter")
    with xlapy.use_backend("interpreter"):
        ours = to_xlapy((parameters, x))
    return lambda: compiled(*ours), lambda: models.mlp(np, parameters, x)


def make_scaling() -> tuple[Action, Action]:
    """Seconds for each instruction of a trace of 10^6 of them, against one of 10^3."""
    import xlapy

    inputs = to_xlapy((np.full(8, 0.5, np.float32), np.full(8, 0.25, np.float32)))

    def seconds_per_instruction(operations: int, traces: int) -> float:
        start = time.perf_counter()
        for _ in range(traces):
            traced = xlapy.compile(lambda x, y: models.chain(xlapy, x, y, operations))
            traced.trace(*inputs)
        return (time.perf_counter() - start) / (operations * traces)

    return lambda: seconds_per_instruction(10**6, 1), lambda: seconds_per_instruction(10**3, 50)


ROWS = (
    Row(
        "import",
        "import and the first device",
        0.4,
        make_import,
        calls=1,
        measured_by_action=True,
    ),
    Row(
        "transformer",
        "trace + lower, 12-layer transformer loss",
        0.20,
        lambda: make_transformer(gradient=False),
        calls=1,
    ),
    Row(
        "transformer_grad",
        "trace + lower, its gradient",
        0.12,
        lambda: make_transformer(gradient=True),
        calls=1,
    ),
    Row(
        "chain_grad",
        "trace + lower, gradient of 3000 operations",
        0.12,
        lambda: make_chain(gradient=True),
        calls=1,
    ),
    Row("call", "compiled call, 2 arrays", 1.0, make_call_two),
    Row("call_dict", "compiled call, a dict of 50 arrays", 0.8, make_call_dict),
    Row("eager_add", "eager x + y, f32[8]", 0.85, lambda: make_eager(lambda x, y: x + y, 2)),
    Row("eager_index", "eager x[3]", 0.25, lambda: make_eager(lambda x: x[3], 1)),
    Row("eager_slice", "eager x[1:3]", 0.25, lambda: make_eager(lambda x: x[1:3], 1)),
    Row("from_numpy", "numpy -> tensor, f32[8]", 0.3, make_from_numpy),
    Row("training", "a training step, compiled", 1.02, make_training),
    Row("interpreter", "interpreter: MLP forward", 2.0, make_interpreter, other="numpy by hand"),
    Row(
        "scaling",
        "time per traced instruction, 10^6 of them",
        1.25,
        make_scaling,
        calls=1,
        other="10^3 of them",
        measured_by_action=True,
    ),
)


def calls_for(action: Action) -> int:
    """How many calls fill a sample."""
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            action()
        elapsed = time.perf_counter() - start
        if elapsed >= SAMPLE_SECONDS or calls >= 2**16:
            return calls
        calls *= 2


def sample(row: Row, action: Action, calls: int) -> float:
    """Seconds of one call, over one sample."""
    gc.collect()
    if row.measured_by_action:
        return float(action())
    start = time.perf_counter()
    for _ in range(calls):
        action()
    return (time.perf_counter() - start) / calls


def measure(row: Row, repeats: int) -> tuple[float, float, float]:
    """Median seconds of xlapy and of the other side, and the median of their ratios."""
    ours, theirs = row.make()
    ours(), theirs()  # compiles, fills caches, imports what a first call imports
    calls = row.calls or max(calls_for(ours), calls_for(theirs))
    times = []
    for i in range(repeats):
        pair = [0.0, 0.0]
        # Who goes first changes, so that neither always finds the caches as the other left them.
        for side in (0, 1) if i % 2 == 0 else (1, 0):
            pair[side] = sample(row, (ours, theirs)[side], calls)
        times.append((pair[0], pair[1]))
    return (
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        statistics.median(a / b for a, b in times),
    )


def readable(seconds: float) -> str:
    """A time with the unit that fits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def report(rows: Sequence[Row], about: str, sides: tuple[str, str], repeats: int) -> int:
    """Measure the rows that the command line asks for and print the table; 1 with --check where a budget is missed."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    names = [row.name for row in rows]
    parser.add_argument("--row", action="append", choices=names, help="measure this row only")
    parser.add_argument("--repeats", type=int, default=repeats, help="samples of each side")
    parser.add_argument("--check", action="store_true", help="exit with 1 over a budget")
    arguments = parser.parse_args()
    chosen = [row for row in rows if not arguments.row or row.name in arguments.row]

    print(f"{'row':<46}{sides[0]:>12}{sides[1]:>11}{'ratio':>8}{'budget':>8}  ok")
    missed = 0
    for row in chosen:
        ours, theirs, ratio = measure(row, arguments.repeats)
        kept = ratio <= row.budget
        missed += not kept
        note = "" if row.other == "jax" else f"  (beside {row.other})"
        print(
            f"{row.what:<46}{readable(ours):>12}{readable(theirs):>11}"
            f"{ratio:>8.4g}{row.budget:>8.4g}  {'yes' if kept else 'NO'}{note}",
            flush=True,
        )
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(report(ROWS, __doc__, ("xlapy", "jax"), repeats=15))
