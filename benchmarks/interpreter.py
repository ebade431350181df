"""Measure the interpreter beside XLA on the CPU: a training step, and each operation that costs much in programs.

Both sides run alternately, several times, as in `budgets.py`; times are medians, and so is the ratio of neighbouring
runs. The budget of the operations alone is that of the training step that they make up.

    python benchmarks/interpreter.py                      every row
    python benchmarks/interpreter.py --row sort           one row; may be given several times
    python benchmarks/interpreter.py --check              exit with 1 where a budget is missed
"""

import os
import sys
from collections.abc import Callable
from typing import Any

# Threads of BLAS that meet while other programs use the processor wait far longer than they compute.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import budgets
import models
import numpy as np
from budgets import Action, Row

#: how many times slower than compiled code the interpreter may be
SLOWER = 20.0


def beside_xla(function: Callable[..., Any], *inputs: Any) -> tuple[Action, Action]:
    """A function compiled for both backends, on arguments that lie there."""
    import xlapy

    def on(backend: str) -> Action:
        compiled = xlapy.compile(function, backend=backend)
        with xlapy.use_backend(backend):
            given = budgets.to_xlapy(inputs)
        return lambda: xlapy.block_until_ready(compiled(*given))

    return on("interpreter"), on("pjrt:cpu")


def normal(*shape: int) -> np.ndarray:
    """Random numbers, the same each time."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def make_training() -> tuple[Action, Action]:
    import xlapy

    return beside_xla(models.cnn_step(xlapy), models.cnn_parameters(), *models.cnn_batch())


def make_matmul() -> tuple[Action, Action]:
    """Beside numpy itself."""
    import xlapy

    x, y = normal(512, 512), normal(512, 512) + 1
    compiled = xlapy.compile(lambda a, b: a @ b, backend="interpreter")
    with xlapy.use_backend("interpreter"):
        given = budgets.to_xlapy((x, y))
    return lambda: compiled(*given), lambda: x @ y


def convolve(x: Any, w: Any) -> Any:
    from xlapy import ops

    return ops.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers="b01f_01io->b01f")


def make_convolution() -> tuple[Action, Action]:
    return beside_xla(convolve, normal(64, 14, 14, 16), normal(3, 3, 16, 32))


def make_convolution_gradient() -> tuple[Action, Action]:
    """With respect to the image and to the weights."""
    import xlapy

    def loss(x: Any, w: Any) -> Any:
        y = convolve(x, w)
        return xlapy.sum(y * y)

    return beside_xla(
        xlapy.grad(loss, argnums=(0, 1)), normal(64, 14, 14, 16), normal(3, 3, 16, 32)
    )


def make_pooling(name: str, init: float, size: int, stride: int) -> tuple[Action, Action]:
    from xlapy import ops

    def pool(x: Any) -> Any:
        return ops.reduce_window(
            x, init, getattr(ops, name), (1, size, size, 1), (1, stride, stride, 1), "kSame"
        )

    return beside_xla(pool, normal(64, 28, 28, 16))


def make_select_and_scatter(size: int) -> tuple[Action, Action]:
    """The derivative of max pooling; the windows overlap where they are larger than their distance of 2."""
    from xlapy import ops

    def scatter(x: Any, source: Any) -> Any:
        window = (1, size, size, 1), (1, 2, 2, 1), "kSame"
        return ops.select_and_scatter(x, ops.ge, *window, source, 0.0, ops.add)

    return beside_xla(scatter, normal(64, 28, 28, 16), normal(64, 14, 14, 16))


def make_scatter(window: bool) -> tuple[Action, Action]:
    """Rows added to a table, as in the derivative of an embedding; or single elements."""
    from xlapy import ops

    places = np.random.default_rng(1).integers(0, 5000, (20000, 1)).astype(np.int32)
    numbers = ops.ScatterDimensionNumbers(
        update_window_dims=(1,) if window else (),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )

    def add(table: Any, indices: Any, updates: Any) -> Any:
        return ops.scatter(table, indices, updates, ops.add, numbers)

    row = (32,) if window else ()
    return beside_xla(add, normal(5000, *row), places, normal(20000, *row))


def make_sort() -> tuple[Action, Action]:
    from xlapy import ops

    return beside_xla(lambda x: ops.sort(x, 1), normal(100, 5000))


def make_sort_pairs() -> tuple[Action, Action]:
    """Keys in descending order, with values that follow them."""
    from xlapy import ops

    def pairs(keys: Any, values: Any) -> Any:
        return ops.sort((keys, values), 0, lambda a, b, x, y: ops.gt(a, b))

    return beside_xla(pairs, normal(200000), np.arange(200000, dtype=np.int32))


def iterated(x: Any, rounds: int) -> Any:
    """A chaotic map, again and again."""
    import xlapy

    return xlapy.while_loop(
        lambda state: state[0] < rounds,
        lambda state: (state[0] + 1, xlapy.tanh(state[1] * 1.5 + 0.25)),
        (0, x),
    )[1]


def make_while(size: int, rounds: int) -> tuple[Action, Action]:
    return beside_xla(lambda x: iterated(x, rounds), normal(size))


def make_small_while() -> tuple[Action, Action]:
    """What an instruction costs however small its arrays are; no interpreter is near compiled code here."""
    ours, _ = make_while(8, 1000)
    x = normal(8)

    def by_hand() -> Any:
        i, y = np.int32(0), x
        while i < np.int32(1000):
            i, y = i + np.int32(1), np.tanh(y * np.float32(1.5) + np.float32(0.25))
        return y

    return ours, by_hand


ROWS = (
    Row("training", "a training step of a small CNN", SLOWER, make_training),
    Row("matmul", "matmul, f32[512,512]", 1.2, make_matmul, other="numpy"),
    Row("convolution", "convolution, 64 x 14 x 14, 16 to 32 features", SLOWER, make_convolution),
    Row("convolution_grad", "its gradient", SLOWER, make_convolution_gradient),
    Row(
        "max_pool",
        "reduce_window, max of 2 x 2",
        SLOWER,
        lambda: make_pooling("max", -np.inf, 2, 2),
    ),
    Row(
        "sum_pool",
        "reduce_window, sum of 5 x 5, overlapping",
        SLOWER,
        lambda: make_pooling("add", 0.0, 5, 1),
    ),
    Row(
        "select_and_scatter",
        "select_and_scatter, 2 x 2",
        SLOWER,
        lambda: make_select_and_scatter(2),
    ),
    Row(
        "select_and_scatter_overlapping",
        "select_and_scatter, 3 x 3, overlapping",
        SLOWER,
        lambda: make_select_and_scatter(3),
    ),
    Row("scatter", "scatter, 20000 numbers", SLOWER, lambda: make_scatter(False)),
    Row("scatter_rows", "scatter, 20000 rows of 32", SLOWER, lambda: make_scatter(True)),
    Row("sort", "sort, 100 rows of 5000", SLOWER, make_sort),
    Row("sort_pairs", "sort, 200000 pairs, by a comparator", SLOWER, make_sort_pairs),
    Row("while", "while, 100 rounds, f32[20000]", SLOWER, lambda: make_while(20000, 100)),
    Row("while_small", "while, 1000 rounds, f32[8]", 6.0, make_small_while, other="numpy"),
)


if __name__ == "__main__":
    sys.exit(budgets.report(ROWS, __doc__, ("interpreter", "XLA"), repeats=9))
