"""Collectives over several devices: on the interpreter, on XLA and on StableHLO's interpreter, against numpy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases import body
from reference_process import reference_interpreter

import xlapy
from xlapy import ops
from xlapy.backends.base import Backend
from xlapy.backends.pjrt import Pjrt
from xlapy.backends.registry import get_backend
from xlapy.errors import ConstraintError, NotDifferentiableError, UnsupportedOpError, XlapyError
from xlapy.specs import TensorSpec
from xlapy.trace.builder import trace
from xlapy.trace.process_grid import settled
from xlapy.trace.stablehlo import to_stablehlo

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
Grid = tuple[int, int]


@functools.cache
def eight_devices() -> Pjrt:
    return Pjrt("cpu", num_devices=8)


def backend_of(name: str) -> Backend:
    return eight_devices() if name == "pjrt:cpu" else get_backend(name)


@pytest.fixture(params=["interpreter", "pjrt:cpu"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return backend_of(request.param)


def run(
    function: Function, grid: Grid, *arrays: Array, on: Backend | str = "interpreter"
) -> list[Array]:
    """The results on all devices, by result."""
    where = backend_of(on) if isinstance(on, str) else on
    call = xlapy.replicate(function, num_replicas=grid[0], num_partitions=grid[1], backend=where)
    found = call(*arrays)
    return [f.numpy() for f in (found if isinstance(found, tuple) else (found,))]


def by_reference(function: Function, grid: Grid, *arrays: Array) -> list[Array]:
    """The results of StableHLO's interpreter."""
    specs = [TensorSpec(a.shape[1:], a.dtype) for a in arrays]
    # Without its groups written out it knows none.
    computation = settled(trace(function, specs).computation, *grid)
    text = to_stablehlo(computation, locations=False)
    count = grid[0] * grid[1]
    given = [[a[i] for a in arrays] for i in range(count)]
    found = reference_interpreter().evaluate_grid(text, given, grid[1])
    return [np.stack(column) for column in zip(*found, strict=True)]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


# --- groups -------------------------------------------------------------------------------------------------------

#: (grid, groups, channel_id, use_global_device_ids, the groups as numbers of devices)
Way = tuple[Grid, Any, int, bool, list[list[int]]]
WAYS: list[Way] = [
    ((2, 1), None, 0, False, [[0, 1]]),
    ((4, 1), [[1, 0], [2, 3]], 0, False, [[1, 0], [2, 3]]),
    ((4, 1), [[3, 1, 0, 2]], 5, False, [[3, 1, 0, 2]]),
    ((1, 4), None, 1, False, [[0, 1, 2, 3]]),
    ((1, 4), [[2, 0], [1, 3]], 1, True, [[2, 0], [1, 3]]),
    ((2, 2), None, 0, False, [[0, 2], [1, 3]]),
    ((2, 2), [[1, 0]], 0, False, [[2, 0], [3, 1]]),
    ((2, 2), None, 2, False, [[0, 2, 1, 3]]),
    ((2, 2), [[1, 0]], 2, False, [[2, 0, 3, 1]]),
    ((2, 2), [[1], [0]], 2, False, [[2, 3], [0, 1]]),
    ((1, 2), None, 1, False, [[0, 1]]),
    ((2, 2), [[3, 2], [0, 1]], 1, True, [[3, 2], [0, 1]]),
    ((2, 2), None, 2, True, [[0, 1, 2, 3]]),
    ((2, 2), [[0, 3], [2, 1]], 2, True, [[0, 3], [2, 1]]),
    ((4, 2), [[3, 0], [1, 2]], 1, False, [[6, 0, 7, 1], [2, 4, 3, 5]]),
    ((2, 4), [[7, 0, 2, 5], [6, 1, 3, 4]], 1, True, [[7, 0, 2, 5], [6, 1, 3, 4]]),
    ((8, 1), None, 0, False, [list(range(8))]),
]
#: groups of several sizes
UNEVEN: list[Way] = [
    ((4, 1), [[2, 0, 3], [1]], 0, False, [[2, 0, 3], [1]]),
    ((3, 2), [[1], [2, 0]], 0, False, [[2], [3], [4, 0], [5, 1]]),
    ((2, 2), [[3], [0, 2, 1]], 1, True, [[3], [0, 2, 1]]),
]
#: of operations that know replicas and partitions only
LINES: list[tuple[Grid, Any, int, list[list[int]]]] = [
    ((2, 1), None, 0, [[0, 1]]),
    ((4, 1), [[1, 0], [2, 3]], 0, [[1, 0], [2, 3]]),
    ((1, 4), None, 3, [[0, 1, 2, 3]]),
    ((2, 2), [[1, 0]], 0, [[2, 0], [3, 1]]),
    ((2, 2), [[1, 0]], 3, [[1, 0], [3, 2]]),
    ((4, 2), [[3, 0], [1, 2]], 0, [[6, 0], [7, 1], [2, 4], [3, 5]]),
    ((2, 4), [[3, 0], [1, 2]], 1, [[3, 0], [1, 2], [7, 4], [5, 6]]),
]


def name_of(way: Any) -> str:
    return (
        f"{way[0][0]}x{way[0][1]}_{way[1]}_{way[2]}{'_global' if way[3] is True else ''}".replace(
            " ", ""
        )
    )


def devices_of(grid: Grid) -> int:
    return grid[0] * grid[1]


def filled(
    count: int, groups: Sequence[Sequence[int]], of_group: Callable[[list[int]], list[Array]]
) -> Array:
    """What each device gets, from what each group gets; zeros for devices in none."""
    found: dict[int, Array] = {}
    for group in groups:
        found.update(zip(group, of_group(list(group)), strict=True))
    empty = np.zeros_like(next(iter(found.values())))
    return np.stack([found.get(i, empty) for i in range(count)])


