"""`replicate`: programs over several devices, their arguments and results, and what is refused."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy.backends.pjrt import Pjrt
from xlapy.backends.registry import get_backend
from xlapy.errors import (
    BackendError,
    ConstraintError,
    DTypeError,
    ShapeError,
    TracingError,
    UnsupportedOpError,
)

PJRT = "test-pjrt-8"
GRIDS = ((4, 1), (1, 4), (2, 2))
Array = np.ndarray[Any, Any]
Grid = tuple[int, int]
Place = tuple[int, int]

xlapy.register_backend(PJRT, lambda: Pjrt("cpu", num_devices=8))


@pytest.fixture(params=(PJRT, "interpreter"))
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def data(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def run(f: Callable[..., Any], backend: str, grid: Grid, *args: Any) -> Any:
    """The results as numpy arrays."""
    replicated = xlapy.replicate(f, num_replicas=grid[0], num_partitions=grid[1], backend=backend)
    return xlapy.tree.map(np.asarray, replicated(*args))


def total(x: Any) -> Any:
    """The sum over all devices of a program of replicas."""
    return ops.all_reduce(x, ops.add)


# --- arguments and results --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(1, 1), (2, 1), (1, 3), *GRIDS, (4, 2)])
def test_each_device_gets_its_part(grid: Grid, backend: str) -> None:
    count = grid[0] * grid[1]
    x, y = data(count, 2, 3), np.arange(count, dtype=np.int32)
    found = run(lambda x, y: (x + 1, y * 2, xlapy.sum(x)), backend, grid, x, y)
    np.testing.assert_array_equal(found[0], x + 1)
    np.testing.assert_array_equal(found[1], y * 2)
    np.testing.assert_allclose(found[2], x.sum((1, 2)), rtol=1e-5)
    assert found[1].dtype == np.int32


def test_containers_and_keywords_pass(backend: str) -> None:
    def f(p: Any, *, scale: Any, rest: Any = None) -> Any:
        return {"sum": p["w"] + p["b"][0], "none": rest, "pair": (scale, [p["w"] * scale])}

    w, b, scale = data(2, 3), data(2, 3) + 1, data(2)
    found = xlapy.replicate(f, num_replicas=2, backend=backend)({"w": w, "b": (b,)}, scale=scale)
    np.testing.assert_array_equal(np.asarray(found["sum"]), w + b)
    assert found["none"] is None
    np.testing.assert_array_equal(np.asarray(found["pair"][0]), scale)
    np.testing.assert_array_equal(np.asarray(found["pair"][1][0]), w * scale[:, None])


@pytest.mark.parametrize("dtype", ["pred", "s4", "u8", "bf16", "f8e4m3fn", "f64", "c64"])
def test_every_kind_of_element_passes(dtype: str, backend: str) -> None:
    x = xlapy.asarray(np.array([[0, 1], [1, 0], [1, 1]]), dtype, device=backend)
    found = xlapy.replicate(lambda x: x, num_replicas=3)(x)
    assert found.spec is x.spec
    assert found.tolist() == x.tolist()


def test_nothing_in_and_nothing_out(backend: str) -> None:
    made = xlapy.replicate(lambda: ops.iota("f32", 2), num_replicas=3, backend=backend)()
    assert made.tolist() == [[0, 1]] * 3
    nothing = xlapy.replicate(lambda x: None, num_replicas=3, backend=backend)
    assert nothing(data(3, 2)) is None


def test_results_lie_where_the_arguments_do() -> None:
    device = xlapy.devices(PJRT)[5]
    x = xlapy.asarray(data(2, 3), device=get_backend(PJRT).placement_of(device))
    found = xlapy.replicate(lambda x: x * 2, num_replicas=2)(x)
    assert found.device is device
    np.testing.assert_array_equal(np.asarray(found), data(2, 3) * 2)
    again = xlapy.replicate(lambda x: x * 2, num_partitions=1)(x[:1])
    assert again.device is device


def test_captured_tensors_are_on_every_device(backend: str) -> None:
    weight = xlapy.asarray(data(3), device=backend)
    f = xlapy.replicate(lambda x: x @ weight, num_replicas=4)
    x = xlapy.asarray(data(4, 2, 3), device=backend)
    for shift in (0, 1):
        found = np.asarray(f(x + shift))
        np.testing.assert_allclose(found, (data(4, 2, 3) + shift) @ data(3), rtol=1e-5)
    with pytest.raises(BackendError, match="closes over must lie where its arguments do"):
        f(x.to("interpreter" if backend == PJRT else PJRT))


def test_a_signature_is_recorded_and_compiled_once(backend: str) -> None:
    f = xlapy.replicate(lambda x: x + 1, num_replicas=2, backend=backend)
    for _ in range(3):
        f(data(2, 3))
    f(xlapy.asarray(data(2, 3), device=backend))
    f({"x": data(2, 3)}["x"])
    assert (f.traces, f.compiles) == (1, 1)  # an array of numpy's is what a tensor is
    f(data(2, 4))
    assert f.traces == 2
    f.clear_cache()
    f(data(2, 4))
    assert f.traces == 3


def test_the_same_function_on_several_grids_and_backends() -> None:
    def f(x: Any) -> Any:
        return x + ops.replica_id().astype("f32")

    for grid, expected in (((2, 2), [0, 0, 1, 1]), ((4, 1), [0, 1, 2, 3]), ((1, 4), [0] * 4)):
        for name in (PJRT, "interpreter"):
            assert run(f, name, grid, np.zeros(4, np.float32)).tolist() == expected


# --- what devices do together -----------------------------------------------------------------------------------------


def process_groups(strategy: str, groups: Sequence[Sequence[int]], grid: Grid) -> list[list[Place]]:
    """The groups of processes, as the StableHLO specification has them."""
    replicas, partitions = range(grid[0]), range(grid[1])
    if strategy == "cross_replica":
        return [[(r, p) for r in g] for g in groups for p in partitions]
    if strategy == "cross_partition":
        return [[(r, p) for p in g] for g in groups for r in replicas]
    if strategy == "cross_replica_and_partition":
        return [[(r, p) for p in partitions for r in g] for g in groups]
    return [[divmod(n, grid[1]) for n in g] for g in groups]


def expected(
    x: Array, groups: list[list[Place]], grid: Grid, together: Callable[[list[Array]], list[Array]]
) -> Array:
    """What each process has after its group gave its arrays to a function, in the order of the group."""
    found: dict[Place, Array] = {}
    for group in groups:
        parts = together([x[r * grid[1] + p] for r, p in group])
        found.update(zip(group, parts, strict=True))
    return np.stack([found[r, p] for r in range(grid[0]) for p in range(grid[1])])


# (strategy, groups, grid, the arguments that choose them)
STRATEGIES = (
    ("cross_replica", [[0, 1], [2, 3]], (4, 1), {}),
    ("cross_replica", [[1, 0]], (2, 2), {}),
    ("cross_replica_and_partition", [[1, 0]], (2, 2), {"channel_id": 1}),
    ("cross_replica_and_partition", [[0], [1]], (2, 2), {"channel_id": 1}),
    ("flattened_ids", [[3, 0], [1, 2]], (2, 2), {"channel_id": 1, "use_global_device_ids": True}),
    ("flattened_ids", [[0, 2], [3, 1]], (1, 4), {"channel_id": 1, "use_global_device_ids": True}),
)
STRATEGY_NAMES = [f"{s}-{g[0]}x{g[1]}-{i}" for i, (s, _, g, _) in enumerate(STRATEGIES)]


@pytest.mark.parametrize(("strategy", "groups", "grid", "options"), STRATEGIES, ids=STRATEGY_NAMES)
def test_collectives_go_by_process_groups(
    strategy: str, groups: list[list[int]], grid: Grid, options: dict[str, Any], backend: str
) -> None:
    x = data(4, 2, 4)
    found = process_groups(strategy, groups, grid)
    size = len(found[0])
    options = {"replica_groups": groups, **options}

    reduced = run(lambda x: ops.all_reduce(x, ops.add, **options), backend, grid, x)
    reference = expected(x, found, grid, lambda parts: [np.sum(parts, 0)] * size)
    np.testing.assert_allclose(reduced, reference, rtol=1e-5)

    gathered = run(lambda x: ops.all_gather(x, 1, size, **options), backend, grid, x)
    reference = expected(x, found, grid, lambda parts: [np.concatenate(parts, 1)] * size)
    np.testing.assert_array_equal(gathered, reference)

    scattered = run(lambda x: ops.reduce_scatter(x, ops.max, 1, size, **options), backend, grid, x)
    reference = expected(x, found, grid, lambda p: np.split(np.max(p, 0), size, 1))
    np.testing.assert_array_equal(scattered, reference)


@pytest.mark.parametrize(
    ("strategy", "groups", "grid", "options"),
    [
        ("cross_replica", [[2, 0], [1, 3]], (4, 1), {}),
        ("cross_replica", [[1, 0]], (2, 2), {}),
        ("cross_partition", [[1, 0]], (2, 2), {"channel_id": 1}),
        ("cross_partition", [[3, 0], [1, 2]], (1, 4), {"channel_id": 1}),
    ],
)
def test_what_is_exchanged_goes_by_process_groups(
    strategy: str, groups: list[list[int]], grid: Grid, options: dict[str, Any], backend: str
) -> None:
    x = data(4, 2, 4)
    found = process_groups(strategy, groups, grid)

    exchanged = run(
        lambda x: ops.all_to_all(x, 1, 0, 2, replica_groups=groups, **options), backend, grid, x
    )

    def exchange(parts: list[Array]) -> list[Array]:
        split = [np.split(p, 2, 1) for p in parts]
        return [np.concatenate([s[i] for s in split], 0) for i in range(2)]

    np.testing.assert_array_equal(exchanged, expected(x, found, grid, exchange))

    sent = run(lambda x: ops.collective_broadcast(x, groups, **options), backend, grid, x)
    reference = expected(x, found, grid, lambda parts: [parts[0]] * 2)
    np.testing.assert_array_equal(sent, reference)

    pairs = [tuple(g) for g in groups]
    moved = run(lambda x: ops.collective_permute(x, pairs, **options), backend, grid, x)
    reference = expected(x, found, grid, lambda parts: [np.zeros_like(parts[0]), parts[0]])
    np.testing.assert_array_equal(moved, reference)


@pytest.mark.parametrize("grid", GRIDS)
def test_each_process_knows_its_place(grid: Grid, backend: str) -> None:
    found = run(lambda: (ops.replica_id(), ops.partition_id()), backend, grid)
    at = [(r, p) for r in range(grid[0]) for p in range(grid[1])]
    assert list(zip(*(f.tolist() for f in found), strict=True)) == at


def test_groups_of_a_grid_are_checked_before_anything_runs(backend: str) -> None:
    f = xlapy.replicate(
        lambda x: ops.all_reduce(x, ops.add, [[0, 1]]), num_replicas=4, backend=backend
    )
    with pytest.raises(ConstraintError, match="replica_groups must name each of the program's"):
        f(data(4, 2))


# --- programs made of programs ----------------------------------------------------------------------------------------


def loss(w: Any, x: Any) -> Any:
    """A mean over all devices, of which each has some rows of the data."""
    return total(xlapy.mean((xlapy.tanh(x @ w)) ** 2)) / 4


def test_derivatives_are_taken_within(backend: str) -> None:
    """Each device has the gradient of the sum of all devices' losses by its own copy of the weights."""
    w, x = data(3), data(4, 5, 3)
    copies = np.stack([w] * 4)
    value, gradient = run(xlapy.value_and_grad(loss), backend, (4, 1), copies, x)
    np.testing.assert_allclose(value, np.mean(np.tanh(x @ w) ** 2), rtol=1e-5)
    h = np.tanh(x @ w)
    own = np.einsum("di,dij->dj", 2 * h * (1 - h**2) / 5, x)
    np.testing.assert_allclose(gradient, own, rtol=1e-4, atol=1e-6)


