"""Programs over several devices of a PJRT backend: replicas, partitions, caches, callbacks, refusals."""

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlapy import _jaxlib, ops
from xlapy.backends.base import CompileOptions
from xlapy.backends.executable_cache import default_cache
from xlapy.backends.pjrt import Pjrt
from xlapy.errors import BackendError
from xlapy.specs import TensorSpec, TokenSpec
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation

F2 = TensorSpec((2,), "f32")
F32, U32 = np.dtype("f4"), np.dtype("u4")


@pytest.fixture(scope="module")
def backend() -> Pjrt:
    return Pjrt("cpu", num_devices=4)


def program(f: Callable[..., Any], *specs: str, name: str = "f") -> Computation:
    builder = XlaBuilder(name)
    found = f(*[builder.parameter(i, s) for i, s in enumerate(specs)])
    return builder.build(*(found if isinstance(found, tuple) else (found,)))


def double(x: Any) -> Any:
    return ops.add(x, x)


def rows(count: int, offset: float = 0) -> list[np.ndarray[Any, Any]]:
    return [np.array([i, 10 * i], F32) + F32.type(offset) for i in range(count)]


def put(backend: Pjrt, arrays: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """One payload for each device."""
    spec = TensorSpec(arrays[0].shape, arrays[0].dtype)
    devices = backend.group(len(arrays))
    return [backend.put(a, spec, d) for a, d in zip(arrays, devices, strict=True)]


def values(backend: Pjrt, results: Sequence[Any]) -> list[list[Any]]:
    return [[backend.get(p).tolist() for p in column] for column in results]


# --- each device runs the program with what is its own ----------------------------------------------------------------


@pytest.mark.parametrize(("replicas", "partitions"), [(2, 1), (1, 2), (2, 2), (4, 1), (1, 4)])
def test_each_process_has_its_own_arguments_and_results(
    replicas: int, partitions: int, backend: Pjrt
) -> None:
    count = replicas * partitions
    options = CompileOptions(num_replicas=replicas, num_partitions=partitions)
    executable = backend.compile(
        program(lambda x, y: (ops.add(x, y), ops.mul(x, y), x), "f32[2]", "f32[2]"), options
    )
    x, y = rows(count), rows(count, 1)
    found = executable.execute([put(backend, x), put(backend, y)])
    assert values(backend, found) == [
        [(a + b).tolist() for a, b in zip(x, y, strict=True)],
        [(a * b).tolist() for a, b in zip(x, y, strict=True)],
        [a.tolist() for a in x],
    ]
    assert [p.placement for p in executable.placed] == [backend.placement] * 3
    assert [p.spec for p in executable.placed] == [F2] * 3
    # Each result lies on its device, ready for the next program.
    again = executable.execute([found[0], found[1]])
    total = [((a + b) + a * b).tolist() for a, b in zip(x, y, strict=True)]
    assert values(backend, again)[0] == total


def test_a_program_without_arguments_or_results_runs(backend: Pjrt) -> None:
    options = CompileOptions(num_replicas=4)
    builder = XlaBuilder("f")
    with builder:
        x = ops.iota("f32", 3)
    made = backend.compile(builder.build(x), options).execute([])
    assert values(backend, made) == [[[0, 1, 2]] * 4]
    builder = XlaBuilder("f")
    builder.parameter(0, "f32[2]")
    nothing = backend.compile(builder.finish([]), options)
    assert nothing.execute([put(backend, rows(4))]) == []


def test_tokens_are_one_for_each_device(backend: Pjrt) -> None:
    builder = XlaBuilder("f")
    token, x = builder.parameter(0, TokenSpec()), builder.parameter(1, "f32[2]")
    executable = backend.compile(
        builder.build(token, ops.add(x, x)), CompileOptions(num_replicas=2)
    )
    tokens, found = executable.execute([[None, None], put(backend, rows(2))])
    assert tokens == [None, None]
    assert values(backend, [found]) == [[[0, 0], [2, 20]]]


def test_results_are_there_before_they_are_computed(backend: Pjrt) -> None:
    """The call returns at once; several may be under way, and one takes the results of another."""
    size = 400
    cube = program(lambda x: ops.dot(ops.dot(x, x), x), f"f32[{size},{size}]")
    executable = backend.compile(cube, CompileOptions(num_replicas=4))
    scales = [0, 1, -1, 1]
    columns = [put(backend, [np.eye(size, dtype="f4") * k for k in scales])]
    for _ in range(20):
        columns = list(executable.execute(columns))
    assert not any(payload.is_ready() for payload in columns[0])
    for k, payload in zip(scales, columns[0], strict=True):
        backend.block_until_ready(payload)
        assert payload.is_ready()
        assert (backend.get(payload) == np.eye(size) * k).all()


def test_a_payload_may_be_read_while_the_program_is_used_again(backend: Pjrt) -> None:
    executable = backend.compile(program(double, "f32[2]"), CompileOptions(num_replicas=4))
    x = put(backend, rows(4))
    (first,) = executable.execute([x])
    view = backend.get(first[3])
    for _ in range(5):
        executable.execute([first])
    assert view.tolist() == [6, 60]


# --- what XLA makes of partitions -------------------------------------------------------------------------------------

WHO = """
func.func public @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<ui32>, tensor<ui32>) {
  %p = "stablehlo.partition_id"() : () -> tensor<ui32>
  %r = "stablehlo.replica_id"() : () -> tensor<ui32>
  %y = stablehlo.add %x, %x : tensor<2xf32>
  return %y, %r, %p : tensor<2xf32>, tensor<ui32>, tensor<ui32>
}"""
SUM = """
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "stablehlo.all_reduce"(%x) <{replica_groups = dense<GROUPS> : tensor<SHAPExi64> CHANNEL}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}"""
CHANNEL = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
GLOBAL = CHANNEL + ", use_global_device_ids"
GRID = {"num_replicas": 2, "num_partitions": 2, "divide": False}


def test_a_program_of_partitions_is_run_as_it_is_written(backend: Pjrt) -> None:
    """XLA would divide it, and refuses to say which partition it is in."""
    devices = backend.devices
    client = devices[0].client
    executable = _jaxlib.compile(client, WHO, devices, **GRID)
    results = [((2,), F32), ((), U32), ((), U32)]
    run = _jaxlib.make_group_runner(executable, results, devices)
    sums, replica, partition = values(backend, run([put(backend, rows(4))]))
    assert sums == [(2 * r).tolist() for r in rows(4)]
    assert replica == [0, 0, 1, 1]
    assert partition == [0, 1, 0, 1]
    with pytest.raises(BackendError, match="PartitionId instruction is not supported"):
        _jaxlib.compile(client, WHO, devices, num_replicas=2, num_partitions=2)


@pytest.mark.parametrize(
    ("groups", "shape", "channel", "expected"),
    [
        ("[[0, 1]]", "1x2", "", [[2, 20], [4, 40], [2, 20], [4, 40]]),
        ("[[0], [1]]", "2x1", CHANNEL, [[1, 10], [1, 10], [5, 50], [5, 50]]),
        ("[[0, 1]]", "1x2", CHANNEL, [[6, 60]] * 4),
        ("[[0, 3], [1, 2]]", "2x2", GLOBAL, [[3, 30]] * 4),
    ],
    ids=["cross_replica", "cross_replica_and_partition", "all", "flattened_ids"],
)
def test_groups_are_those_of_stablehlo(
    groups: str, shape: str, channel: str, expected: list[list[int]], backend: Pjrt
) -> None:
    text = SUM.replace("GROUPS", groups).replace("SHAPE", shape).replace("CHANNEL", channel)
    devices = backend.devices
    executable = _jaxlib.compile(devices[0].client, text, devices, **GRID)
    run = _jaxlib.make_group_runner(executable, [((2,), F32)], devices)
    assert values(backend, run([put(backend, rows(4))])) == [expected]


def test_flags_that_disable_passes_are_kept(backend: Pjrt) -> None:
    options = CompileOptions(num_partitions=2, flags=(("xla_disable_hlo_passes", "fusion"),))
    chain = program(lambda x: ops.exp(ops.sin(ops.add(x, x))), "f32[2]")
    fusions = [
        backend.compile(chain, o).optimized_hlo_text.count(" fusion(")
        for o in (options, CompileOptions(num_partitions=2))
    ]
    assert fusions == [3, 1]  # one for each operation, and one for all


# --- caches -----------------------------------------------------------------------------------------------------------


def test_programs_are_kept_by_grid_and_devices(cache_directory: Path) -> None:
    backend = Pjrt("cpu", num_devices=4)
    computation = program(double, "f32[2]")
    grids = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)]
    for repeat in range(2):
        for replicas, partitions in grids:
            options = CompileOptions(num_replicas=replicas, num_partitions=partitions)
            executable = backend.compile(computation, options)
            if replicas * partitions > 1:
                x = put(backend, rows(replicas * partitions))
                assert values(backend, executable.execute([x]))[0][-1][0] == 2 * len(x) - 2
        assert (backend.compiles, backend.loads) == (len(grids), 0), repeat
    shifted = CompileOptions(num_replicas=2, device=backend.devices[2])
    executable = backend.compile(computation, shifted)
    assert backend.compiles == len(grids) + 1
    x = [
        backend.put(a, F2, d)
        for a, d in zip(rows(2), backend.group(2, shifted.device), strict=True)
    ]
    (found,) = executable.execute([x])
    assert values(backend, [found]) == [[[0, 0], [2, 20]]]
    assert executable.placed[0].placement is backend.placement_of(backend.devices[2])