def check(function: Function, grid: Grid, arrays: Sequence[Array], expected: Sequence[Array], backend: Backend,
          tolerance: float = 1e-6) -> None:  # fmt: skip
    found = run(function, grid, *arrays, on=backend)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance)


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_all_gather(way: Way, backend: Backend) -> None:
    grid, groups, channel, is_global, members = way
    count, size = devices_of(grid), len(members[0])
    x, y = normal(count, 2, 3), np.arange(count * 2).reshape(count, 2, 1)

    def function(x: Any, y: Any) -> Any:
        one = ops.all_gather(x, 1, size, groups, channel, use_global_device_ids=is_global)
        return (
            one,
            *ops.all_gather([y, x], 0, size, groups, channel, use_global_device_ids=is_global),
        )

    def joined(a: Array, axis: int) -> Array:
        return filled(count, members, lambda g: [np.concatenate([a[i] for i in g], axis)] * size)

    check(function, grid, [x, y], [joined(x, 1), joined(y, 0), joined(x, 0)], backend, 0)


@pytest.mark.parametrize("way", [*WAYS, *UNEVEN], ids=name_of)
def test_all_reduce(way: Way, backend: Backend) -> None:
    grid, groups, channel, is_global, members = way
    count = devices_of(grid)
    x, y = normal(count, 2, 3), np.arange(count * 2).reshape(count, 2) % 5

    def function(x: Any, y: Any) -> Any:
        def reduced(a: Any, f: Any) -> Any:
            return ops.all_reduce(a, f, groups, channel, use_global_device_ids=is_global)

        return (
            *reduced([x, y], ops.add),
            reduced(x, ops.max),
            reduced(x, ops.mul),
            reduced(y, ops.xor),
            reduced(x, mix),
        )

    def fold(a: Array, f: Callable[[Array, Array], Array]) -> Array:
        return filled(count, members, lambda g: [functools.reduce(f, [a[i] for i in g])] * len(g))

    expected = [fold(x, np.add), fold(y, np.add), fold(x, np.maximum), fold(x, np.multiply), fold(y, np.bitwise_xor),
                fold(x, lambda a, b: a + b + a * b)]  # fmt: skip
    check(function, grid, [x, y], expected, backend)


def mix(a: Any, b: Any) -> Any:
    """An associative function that has no name."""
    return ops.add(ops.add(a, b), ops.mul(a, b))


def last(a: Any, b: Any) -> Any:
    """Associative, but not commutative."""
    return ops.add(ops.mul(a, 0.0), b)


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_reduce_scatter(way: Way, backend: Backend) -> None:
    grid, groups, channel, is_global, members = way
    count, size = devices_of(grid), len(members[0])
    x = normal(count, 2, 3 * size)

    def function(x: Any) -> Any:
        def scattered(f: Any) -> Any:
            return ops.reduce_scatter(
                x, f, 1, size, groups, channel, use_global_device_ids=is_global
            )

        return scattered(ops.add), scattered(ops.min), scattered(mix), scattered(last)

    def fold(f: Callable[[Array, Array], Array]) -> Array:
        return filled(
            count, members, lambda g: np.split(functools.reduce(f, [x[i] for i in g]), size, axis=1)
        )

    expected = [
        fold(np.add),
        fold(np.minimum),
        fold(lambda a, b: a + b + a * b),
        fold(lambda a, b: b),
    ]
    check(function, grid, [x], expected, backend)


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_what_is_not_commutative_is_reduced_in_the_order_of_the_group(
    way: Way, backend: Backend
) -> None:
    grid, groups, channel, is_global, members = way
    count = devices_of(grid)
    x = normal(count, 3)
    expected = filled(count, members, lambda g: [x[g[-1]]] * len(g))
    check(
        lambda x: ops.all_reduce(x, last, groups, channel, use_global_device_ids=is_global), grid, [x], [expected],
        backend,
    )  # fmt: skip


@pytest.mark.parametrize("way", LINES, ids=name_of)
def test_all_to_all(way: Any, backend: Backend) -> None:
    grid, groups, channel, members = way
    count, size = devices_of(grid), len(members[0])
    x, y = normal(count, 2, 3 * size), np.arange(count * size).reshape(count, size).astype(np.int8)

    def function(x: Any, y: Any) -> Any:
        one = ops.all_to_all(x, 1, 0, size, groups, channel_id=channel)
        return (one, *ops.all_to_all((y, x), -1, -1, size, groups, channel_id=channel))

    def exchanged(a: Array, split: int, concat: int) -> Array:
        def of_group(g: list[int]) -> list[Array]:
            parts = [np.split(a[i], size, axis=split) for i in g]
            return [np.concatenate([p[j] for p in parts], axis=concat) for j in range(size)]

        return filled(count, members, of_group)

    check(
        function,
        grid,
        [x, y],
        [exchanged(x, 1, 0), exchanged(y, 0, 0), exchanged(x, 1, 1)],
        backend,
        0,
    )


@pytest.mark.parametrize("way", LINES, ids=name_of)
def test_collective_broadcast(way: Any, backend: Backend) -> None:
    grid, groups, channel, members = way
    count = devices_of(grid)
    x = normal(count, 3)
    x[0, 0] = -0.0
    expected = filled(count, members, lambda g: [x[g[0]]] * len(g))
    check(lambda x: ops.collective_broadcast(x, groups, channel), grid, [x], [expected], backend, 0)