def test_forward_derivatives_and_vmap_are_taken_within(backend: str) -> None:
    x = data(4, 3)
    _, tangent = run(lambda x: xlapy.jvp(lambda y: total(y * y), (x,), (x,)), backend, (4, 1), x)
    np.testing.assert_allclose(tangent, np.stack([2 * (x * x).sum(0)] * 4), rtol=1e-5)
    rows = run(xlapy.vmap(lambda y: total(y) * y), backend, (4, 1), x)
    np.testing.assert_allclose(rows, x.sum(0) * x, rtol=1e-5)


def test_a_training_step_keeps_the_devices_together(backend: str) -> None:
    def step(w: Any, x: Any) -> Any:
        return w - 0.5 * total(xlapy.grad(loss)(w, x)) / 4

    f = xlapy.replicate(step, num_replicas=4, backend=backend)
    w: Any = xlapy.asarray(np.stack([data(3)] * 4), device=backend)
    x = xlapy.asarray(data(4, 5, 3), device=backend)
    before = run(loss, backend, (4, 1), w, x)
    for _ in range(10):
        w = f(w, x)
    assert (np.asarray(w) == np.asarray(w)[0]).all()
    assert (run(loss, backend, (4, 1), w, x) < 0.7 * before).all()
    assert f.traces == 1