def test_programs_on_disk_serve_another_client(cache_directory: Path) -> None:
    computation = program(double, "f32[2]")
    options = CompileOptions(num_replicas=2, num_partitions=2)
    first = Pjrt("cpu", num_devices=4)
    first.compile(computation, options)
    second = Pjrt("cpu", num_devices=6)
    executable = second.compile(computation, options)
    assert (second.compiles, second.loads) == (0, 1)
    assert values(second, executable.execute([put(second, rows(4))])) == [
        [(2 * r).tolist() for r in rows(4)]
    ]
    default_cache().trim()


# --- donation ---------------------------------------------------------------------------------------------------------


def test_donated_arguments_are_gone_on_every_device(backend: Pjrt) -> None:
    executable = backend.compile(
        program(lambda x, y: ops.add(x, y), "f32[2]", "f32[2]"),
        CompileOptions(num_replicas=4, donated=frozenset({0})),
    )
    x, y = put(backend, rows(4)), put(backend, rows(4, 1))
    (found,) = executable.execute([x, y])
    assert values(backend, [found])[0][1] == [3, 21]
    for payload in x:
        with pytest.raises(BackendError, match=r"donated or deleted; got float32\[2\]"):
            backend.get(payload)
    # 0.10.2 does not survive this without a check.
    with pytest.raises(BackendError, match="donated or deleted"):
        executable.execute([x, y])
    assert values(backend, [y])[0] == [r.tolist() for r in rows(4, 1)]