def test_devices_in_no_group_get_zeros(backend: Backend) -> None:
    x = normal(8, 3)
    expected = filled(8, [[5, 1, 2, 0, 7], [6, 4]], lambda g: [x[g[0]]] * len(g))
    check(
        lambda x: ops.collective_broadcast((x, x), [[5, 1, 2, 0, 7], [6, 4]]), (8, 1), [x], [expected, expected],
        backend, 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("grid", "channel", "pairs", "moves"),
    [
        ((4, 1), 0, [(0, 1), (1, 2), (2, 0)], {1: 0, 2: 1, 0: 2}),
        ((4, 1), 0, [(3, 3), (0, 2)], {3: 3, 2: 0}),
        ((4, 1), 0, [], {}),
        ((2, 2), 0, [(0, 1)], {2: 0, 3: 1}),
        ((2, 2), 4, [(0, 1)], {1: 0, 3: 2}),
        ((1, 4), 1, [(0, 3), (3, 0)], {3: 0, 0: 3}),
    ],
)
def test_collective_permute(
    grid: Grid, channel: int, pairs: Any, moves: dict[int, int], backend: Backend
) -> None:
    count = devices_of(grid)
    x = normal(count, 2)
    expected = np.stack([x[moves[i]] if i in moves else np.zeros(2) for i in range(count)])
    check(
        lambda x: ops.collective_permute((x, x), pairs, channel),
        grid,
        [x],
        [expected, expected],
        backend,
        0,
    )


@pytest.mark.parametrize("grid", [(4, 1), (1, 4), (2, 2), (4, 2)])
def test_ids(grid: Grid, backend: Backend) -> None:
    found = run(lambda: (ops.replica_id(), ops.partition_id()), grid, on=backend)
    places = np.array(list(itertools.product(range(grid[0]), range(grid[1]))), np.uint32)
    np.testing.assert_array_equal(found[0], places[:, 0])
    np.testing.assert_array_equal(found[1], places[:, 1])


@pytest.mark.parametrize("dtype", ["bool", "int2", "uint2", "int4", "int8", "uint64", "bfloat16", "float16",
                                   "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn", "complex64"])  # fmt: skip
def test_element_types(dtype: str, backend: Backend) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 0]], np.float32).astype(kind)

    def function(x: Any) -> Any:
        square = ops.all_to_all(ops.slice(x, [0], [3], [1]), 0, 0, 3)
        return (
            ops.all_gather(x, 0, 3), square, ops.collective_permute(x, [(0, 2)]), ops.collective_broadcast(x, [[1, 0]]),
            ops.all_reduce(x, ops.mul), ops.reduce_scatter(ops.slice(x, [0], [3], [1]), ops.mul, 0, 3),
        )  # fmt: skip

    zero = np.zeros(4, np.float32).astype(kind)
    product = np.array([0, 1, 0, 0], np.float32).astype(kind)
    expected = [
        np.stack([x.reshape(-1)] * 3), x[:, :3].T, np.stack([zero, zero, x[0]]), np.stack([x[1], x[1], zero]),
        np.stack([product] * 3), product[:3].reshape(3, 1),
    ]  # fmt: skip
    for found, wanted in zip(run(function, (3, 1), x, on=backend), expected, strict=True):
        assert found.dtype == kind
        np.testing.assert_array_equal(found.astype(np.complex64), wanted.astype(np.complex64))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float16", "int8"])
def test_sums_are_rounded_and_wrap_as_on_xla(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.random.default_rng(1).uniform(-9, 90, (8, 64)).astype(kind)
    found, wanted = (
        run(
            lambda x: (ops.all_reduce(x, ops.add), ops.reduce_scatter(x, ops.add, 0, 8)),
            (8, 1),
            x,
            on=name,
        )
        for name in ("interpreter", "pjrt:cpu")
    )
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f, w)


def test_extremes_keep_nan_and_signed_zeros(backend: Backend) -> None:
    x = np.array([[np.nan, 0.0, -0.0], [1.0, -0.0, 0.0]], np.float32)
    found = run(lambda x: (ops.all_reduce(x, ops.max), ops.reduce_scatter(x, ops.min, 0, 1, [[0], [1]])), (2, 1), x,
                on=backend)  # fmt: skip
    np.testing.assert_array_equal(found[0], [[np.nan, 0, 0]] * 2)
    assert not np.signbit(found[0][:, 1:]).any()
    np.testing.assert_array_equal(found[1], x)


def test_a_computation_may_take_wider_elements(backend: Backend) -> None:
    x = np.full((2, 2), 2.0**24, np.float32)
    add = body(ops.add, "f64[]", "f64[]")
    found = run(
        lambda x: (ops.all_reduce(x, add), ops.reduce_scatter(x, add, 0, 2)), (2, 1), x, on=backend
    )
    np.testing.assert_array_equal(found[0], np.full((2, 2), 2.0**25))
    assert [f.dtype for f in found] == [np.float64, np.float64]


def test_cross_replica_sum(backend: Backend) -> None:
    x, y = normal(4, 3), np.arange(4, dtype=np.int32)
    found = run(lambda x, y: (*ops.cross_replica_sum((x, y)), ops.cross_replica_sum(y, [[0, 2], [1, 3]])), (4, 1), x, y,
                on=backend)  # fmt: skip
    np.testing.assert_allclose(found[0], np.stack([x.sum(0)] * 4))
    np.testing.assert_array_equal(found[1], [6] * 4)
    np.testing.assert_array_equal(found[2], [2, 4, 2, 4])


# --- ragged -------------------------------------------------------------------------------------------------------


def ragged_arrays(
    grid: Grid, updates: int | None, seed: int = 0, width: int = 2
) -> tuple[list[Array], Array]:
    """Operands of pieces that do not overlap where they land, over all replicas or partitions, and the result."""
    rng = np.random.default_rng(seed)
    count = devices_of(grid)
    rows, room = 6, 40
    shape = (count, count) if updates is None else (count, count, updates)
    x, output = rng.standard_normal((count, rows, width)), rng.standard_normal((count, room, width))
    sizes = rng.integers(0, 3, shape)
    starts = rng.integers(0, rows - 2, shape)
    targets = np.zeros(shape, np.int64)
    result = output.copy()
    for receiver in range(count):
        free = 0
        for sender in range(count):
            for k in np.ndindex(shape[2:]):
                at = (sender, receiver, *k)
                free += rng.integers(0, 2)
                targets[at] = free
                free += sizes[at]
                result[receiver, targets[at] : free] = x[
                    sender, starts[at] : starts[at] + sizes[at]
                ]
        assert free <= room
    received = np.swapaxes(sizes, 0, 1)
    return [x, starts, sizes, output, targets, received], result