def test_compiled_functions_are_called_within(backend: str) -> None:
    inner = xlapy.compile(lambda x: total(x) * 2)
    found = run(lambda x: inner(x) + inner(x), backend, (4, 1), data(4, 3))
    np.testing.assert_allclose(found, np.stack([4 * data(4, 3).sum(0)] * 4), rtol=1e-5)


def test_loops_and_conditionals_hold_collectives(backend: str) -> None:
    def f(x: Any) -> Any:
        x = xlapy.fori_loop(0, 3, lambda i, s: total(s) * 0.3, x)
        x = xlapy.while_loop(lambda s: total(xlapy.sum(s * s)) > 1.0, lambda s: total(s) * 0.1, x)
        return xlapy.cond(total(x[0]) > 0, lambda: total(x), lambda: x * 2)

    x = data(4, 3)
    np.testing.assert_allclose(run(f, PJRT, (4, 1), x), run(f, "interpreter", (4, 1), x), rtol=1e-5)


# --- what it is made of, and back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", GRIDS)
def test_the_stages_can_be_looked_at(grid: Grid) -> None:
    f = xlapy.replicate(
        lambda x: ops.all_reduce(x, ops.add, channel_id=1) * 2,
        num_replicas=grid[0],
        num_partitions=grid[1],
        backend=PJRT,
    )
    x = data(4, 3)
    lowered = f.lower(xlapy.TensorSpec((4, 3), "f32"))
    assert f"mhlo.num_replicas = {grid[0]} : i32" in lowered.stablehlo_text
    assert f"mhlo.num_partitions = {grid[1]} : i32" in lowered.stablehlo_text
    assert "all-reduce" in lowered.hlo_text
    assert lowered.computation.parameter_specs == (xlapy.TensorSpec((3,), "f32"),)
    executable = lowered.compile()
    text = executable.optimized_hlo_text
    assert ("replica_count=" in text, "num_partitions=" in text) == (grid[0] > 1, grid[1] > 1)
    assert executable.memory_analysis()["argument"] == 12
    reference = np.stack([2 * x.sum(0)] * 4)
    np.testing.assert_allclose(np.asarray(executable(x)), reference, rtol=1e-5)