# --- Python functions -------------------------------------------------------------------------------------------------


def calling(function: Callable[..., Any]) -> Computation:
    return program(lambda x: ops.python_callback(function, [x], F2), "f32[2]", name="calling")


def test_python_functions_are_called_for_each_device(backend: Pjrt) -> None:
    seen: list[list[float]] = []

    def function(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(x.tolist())
        return x + 1

    executable = backend.compile(calling(function), CompileOptions(num_replicas=4))
    found = executable.execute([put(backend, rows(4))])
    assert len(seen) == 4, "the call waits for the functions"
    assert sorted(seen) == [r.tolist() for r in rows(4)]
    assert values(backend, found) == [[r.tolist() for r in rows(4, 1)]]


def test_a_failing_function_leaves_no_device_waiting(backend: Pjrt) -> None:
    def function(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if x[0] == 2:
            raise ValueError("not two")
        return x

    executable = backend.compile(calling(function), CompileOptions(num_replicas=4))
    for _ in range(2):
        with pytest.raises(
            BackendError, match="host callback must not fail; got ValueError: not two"
        ) as info:
            executable.execute([put(backend, rows(4))])
        assert isinstance(info.value.__cause__, ValueError)
    good = [r + F32.type(5) for r in rows(4)]
    assert values(backend, executable.execute([put(backend, good)]))[0][0] == [5, 5]


def test_what_a_function_returns_is_checked(backend: Pjrt) -> None:
    executable = backend.compile(calling(lambda x: x[:1]), CompileOptions(num_replicas=2))
    with pytest.raises(BackendError, match=r"must return what the program expects"):
        executable.execute([put(backend, rows(2))])


@pytest.mark.parametrize("count", [1, 2])
def test_a_function_may_not_run_a_program_over_several_devices(count: int, backend: Pjrt) -> None:
    """They may wait for it, or it has the thread that one of them needs."""
    inner = backend.compile(program(double, "f32[2]"), CompileOptions(num_replicas=2))
    payloads = put(backend, rows(2))

    def function(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        inner.execute([payloads])
        return x

    executable = backend.compile(calling(function), CompileOptions(num_replicas=count))
    x = put(backend, rows(count))
    with pytest.raises(BackendError, match="must not run a program over several devices"):
        executable.execute(x if count == 1 else [x])
    assert values(backend, inner.execute([payloads])) == [[[0, 0], [2, 20]]]


UNDER_WAY = """
import time
import numpy as np
import xlapy
from xlapy import ops

def late(x):
    time.sleep(0.3)
    print("called", flush=True)
    return x

first = xlapy.compile(lambda x: x @ x @ x)
second = xlapy.compile(lambda x: ops.python_callback(late, [x], xlapy.TensorSpec((700, 700), "f32")))
x = xlapy.asarray(np.eye(700, dtype="f4"))
first(x), second(x)
for _ in range(3):
    second(first(x))
print("the end", flush=True)
"""


def test_the_process_ends_after_functions_that_are_under_way() -> None:
    done = subprocess.run([sys.executable, "-c", UNDER_WAY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["called"] * 4 + ["the end"]


# --- threads and clients ----------------------------------------------------------------------------------------------


def total(x: Any) -> Any:
    return ops.all_reduce(x, ops.add)


def run_together(works: Sequence[Callable[[], object]]) -> None:
    """Each in a thread of its own; the first error is raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def test_threads_and_clients_share_the_devices(backend: Pjrt) -> None:
    """Without an order of programs that all devices keep to, they would wait for each other without end."""
    text = SUM.replace("GROUPS", "[[0, 1, 2, 3]]").replace("SHAPE", "1x4").replace("CHANNEL", "")
    works: list[Callable[[], object]] = []
    for owner in (backend, Pjrt("cpu", num_devices=4), Pjrt("cpu", num_devices=6)):
        for devices in (owner.devices[:4], owner.devices[3::-1]):
            executable = _jaxlib.compile(devices[0].client, text, devices, num_replicas=4)
            run = _jaxlib.make_group_runner(executable, [((2,), F32)], devices)
            offset = len(works)
            arrays = zip(rows(4, offset), devices, strict=True)
            x = [owner.put(r, F2, d) for r, d in arrays]

            def work(owner: Pjrt = owner, run: Any = run, x: Any = x, offset: int = offset) -> None:
                found = [run([x])[0] for _ in range(60)]
                expected = [[6 + 4 * offset, 60 + 4 * offset]] * 4
                assert all(f == expected for f in values(owner, found))

            works.append(work)
    run_together(works)


def test_any_number_of_programs_may_be_under_way(backend: Pjrt) -> None:
    """XLA of 0.10.2 keeps its threads waiting where there are more than 32."""
    executable = backend.compile(program(total, "f32[2]"), CompileOptions(num_replicas=4))
    x = put(backend, rows(4))
    found = [executable.execute([x])[0] for _ in range(300)]
    assert all(f == [[6, 60]] * 4 for f in values(backend, found))


SIDE = 200
SQUARE = TensorSpec((SIDE, SIDE), "f32")


def slow(x: Any) -> Any:
    """Takes so long that it is not done when a call returns."""
    for _ in range(20):
        x = ops.dot(x, x)
    return x


def test_ordinary_programs_run_beside(backend: Pjrt) -> None:
    """Many that wait for their turn on one device, which the programs over all of them wait for as well."""
    alone = backend.compile(program(slow, str(SQUARE)), CompileOptions())
    square = backend.put(np.eye(SIDE, dtype="f4"), SQUARE)
    executable = backend.compile(program(total, "f32[2]"), CompileOptions(num_replicas=4))
    x = put(backend, rows(4))
    over = threading.Event()

    def beside() -> None:
        while not over.is_set():
            (found,) = alone.execute([square])
        backend.block_until_ready(found)

    def work() -> None:
        try:
            for _ in range(100):
                assert values(backend, executable.execute([x])) == [[[6, 60]] * 4]
        finally:
            over.set()

    run_together([beside, beside, work])


def test_functions_of_ordinary_programs_may_read_what_is_under_way(backend: Pjrt) -> None:
    """On each device one keeps a thread until a program over all of them is done."""
    box: list[Any] = []

    def read(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x + backend.get(box[0])

    def reading(x: Any) -> Any:
        return ops.python_callback(read, [x], SQUARE)

    def on_each(f: Callable[..., Any]) -> list[Any]:
        made = program(f, str(SQUARE))
        return [backend.compile(made, CompileOptions(device=d)) for d in backend.devices]

    first, second = on_each(slow), on_each(reading)
    together = backend.compile(
        program(lambda x: total(slow(x)), str(SQUARE)), CompileOptions(num_replicas=4)
    )
    squares = put(backend, [np.eye(SIDE, dtype="f4")] * 4)
    for _ in range(5):
        # The functions' arguments are not there yet, so that they run on threads of XLA's.
        pending = [f.execute([x]) for f, x in zip(first, squares, strict=True)]
        box[:] = together.execute([squares])[0]
        for f, x in zip(second, pending, strict=True):
            (found,) = f.execute(x)
            assert (backend.get(found) == 5 * np.eye(SIDE)).all()


def test_an_argument_that_could_not_be_computed_is_an_error(backend: Pjrt) -> None:
    """Its device would not come to the others."""

    def late(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        time.sleep(0.2)
        raise ValueError("too late")

    def corner(x: Any) -> Any:
        return ops.slice(slow(x), (0, 0), (1, 2), (1, 1))

    first = backend.compile(program(corner, str(SQUARE)), CompileOptions())
    failing = program(lambda x: ops.python_callback(late, [x], F2), "f32[1,2]")
    second = backend.compile(failing, CompileOptions())
    executable = backend.compile(program(total, "f32[2]"), CompileOptions(num_replicas=4))
    x, square = put(backend, rows(4)), backend.put(np.eye(SIDE, dtype="f4"), SQUARE)
    for _ in range(20):
        # If the function's argument is there already, it is called at once.
        with contextlib.suppress(BackendError):
            (failed,) = second.execute(first.execute([square]))
            break
    for _ in range(2):
        with pytest.raises(
            BackendError, match="host callback must not fail; got ValueError: too late"
        ):
            executable.execute([[failed, *x[1:]]])
    assert values(backend, executable.execute([x])) == [[[6, 60]] * 4]


def test_arrays_may_go_while_a_program_takes_them(backend: Pjrt) -> None:
    """Another thread deletes or donates them: the program gets all of them or none."""
    executable = backend.compile(program(total, "f32[2]"), CompileOptions(num_replicas=4))
    donating = backend.compile(
        program(double, "f32[2]"),
        CompileOptions(donated=frozenset({0}), device=backend.devices[1]),
    )
    box = [put(backend, rows(4))]
    refused: list[str] = []
    over = threading.Event()

    def remove() -> None:
        for attempt in itertools.count():
            if over.is_set():
                return
            if attempt % 2:
                backend.delete(box[0][1])
            else:
                with contextlib.suppress(BackendError):
                    donating.execute([box[0][1]])

    def work() -> None:
        try:
            for _ in range(1000):
                box[0] = x = put(backend, rows(4))
                try:
                    found = executable.execute([x])
                except BackendError as error:
                    refused.append(str(error))
                else:
                    assert values(backend, found) == [[[6, 60]] * 4]
        finally:
            over.set()

    run_together([remove, work])
    assert [m for m in refused if "donated or deleted" not in m] == []


INTERRUPTED = """
import signal, threading, time
import numpy as np
import xlapy
from xlapy import ops
from xlapy.backends.pjrt import Pjrt

for name in ("first", "second"):
    xlapy.register_backend(name, lambda: Pjrt("cpu", num_devices=4))

def called(x):
    y = ops.python_callback(lambda x: x, [x], xlapy.TensorSpec((2,), "f32"))
    return ops.all_reduce(y, ops.add)

def total(x):
    return ops.all_reduce(x, ops.add)

programs = [xlapy.replicate(f, num_replicas=4, backend=b) for f in (total, called) for b in ("first", "second")]
x = np.arange(8, dtype="f4").reshape(4, 2)
for f in programs:
    f(x)
running = []

def once(number, frame):
    if running:
        running.clear()
        raise KeyboardInterrupt

def interrupt():
    while time.time() < over:
        time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGINT)

signal.signal(signal.SIGINT, once)
main, over = threading.main_thread().ident, time.time() + 2
thread = threading.Thread(target=interrupt)
thread.start()
interrupts = 0
while thread.is_alive():
    try:
        running.append(True)
        for f in programs:
            f(x)
        running.clear()
    except KeyboardInterrupt:
        interrupts += 1
print(interrupts > 0, [f(x).tolist() == [[12, 16]] * 4 for f in programs])
"""


def test_interrupts_leave_the_devices_free() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "True [True, True, True, True]\n", done.stdout + done.stderr


# --- refused ----------------------------------------------------------------------------------------------------------


def test_too_few_devices_are_refused(backend: Pjrt) -> None:
    with pytest.raises(BackendError, match=r"(?s)over 8 devices.*got 4.*XLAPY_NUM_CPU_DEVICES"):
        backend.compile(program(double, "f32[2]"), CompileOptions(num_replicas=4, num_partitions=2))
    with pytest.raises(BackendError, match=r"from cpu:3 on; got 1"):
        backend.compile(
            program(double, "f32[2]"), CompileOptions(num_replicas=2, device=backend.devices[3])
        )
    with pytest.raises(BackendError, match="device must be one of"):
        backend.group(2, Pjrt("cpu").devices[0])


def test_the_environment_gives_the_devices() -> None:
    code = (
        "import numpy as np, xlapy\n"
        "f = xlapy.replicate(lambda x: x + x, num_replicas=2, num_partitions=2)\n"
        "print(len(xlapy.devices()), f(np.arange(4.0)).tolist())\n"
    )
    for count, expected in (("4", "4 [0.0, 2.0, 4.0, 6.0]"), ("", "XLAPY_NUM_CPU_DEVICES")):
        environment = {**os.environ, "XLAPY_NUM_CPU_DEVICES": count}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert expected in done.stdout + done.stderr