@pytest.mark.parametrize("updates", [None, 1, 3])
@pytest.mark.parametrize(("grid", "channel"), [((2, 1), 0), ((4, 1), 0), ((1, 3), 2)])
def test_ragged_all_to_all(grid: Grid, channel: int, updates: int | None, backend: Backend) -> None:
    operands, expected = ragged_arrays(grid, updates)
    check(
        lambda *a: ops.ragged_all_to_all(*a, channel_id=channel),
        grid,
        operands,
        [expected],
        backend,
        0,
    )


def test_ragged_all_to_all_of_the_operation_semantics(backend: Backend) -> None:
    operands = [np.array(a, np.int32) for a in (
        [[1, 2, 2], [3, 4, 0]], [[0, 1], [0, 1]], [[1, 2], [1, 1]], [[0] * 4] * 2, [[0, 0], [1, 2]], [[1, 1], [2, 1]],
    )]  # fmt: skip
    found = run(ops.ragged_all_to_all, (2, 1), *operands, on=backend)
    np.testing.assert_array_equal(found[0], [[1, 3, 0, 0], [2, 2, 4, 0]])


@pytest.mark.parametrize(
    ("position", "value", "what"),
    [
        (1, 6, "input_offset 6"),
        (2, -1, "send_size -1"),
        (4, 100, "output_offset 100"),
        (5, 7, "recv_size 7"),
    ],
)
def test_a_piece_that_does_not_fit_is_refused(position: int, value: int, what: str) -> None:
    operands, _ = ragged_arrays((2, 1), None, seed=3)
    operands[2][:] = operands[5][:] = 1
    operands[position][1, 0] = value
    with pytest.raises(ConstraintError, match=rf"pieces must lie.*{what}.*\[X5\]"):
        run(ops.ragged_all_to_all, (2, 1), *operands)


# --- StableHLO's interpreter --------------------------------------------------------------------------------------


def is_of_neighbours(way: Any) -> bool:
    """Whether StableHLO's interpreter runs it with two threads: it has no more than there are cores, and they wait."""
    return all(len(g) == 2 and min(g) % 2 == 0 and max(g) == min(g) + 1 for g in way[-1])