PROGRAMS: dict[str, tuple[Grid, Callable[..., Any]]] = {
    "all_reduce": ((4, 1), lambda x: ops.all_reduce(xlapy.sin(x) + 1, ops.add)),
    "several": ((4, 1), lambda x: ops.all_reduce((x, x * 2), ops.max)),
    "all_gather": (
        (2, 2),
        lambda x: xlapy.exp(ops.all_gather(x, 1, 4, channel_id=1, use_global_device_ids=True)),
    ),
    "reduce_scatter": ((4, 1), lambda x: ops.reduce_scatter(x, ops.add, 1, 4) + 1),
    "all_to_all": ((4, 1), lambda x: ops.all_to_all(x, 1, 0, 4)),
    "collective_permute": ((1, 4), lambda x: ops.collective_permute(x + 1, [(0, 1), (1, 3)], 1)),
    "ids": ((2, 2), lambda x: x + (ops.replica_id() * 2 + ops.partition_id()).astype("f32")),
    "loop": ((4, 1), lambda x: xlapy.fori_loop(0, 3, lambda i, s: total(s) * 0.1, x)),
    "gradient": ((4, 1), xlapy.grad(lambda x: total(xlapy.mean(xlapy.tanh(x))))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_optimised_programs_are_read_back(name: str) -> None:
    """The HLO that XLA made of it, before and after optimisation, means the same, also to the interpreter."""
    grid, f = PROGRAMS[name]
    options = {"num_replicas": grid[0], "num_partitions": grid[1]}
    x = data(4, 2, 4)
    lowered = xlapy.replicate(f, backend=PJRT, **options).lower(x)
    executable = lowered.compile()
    reference = xlapy.tree.flatten(executable(x))[0]
    for program in (
        xlapy.from_hlo(executable.optimized_hlo_text),
        xlapy.from_hlo(lowered.hlo_text),
        xlapy.from_stablehlo(lowered.stablehlo_text),
    ):
        for backend in ("interpreter", PJRT):
            found = xlapy.replicate(program, backend=backend, **options)(x)
            for a, b in zip(xlapy.tree.flatten(found)[0], reference, strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def test_what_each_device_runs_is_exported() -> None:
    f = xlapy.replicate(
        lambda x: ops.all_gather(x, 0, 4, channel_id=1, use_global_device_ids=True), num_replicas=4
    )
    artifact = xlapy.export(f, "f32[4,2]")
    assert artifact.computation.parameter_specs == (xlapy.TensorSpec((2,), "f32"),)
    x = data(4, 2)
    found = xlapy.replicate(artifact.load(), num_replicas=4, backend=PJRT)(x)
    np.testing.assert_array_equal(np.asarray(found), np.stack([x.reshape(8)] * 4))
    with pytest.raises(ConstraintError, match=r"there are 1\); got"):
        artifact.load()(x[0])


# --- refused ----------------------------------------------------------------------------------------------------------


def test_a_leading_axis_of_the_number_of_devices_is_required(backend: str) -> None:
    f = xlapy.replicate(lambda p: p["x"], num_replicas=2, num_partitions=2, backend=backend)
    message = r"leading axis of size 4, .* of 2 replicas x 2 partitions; got {} for p\['x'\] \[X1\]"
    for x, got in ((data(3, 4), r"f32\[3,4\]"), (data(), r"f32\[\]"), (1.0, r"f32\[\]")):
        with pytest.raises(ShapeError, match=message.format(got)):
            f({"x": x})
        with pytest.raises(ShapeError, match=message.format(got)):
            f.lower({"x": x})
    assert f.traces == 0


def test_other_arguments_and_results_are_refused(backend: str) -> None:
    with pytest.raises(DTypeError, match="argument must be a tensor, an array"):
        xlapy.replicate(lambda x: x, num_replicas=2, backend=backend)("text")
    with pytest.raises(DTypeError, match=r"must return arrays of known shape; got token"):
        xlapy.replicate(lambda x: ops.create_token(), num_replicas=2, backend=backend)(data(2))


def test_a_grid_and_a_function_are_required() -> None:
    for options in (
        {"num_replicas": 0}, {"num_partitions": -1}, {"num_replicas": True}, {"num_replicas": 2.0},
        {"num_replicas": np.ones(3)}, {"num_partitions": "two"}, {"num_partitions": None},
    ):  # fmt: skip
        with pytest.raises(ConstraintError, match=r"must be a positive integer; got .* \[X1\]"):
            xlapy.replicate(lambda x: x, **options)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="f must be a function"):
        xlapy.replicate(3)  # type: ignore[arg-type]


def test_the_grid_may_be_of_numpys_numbers(backend: str) -> None:
    f = xlapy.replicate(total, num_replicas=np.int64(2), backend=backend)  # type: ignore[arg-type]
    assert f(np.ones(2, np.float32)).tolist() == [2, 2]


def test_it_stands_outside_of_traces(backend: str) -> None:
    f = xlapy.replicate(lambda x: xlapy.sum(x), num_replicas=2, backend=backend)
    x = xlapy.asarray(data(2, 3), device=backend)
    for outer in (
        xlapy.compile(f),
        xlapy.grad(lambda x: xlapy.sum(f(x))),
        xlapy.vmap(f),
        xlapy.replicate(f, num_replicas=2),
    ):
        with pytest.raises(TracingError, match=r"(?s)must not be called within.*replicate\(grad"):
            outer(x)


def test_more_devices_than_there_are_are_refused_before_recording() -> None:
    f = xlapy.replicate(lambda x: x, num_replicas=9, backend=PJRT)
    with pytest.raises(BackendError, match=r"(?s)over 9 devices.*XLAPY_NUM_CPU_DEVICES"):
        f(data(9))
    assert f.traces == 0


def test_arguments_lie_in_one_place() -> None:
    place = get_backend(PJRT).placement_of
    devices = xlapy.devices(PJRT)
    x, y = (xlapy.asarray(data(2), device=place(d)) for d in devices[1:3])
    f = xlapy.replicate(lambda x, y: x + y, num_replicas=2)
    with pytest.raises(BackendError, match="operands must lie on one device"):
        f(x, y)
    assert f.traces == 0


# --- devices that might wait for ever ---------------------------------------------------------------------------------

DIVERGING: dict[str, Callable[..., Any]] = {
    "loop": lambda x: xlapy.while_loop(lambda s: s < 9.0, lambda s: total(s) + 1, x),
    "condition": lambda x: xlapy.while_loop(lambda s: total(s) < s, lambda s: s + 1, x),
    "conditional": lambda x: xlapy.cond(x > 0, lambda: total(x), lambda: x),
    "replica": lambda x: xlapy.cond(ops.replica_id() == 0, lambda: total(x), lambda: x),
    "inner": lambda x: xlapy.fori_loop(
        0, 2, lambda i, s: xlapy.cond(s > 0, lambda: total(s), lambda: s), x
    ),
    "later": lambda x: xlapy.while_loop(
        lambda s: s[0] < 3.0, lambda s: (s[0] + s[1], total(s[1]) * x), (total(x), total(x))
    )[0],
    "called": lambda x: xlapy.compile(DIVERGING["loop"])(x),
    "part": lambda x: xlapy.while_loop(
        lambda s: ops.all_reduce(s, ops.add, [[0, 1], [2, 3]]) < 9.0, lambda s: total(s) + 1, x
    ),
    "exchanged": lambda x: xlapy.cond(
        ops.collective_permute(x, [(0, 1)]) > 0, lambda: total(x), lambda: x
    ),
}


@pytest.mark.parametrize("name", DIVERGING)
def test_a_device_that_might_not_come_is_refused(name: str) -> None:
    """XLA would end the process."""
    with pytest.raises(UnsupportedOpError, match="must be the same on all devices, or some would"):
        run(DIVERGING[name], PJRT, (4, 1), data(4))


def test_the_interpreter_says_who_waits() -> None:
    with pytest.raises(BackendError, match=r"(?s)replica 0 waits at all_reduce.*1 has finished"):
        run(DIVERGING["replica"], "interpreter", (4, 1), data(4))


MEETING: dict[str, Callable[..., Any]] = {
    "apart": lambda x: total(xlapy.while_loop(lambda s: s < 9.0, lambda s: s * s + 1, x)),
    "agreed": lambda x: xlapy.while_loop(lambda s: total(s) < 9.0, lambda s: total(s) + 1, x),
    "counted": lambda x: xlapy.fori_loop(
        0, 2, lambda i, s: xlapy.cond(i == 1, lambda: total(s), lambda: s), x
    ),
    "gathered": lambda x: xlapy.cond(
        ops.all_gather(xlapy.reshape(x, (1,)), 0, 4)[2] > 0, lambda: total(x), lambda: x
    ),
    "partition": lambda x: xlapy.cond(ops.partition_id() == 0, lambda: total(x), lambda: x),
    "way back": xlapy.grad(
        lambda x: xlapy.while_loop(lambda s: total(s) < 9.0, lambda s: total(s * s) + 1, x)
    ),
}


@pytest.mark.parametrize("name", MEETING)
def test_devices_that_agree_go_on(name: str) -> None:
    x = data(4)
    np.testing.assert_allclose(
        run(MEETING[name], PJRT, (4, 1), x), run(MEETING[name], "interpreter", (4, 1), x), rtol=1e-5
    )


def test_python_functions_stand_beside_collectives() -> None:
    seen: list[float] = []
    spec = xlapy.TensorSpec((), "f32")

    def note(x: Array) -> None:
        seen.append(float(x))

    def fail(x: Array) -> Array:
        if x < 0:
            raise ValueError("negative")
        return x + 1

    def f(x: Any) -> Any:
        ops.python_callback(note, [x], (), has_side_effect=True)
        return total(ops.python_callback(fail, [x], spec))

    for backend in (PJRT, "interpreter"):
        found = run(f, backend, (4, 1), np.arange(4, dtype=np.float32))
        assert found.tolist() == [10] * 4
        assert sorted(seen) == [0, 1, 2, 3]
        seen.clear()
        with pytest.raises((BackendError, ValueError), match="negative"):
            run(f, backend, (4, 1), np.arange(4, dtype=np.float32) - 2)
        seen.clear()


def fail_if_negative(x: Array) -> Array:
    if x < 0:
        raise ValueError("negative")
    return x + 1


def python(x: Any) -> Any:
    return ops.python_callback(fail_if_negative, [x], xlapy.TensorSpec((), "f32"))


def test_python_functions_may_fail_in_loops_that_end_without_them() -> None:
    def f(x: Any) -> Any:
        y = xlapy.fori_loop(0, 3, lambda i, s: total(python(s)), x)
        return xlapy.cond(ops.replica_id() == 0, lambda: python(y), lambda: y)

    for backend in (PJRT, "interpreter"):
        assert run(f, backend, (2, 1), np.arange(2, dtype=np.float32)).tolist() == [19, 18]
        with pytest.raises((BackendError, ValueError), match="negative"):
            run(f, backend, (2, 1), np.arange(2, dtype=np.float32) - 4)


ENDLESS: dict[str, Callable[..., Any]] = {
    "before": lambda x: total(xlapy.while_loop(lambda s: s < 9.0, lambda s: s * 2, python(x))),
    "within": lambda x: xlapy.while_loop(lambda s: s < 9.0, python, x),
    "condition": lambda x: xlapy.while_loop(lambda s: python(s) < 9.0, lambda s: s * 2, x),
    "later": lambda x: xlapy.while_loop(
        lambda s: s[0] < 9.0, lambda s: (s[0] + s[1], python(x)), (x, x)
    )[0],
    "chosen": lambda x: xlapy.while_loop(
        lambda s: s < 9.0, lambda s: xlapy.cond(python(x) > 0, lambda: s + 1, lambda: s), x
    ),
    "inner": lambda x: xlapy.fori_loop(
        0, 2, lambda i, t: xlapy.while_loop(lambda s: s < 9.0, lambda s: s * 2, python(t)), x
    ),
    "called": lambda x: xlapy.compile(ENDLESS["before"])(x),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_loop_that_a_failing_function_would_not_end_is_refused(name: str) -> None:
    with pytest.raises(
        UnsupportedOpError, match=r"while: .* what a Python function gives"
    ) as caught:
        run(ENDLESS[name], PJRT, (2, 1), data(2) + 5)
    assert "test_replication.py" in str(caught.value)