@pytest.mark.parametrize("way", list(filter(is_of_neighbours, WAYS)), ids=name_of)
def test_stablehlo_agrees(way: Way) -> None:
    grid, groups, channel, is_global, members = way
    size = len(members[0])
    x = normal(devices_of(grid), 2, size)

    def function(x: Any) -> Any:
        more = {"use_global_device_ids": is_global}
        return (
            ops.all_gather(x, 0, size, groups, channel, **more), ops.all_reduce(x, ops.add, groups, channel, **more),
            ops.reduce_scatter(x, ops.add, 1, size, groups, channel, **more), ops.replica_id(), ops.partition_id(),
        )  # fmt: skip

    for found, wanted in zip(run(function, grid, x), by_reference(function, grid, x), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("way", list(filter(is_of_neighbours, LINES)), ids=name_of)
def test_stablehlo_agrees_within_lines(way: Any) -> None:
    grid, groups, channel, members = way
    size = len(members[0])
    x = normal(devices_of(grid), 2, size)
    pairs = [(g[0], g[1]) for g in (groups or [[0, 1]])]

    def function(x: Any) -> Any:
        found = (
            ops.all_to_all(x, 1, 0, size, groups, channel_id=channel),
            ops.collective_permute(x, pairs, channel),
        )
        return found if groups is None else (*found, ops.collective_broadcast(x, groups, channel))

    for found, wanted in zip(run(function, grid, x), by_reference(function, grid, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


# --- what is refused before anything runs -------------------------------------------------------------------------

BAD: list[tuple[str, Grid, Function, str, str]] = [
    ("too_many", (2, 1), lambda x: ops.all_gather(x, 0, 4, [[0, 1, 2, 3]]), "C3", "replicas .there are 2"),
    ("too_few", (4, 1), lambda x: ops.all_gather(x, 0, 2, [[0, 1]]), "C3", "replicas .there are 4"),
    ("count", (4, 1), lambda x: ops.all_gather(x, 0, 2), "X1", "shard_count must be 4"),
    ("count_both", (2, 2), lambda x: ops.all_gather(x, 0, 2, [[0, 1]], 1), "X1", "shard_count must be 4"),
    ("global", (2, 2), lambda x: ops.all_gather(x, 0, 2, [[0, 1]], 1, None, True), "C3", "devices .there are 4"),
    ("reduce", (4, 1), lambda x: ops.all_reduce(x, ops.add, [[0, 1], [2]]), "C2", "replicas .there are 4"),
    ("mix", (2, 1), lambda x: ops.all_reduce(x, mix, [[0, 1], [2]]), "C2", "replicas .there are 2"),
    ("scatter", (2, 1), lambda x: ops.reduce_scatter(x, ops.add, 0, 4, [[0, 1, 2, 3]]), "C4", "there are 2"),
    ("scatter_count", (2, 1), lambda x: ops.reduce_scatter(x, ops.add, 0, 4), "X1", "shard_count must be 2"),
    ("to_all", (2, 1), lambda x: ops.all_to_all(x, 0, 0, 4), "C6", "replicas .there are 2"),
    ("to_all_partitions", (4, 2), lambda x: ops.all_to_all(x, 0, 0, 4, channel_id=1), "C6", "partitions .there are 2"),
    ("permute", (2, 1), lambda x: ops.collective_permute(x, [(0, 2)]), "C4", "replicas .there are 2"),
    ("permute_partitions", (4, 2), lambda x: ops.collective_permute(x, [(3, 0)], 1), "C4", "partitions .there are 2"),
    ("broadcast", (2, 1), lambda x: ops.collective_broadcast(x, [[0, 5]]), "C2", "replicas .there are 2"),
    ("in_a_branch", (2, 1), lambda x: xlapy.cond(
        xlapy.sum(x) > 0, lambda x: ops.collective_permute(x, [(0, 9)]), lambda x: x, x), "C4", "there are 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("grid", "function", "label", "what"), [b[1:] for b in BAD], ids=[b[0] for b in BAD]
)
def test_groups_that_do_not_fit_the_devices(
    grid: Grid, function: Function, label: str, what: str, backend: Backend
) -> None:
    with pytest.raises(
        XlapyError,
        match=rf"{what}[^$]*\[{label}\]\n  operands: f64\[4\]\n  at .*test_collectives.py",
    ):
        run(function, grid, normal(devices_of(grid), 4), on=backend)


def test_ragged_offsets_that_do_not_fit_the_devices(backend: Backend) -> None:
    operands, _ = ragged_arrays((2, 1), None)
    with pytest.raises(ConstraintError, match=r"for 4 devices; got s64\[2\] \[X3\]"):
        run(ops.ragged_all_to_all, (4, 1), *[np.concatenate([a, a]) for a in operands], on=backend)


def test_a_single_device_refuses_groups_of_more() -> None:
    with pytest.raises(ConstraintError, match=r"replicas \(there are 1\)"):
        ops.all_reduce(ops.constant([1.0]), ops.add, [[0, 1]])


@pytest.mark.parametrize(
    ("call", "label"),
    [
        (lambda x: ops.all_gather(x, 0, 1, layout=[1]), "X3"),
        (lambda x: ops.all_gather(x, 0, 1, 3), "X1"),
        (lambda x: ops.all_gather((), 0, 1), "X2"),
        (lambda x: ops.all_reduce(x, body(lambda a: a, "f32[]")), "C5"),
        (lambda x: ops.partition_id("u32[1]"), "X1"),
        (lambda x: ops.collective_broadcast(x, [[]]), "I2"),
        (lambda x: ops.all_gather(x, 0, 1, layout=[0, 1]), "X3"),
        (lambda x: ops.all_reduce(x, ops.add, shape_with_layout=[1, 0]), "X3"),
        (lambda x: ops.all_gather(x, 0, 1, None, 1, None, "False"), "I5"),
        (lambda x: ops.all_reduce(x, ops.add, None, 1, None, 0), "I4"),
        (lambda x: ops.reduce_scatter(x, ops.add, 0, 1, None, 1, None, "no"), "I5"),
        (lambda x: ops.all_reduce(ops.create_token(), ops.add), "I1"),
        (lambda x: ops.reduce_scatter(ops.create_token(), ops.add, 0, 1), "I1"),
        (lambda x: ops.collective_permute(x, None), "I2"),
        (lambda x: ops.collective_permute(x, 5), "I2"),
        (lambda x: ops.collective_permute(x, [0, 1]), "C1"),
    ],
)
def test_arguments(call: Function, label: str) -> None:
    with pytest.raises(XlapyError, match=rf"\[{label}\]"):
        call(ops.constant([1.0]))


VARYING: dict[str, tuple[Function, list[float]]] = {
    "sum": (lambda x: ops.all_reduce(x, ops.add), [18, 18]),
    "fold": (lambda x: ops.all_reduce(x, lambda a, b: a + b, [[0, 1]]), [18, 18]),
    "permute": (lambda x: ops.collective_permute(x, [(0, 1)]), [0, 3]),
    "broadcast": (lambda x: ops.collective_broadcast(x, [[1, 0]]), [15, 15]),
}


@pytest.mark.parametrize("name", VARYING)
def test_arrays_of_varying_size_are_for_the_interpreter(name: str) -> None:
    function, expected = VARYING[name]

    def three(x: Any) -> Any:
        return xlapy.sum(function(ops.set_dimension_size(x, 3, 0)))

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert run(three, (2, 1), x)[0].tolist() == expected
    with pytest.raises(
        UnsupportedOpError, match=r"sizes must be known .*\[X5\](?s:.*)test_collectives.py"
    ):
        run(three, (2, 1), x, on="pjrt:cpu")


# --- derivatives --------------------------------------------------------------------------------------------------


def even(x: Any) -> Any:
    return ops.all_gather(x, 0, 2, [[1, 0], [3, 2]])


RAGGED, _ = ragged_arrays((4, 1), 2, seed=5)


def ragged(x: Any) -> Any:
    """The input and what it is written into are both the argument's."""
    constants = [RAGGED[i] for i in (1, 2, 4, 5)]
    starts, sizes, targets, received = (_own(c) for c in constants)
    return ops.ragged_all_to_all(
        ops.slice(x, [0, 0], [6, 2], [1, 1]), starts, sizes, x, targets, received
    )


def _own(table: Array) -> Any:
    """The entry of the device that runs."""
    own = ops.convert_element_type(ops.replica_id(), "s32")
    zeros = [ops.constant(0)] * (table.ndim - 1)
    return ops.reshape(
        ops.dynamic_slice(ops.constant(table.astype(np.int32)), [own, *zeros], (1, *table.shape[1:])), table.shape[1:]
    )  # fmt: skip


def in_a_loop(x: Any) -> Any:
    return xlapy.fori_loop(0, 3, lambda i, c: c + 0.5 * ops.sin(ops.all_reduce(c, ops.add)), x)


#: (name, grid, shape of each device's argument, function)
SMOOTH: list[tuple[str, Grid, tuple[int, ...], Function]] = [
    ("gather", (4, 1), (2, 3), even),
    ("gather_both", (2, 2), (2, 3), lambda x: ops.all_gather(x, 1, 4, [[1, 0]], 1)),
    ("gather_several", (2, 1), (2, 3), lambda x: ops.all_gather((x, ops.sin(x)), 1, 2)[0] ** 2),
    ("sum", (4, 1), (3,), lambda x: ops.all_reduce(x, ops.add)),
    ("sum_uneven", (4, 1), (3,), lambda x: ops.all_reduce(x, ops.add, [[0, 2, 3], [1]])),
    ("sum_flattened", (2, 2), (3,), lambda x: ops.all_reduce(x * x, ops.add, [[0, 3], [2, 1]], 1, None, True)),
    ("sum_several", (2, 1), (3,), lambda x: ops.all_reduce((x, x * x), ops.add)[1]),
    ("max", (4, 1), (3,), lambda x: ops.all_reduce(x, ops.max)),
    ("min_uneven", (4, 1), (3,), lambda x: ops.all_reduce(x * x, ops.min, [[0, 2, 3], [1]])),
    ("product", (4, 1), (3,), lambda x: ops.all_reduce(x, ops.mul, [[0, 1, 2, 3]])),
    ("product_uneven", (4, 1), (3,), lambda x: ops.all_reduce(x, ops.mul, [[2, 0, 3], [1]])),
    ("product_flattened", (2, 2), (3,), lambda x: ops.all_reduce(x, ops.mul, [[2, 0, 3], [1]], 1, None, True)),
    ("mix", (4, 1), (3,), lambda x: ops.all_reduce(x, mix, [[0, 1], [3, 2]])),
    ("mix_several", (2, 1), (3,), lambda x: ops.all_reduce((x, x * x), mix, [[0, 1]])[1]),
    ("scatter", (4, 1), (2, 4), lambda x: ops.reduce_scatter(x, ops.add, 1, 2, [[1, 0], [2, 3]])),
    ("scatter_both", (2, 2), (4,), lambda x: ops.reduce_scatter(x * x, ops.add, 0, 4, None, 1)),
    ("scatter_max", (4, 1), (2, 4), lambda x: ops.reduce_scatter(x, ops.max, 1, 2, [[1, 0], [2, 3]])),
    ("scatter_mix", (4, 1), (2, 4), lambda x: ops.reduce_scatter(x, mix, 1, 2, [[1, 0], [2, 3]])),
    ("to_all", (4, 1), (4, 3), lambda x: ops.all_to_all(x, 0, 1, 2, [[1, 0], [2, 3]])),
    ("to_all_partitions", (2, 2), (4, 3), lambda x: ops.all_to_all(x, 0, 1, 2, None, None, 1)),
    ("permute", (4, 1), (3,), lambda x: ops.collective_permute(x, [(0, 1), (1, 2), (3, 3)])),
    ("permute_partitions", (2, 2), (3,), lambda x: ops.collective_permute(x, [(0, 1)], 1)),
    ("broadcast", (8, 1), (3,), lambda x: ops.collective_broadcast(x, [[5, 1, 2, 0, 7], [6, 4]])),
    ("broadcast_partitions", (2, 2), (3,), lambda x: ops.collective_broadcast(x, [[1, 0]], 1)),
    ("ragged", (4, 1), (40, 2), ragged),
    ("ids", (2, 2), (3,), lambda x: x * ops.convert(1 + ops.replica_id() + 2 * ops.partition_id(), "f64")),
    ("loop", (2, 1), (2,), in_a_loop),
]  # fmt: skip


def objective_of(function: Function) -> Function:
    """One device's part of the sum over devices."""
    return lambda x, weight: xlapy.sum(ops.sin(function(x)) * weight)


@pytest.mark.parametrize(
    ("grid", "shape", "function"), [s[1:] for s in SMOOTH], ids=[s[0] for s in SMOOTH]
)
def test_derivatives(grid: Grid, shape: tuple[int, ...], function: Function) -> None:
    count = devices_of(grid)
    x, t = normal(count, *shape, seed=1), normal(count, *shape, seed=2)
    weight = normal(*run(function, grid, x)[0].shape, seed=3)
    part = objective_of(function)
    step = 1e-6

    def difference(f: Function, *rest: Array) -> Array:
        higher, lower = (run(f, grid, x + s * t, *rest)[0] for s in (step, -step))
        return np.asarray((higher - lower) / (2 * step))

    def forward(x: Any, t: Any) -> Any:
        return xlapy.jvp(function, (x,), (t,))[1]

    # Forward: what each device's result changes by.
    wanted = difference(function)
    np.testing.assert_allclose(run(forward, grid, x, t)[0], wanted, rtol=1e-5, atol=1e-7)
    # Reverse: the gradient of the sum over all devices.
    gradient = xlapy.grad(part)
    (found,) = run(gradient, grid, x, weight)
    np.testing.assert_allclose(
        np.sum(found * t), np.sum(difference(part, weight)), rtol=1e-5, atol=1e-7
    )

    # Again, of the gradient.
    def along(x: Any, weight: Any, t: Any) -> Any:
        return xlapy.sum(gradient(x, weight) * t)

    (second,) = run(xlapy.grad(along), grid, x, weight, t)

    def slope(x: Any, weight: Any) -> Any:
        return gradient(x, weight)

    np.testing.assert_allclose(second, difference(slope, weight), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["gather", "sum_uneven", "product_uneven", "scatter_max", "to_all", "broadcast", "ragged"],
)
def test_gradients_on_xla(name: str) -> None:
    grid, shape, function = next(s[1:] for s in SMOOTH if s[0] == name)
    x = normal(devices_of(grid), *shape, seed=1)
    weight = normal(*run(function, grid, x)[0].shape, seed=3)
    gradient = xlapy.grad(objective_of(function))
    found, wanted = (
        run(gradient, grid, x, weight, on=name)[0] for name in ("pjrt:cpu", "interpreter")
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_devices_that_tie_share_the_derivative() -> None:
    x = np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0], [1.0, 5.0, 0.0]])

    def sent(x: Any) -> Any:
        return xlapy.grad(lambda x: xlapy.sum(ops.all_reduce(x, ops.max)))(x)

    # Each of three devices sends 1 back.
    np.testing.assert_allclose(run(sent, (3, 1), x)[0], [[1, 0, 1.5], [1, 1.5, 1.5], [1, 1.5, 0]])


def test_the_derivative_of_a_product_is_right_at_zeros() -> None:
    x = np.array([[0.0, 0.0, 2.0], [3.0, 0.0, 4.0]])
    gradient = xlapy.grad(lambda x: xlapy.sum(ops.all_reduce(x, ops.mul, [[0, 1]])))
    np.testing.assert_allclose(run(gradient, (2, 1), x)[0], [[6, 0, 8], [0, 0, 4]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.all_reduce(x, ops.mul),
        lambda x: ops.all_reduce(x, mix, [[0, 1]], 1),
        lambda x: ops.reduce_scatter(x, ops.mul, 0, 2),
        lambda x: ops.collective_broadcast(x),
    ],
)
def test_a_derivative_may_need_the_groups(function: Function) -> None:
    gradient = xlapy.grad(lambda x: xlapy.sum(function(x)))
    with pytest.raises(
        NotDifferentiableError, match=r"devices of each group.*\[X4\]\n  write the groups out"
    ):
        run(gradient, (2, 1), normal(2, 2))


def test_a_computation_that_is_not_associative_has_no_way_back() -> None:
    gradient = xlapy.grad(lambda x: xlapy.sum(ops.all_reduce(x, ops.sub, [[0, 1]])))
    with pytest.raises(NotDifferentiableError, match=r"associative.*\[X4\]"):
        run(gradient, (2, 1), normal(2, 2))


# --- vectorised ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "shape", "function"), [s[1:] for s in SMOOTH], ids=[s[0] for s in SMOOTH]
)
def test_vectorised_as_one_by_one(grid: Grid, shape: tuple[int, ...], function: Function) -> None:
    x = normal(devices_of(grid), 3, *shape)
    (found,) = run(xlapy.vmap(function), grid, x)
    rows = [run(function, grid, x[:, i])[0] for i in range(3)]
    np.testing.assert_allclose(found, np.stack(rows, axis=1), rtol=1e-12)


@pytest.mark.parametrize("updates", [None, 2])
def test_ragged_rows_with_pieces_of_their_own(updates: int | None, backend: Backend) -> None:
    rows = [ragged_arrays((3, 1), updates, seed) for seed in range(4)]
    operands = [np.stack(column, axis=1) for column in zip(*[r[0] for r in rows], strict=True)]
    expected = np.stack([r[1] for r in rows], axis=1)
    check(xlapy.vmap(ops.ragged_all_to_all), (3, 1), operands, [expected], backend, 0)


def test_what_is_not_batched_is_sent_once() -> None:
    x, y = normal(2, 3, 2), normal(2, 4)
    call = xlapy.vmap(lambda x, y: ops.all_gather((x, y), 0, 2), in_axes=(0, None))
    one, other = run(call, (2, 1), x, y)
    np.testing.assert_array_equal(one[0], np.concatenate([x[0], x[1]], axis=1))
    np.testing.assert_array_equal(other[0], np.stack([y.reshape(-1)] * 3))
    computation = trace(call, [TensorSpec((3, 2), "f64"), TensorSpec((4,), "f64")]).computation
    gathers = [i for i in computation.instructions if i.op.name == "all_gather"]
    assert [i.operands[0].spec.shape for i in gathers] == [(3, 2), (4,)]


# --- text ---------------------------------------------------------------------------------------------------------


def test_groups_of_several_sizes_are_filled_up_in_text() -> None:
    computation = trace(
        lambda x: ops.all_reduce(x, ops.add, [[2, 0, 3], [1]]), [TensorSpec((2,), "f32")]
    ).computation
    text = to_stablehlo(computation, locations=False)
    assert "replica_groups = dense<[[2, 0, 3], [1, -1, -1]]> : tensor<2x3xi64>" in text
    again = xlapy.from_stablehlo(text).computation
    assert again.instructions[0].params["replica_groups"] == ((2, 0, 3), (1,))


@pytest.mark.parametrize(
    ("grid", "settled_groups"),
    [((2, 1), ((0, 1),)), ((2, 2), ((0, 2, 1, 3),)), ((1, 2), ((0, 1),))],
)
def test_groups_are_written_out_for_the_devices(grid: Grid, settled_groups: Any) -> None:
    computation = trace(
        lambda x: ops.all_reduce(x, ops.add, channel_id=1), [TensorSpec((2,), "f32")]
    ).computation
    instruction = settled(computation, *grid).instructions[0]
    assert instruction.params["replica_groups"] == settled_groups
    assert instruction.params["use_global_device_ids"] is (grid[1] > 1)
    assert computation.instructions[0].params["replica_groups"] == ()


HLO = """HloModule m, replica_count=4

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY e {{
  p = f32[4] parameter(0)
{}
}}
"""
OF_HLO: dict[str, tuple[str, Function]] = {
    "all_reduce": (
        "s = f32[4] all-reduce-start(p), replica_groups={{0,1},{2,3}}, channel_id=1, to_apply=add\n"
        "ROOT d = f32[4] all-reduce-done(s)",
        lambda x: np.stack([x[0] + x[1]] * 2 + [x[2] + x[3]] * 2),
    ),
    "all_gather": (
        "s = (f32[4], f32[8]) all-gather-start(p), replica_groups=[2,2]<=[4], channel_id=1, dimensions={0},"
        " use_global_device_ids=true\n"
        "ROOT d = f32[8] all-gather-done(s)",
        lambda x: np.repeat(x.reshape(2, 8), 2, axis=0),
    ),
    "collective_permute": (
        "s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,1},{1,2}}\n"
        "ROOT d = f32[4] collective-permute-done(s)",
        lambda x: np.stack([0 * x[0], x[0], x[1], 0 * x[0]]),
    ),
    "all_to_all_of_a_tuple": (
        "q = f32[4] negate(p)\n"
        "s = (f32[4], f32[4]) all-to-all(p, q), replica_groups={{1,0},{2,3}}\n"
        "f = f32[4] get-tuple-element(s), index=0\n"
        "g = f32[4] get-tuple-element(s), index=1\n"
        "ROOT d = f32[8] concatenate(f, g), dimensions={0}",
        lambda x: np.stack([
            np.concatenate([-x[1], -x[0]]), np.concatenate([x[1], x[0]]), np.concatenate([x[2], x[3]]),
            np.concatenate([-x[2], -x[3]]),
        ]),
    ),
    "all_reduce_of_a_tuple": (
        "q = f32[4] negate(p)\n"
        "s = (f32[4], f32[4]) all-reduce(p, q), replica_groups={}, to_apply=add\n"
        "ROOT d = f32[4] get-tuple-element(s), index=1",
        lambda x: np.stack([-x.sum(0)] * 4),
    ),
    "all_reduce_start_of_a_tuple": (
        "q = f32[4] negate(p)\n"
        "s = (f32[4], f32[4]) all-reduce-start(p, q), replica_groups={}, to_apply=add\n"
        "t = (f32[4], f32[4]) all-reduce-done(s)\n"
        "ROOT d = f32[4] get-tuple-element(t), index=1",
        lambda x: np.stack([-x.sum(0)] * 4),
    ),
    "all_gather_start_of_a_tuple": (
        "q = f32[4] negate(p)\n"
        "s = ((f32[4], f32[4]), (f32[8], f32[8])) all-gather-start(p, q), dimensions={0},"
        " replica_groups={{0,1},{2,3}}\n"
        "t = (f32[8], f32[8]) all-gather-done(s)\n"
        "ROOT d = f32[8] get-tuple-element(t), index=1",
        lambda x: np.repeat(-x.reshape(2, 8), 2, axis=0),
    ),
    "collective_permute_of_a_tuple": (
        "q = f32[4] negate(p)\n"
        "s = (f32[4], f32[4]) collective-permute(p, q), source_target_pairs={{0,1},{1,2}}\n"
        "f = f32[4] get-tuple-element(s), index=0\n"
        "g = f32[4] get-tuple-element(s), index=1\n"
        "ROOT d = f32[8] concatenate(f, g), dimensions={0}",
        lambda x: np.stack([np.concatenate([y, -y]) for y in (0 * x[0], x[0], x[1], 0 * x[0])]),
    ),
    "collective_permute_start_of_a_tuple": (
        "q = f32[4] negate(p)\n"
        "s = ((f32[4], f32[4]), (f32[4], f32[4])) collective-permute-start(p, q), source_target_pairs={{0,1},{1,2}}\n"
        "t = (f32[4], f32[4]) collective-permute-done(s)\n"
        "ROOT d = f32[4] get-tuple-element(t), index=1",
        lambda x: np.stack([0 * x[0], -x[0], -x[1], 0 * x[0]]),
    ),
    "reduce_scatter_start": (
        "s = ((f32[4]), f32[1]) reduce-scatter-start(p), replica_groups={}, dimensions={0}, to_apply=add\n"
        "ROOT d = f32[1] reduce-scatter-done(s)",
        lambda x: x.sum(0).reshape(4, 1),
    ),
    "all_to_all_start": (
        "s = ((f32[4]), f32[4]) all-to-all-start(p), replica_groups={{3,2,1,0}}, dimensions={0}\n"
        "ROOT d = f32[4] all-to-all-done(s)",
        lambda x: np.stack([x[::-1, 3 - i] for i in range(4)]),
    ),
    "collective_broadcast": (
        "ROOT d = f32[4] collective-broadcast(p), replica_groups={{2,0}}",
        lambda x: np.stack([x[2], 0 * x[0], x[2], 0 * x[0]]),
    ),
    "ragged_all_to_all": (
        "one = s32[4] constant({1, 1, 1, 1})\n"
        "i = s32[4] iota(), iota_dimension=0\n"
        "r = u32[] replica-id()\n"
        "t = s32[] convert(r)\n"
        "o = s32[4] broadcast(t), dimensions={}\n"
        "z = f32[] constant(0)\n"
        "e = f32[4] broadcast(z), dimensions={}\n"
        "ROOT d = f32[4] ragged-all-to-all(p, e, i, one, o, one), replica_groups={{0,1,2,3}}, channel_id=0",
        lambda x: x.T,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_HLO)
def test_dumps(name: str, backend: Backend) -> None:
    text, formula = OF_HLO[name]
    if "channel_id=0" in text:
        text = text.replace(", channel_id=0", "")
    program = xlapy.from_hlo(HLO.format("\n".join(f"  {line}" for line in text.splitlines())))
    x = normal(4, 4).astype(np.float32)
    check(program, (4, 1), [x], [formula(x).astype(np.float32)], backend)


def test_what_xla_makes_of_collectives_can_be_read(backend: Backend) -> None:
    def function(x: Any) -> Any:
        y = ops.all_reduce(ops.sin(x), ops.add)
        z = ops.all_gather(y * x, 0, 4)
        return ops.all_to_all(z, 0, 0, 4) + ops.reduce_scatter(
            ops.concatenate([z] * 4, 0), ops.add, 0, 4
        )

    x = normal(4, 4).astype(np.float32)
    lowered = xlapy.replicate(function, num_replicas=4, backend=eight_devices()).lower(x)
    again = xlapy.from_hlo(lowered.compile().optimized_hlo_text)
    check(again, (4, 1), [x], run(function, (4, 1), x), backend, 1e-5)
