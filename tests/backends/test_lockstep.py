"""The interpreter's simulated devices: who waits for whom, what goes wrong, and the host's queues."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy.backends.interpreter import Interpreter
from xlapy.errors import BackendError, ConstraintError, UnsupportedOpError
from xlapy.trace.process_grid import current_process

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    before = threading.active_count()
    yield
    # A join that was interrupted leaves a thread marked as stopped though it runs: only the count is right.
    end = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before


def run(
    function: Callable[..., Any], *arrays: Array, replicas: int = 1, partitions: int = 1
) -> Any:
    call = xlapy.replicate(
        function, num_replicas=replicas, num_partitions=partitions, backend="interpreter"
    )
    return xlapy.tree.map(lambda t: t.numpy(), call(*arrays))


def on_replica(number: int, yes: Callable[..., Any], no: Callable[..., Any], x: Any) -> Any:
    """One branch on a replica, another one on the others."""
    return xlapy.cond(ops.eq(ops.replica_id(), ops.constant(np.uint32(number))), yes, no, x)


def line_of(text: str) -> int:
    """The line of this file that holds a text."""
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if text in line and "line_of" not in line)


def rows(count: int) -> Array:
    return np.arange(2.0 * count).reshape(count, 2)


# --- deadlocks ----------------------------------------------------------------------------------------------------


def test_a_device_that_does_not_come() -> None:
    def function(x: Any) -> Any:
        return on_replica(1, lambda x: x, lambda x: ops.all_reduce(x, ops.add), x)  # waits

    with pytest.raises(BackendError) as caught:
        run(function, rows(3), replicas=3)
    where = f"(test_lockstep.py:{line_of('# waits')})"
    group = "the group of replica 0, replica 1, replica 2"
    assert str(caught.value) == (
        "processes must not wait for what never comes; got\n"
        f"  replica 0 waits at all_reduce {where} for {group},\n"
        "  replica 1 has finished,\n"
        f"  replica 2 waits at all_reduce {where} for {group} [X1]"
    )


def test_devices_at_different_operations() -> None:
    def gathered(x: Any) -> Any:
        return ops.all_gather(x, 0, 2)  # one

    def scattered(x: Any) -> Any:
        return ops.concatenate([ops.all_reduce(x, ops.add)] * 2, 0)  # other

    with pytest.raises(BackendError) as caught:
        run(lambda x: on_replica(0, gathered, scattered, x), rows(2), replicas=2)
    text = str(caught.value)
    assert f"replica 0 waits at all_gather (test_lockstep.py:{line_of('# one')})" in text
    assert f"replica 1 waits at all_reduce (test_lockstep.py:{line_of('# other')})" in text


def test_groups_that_disagree() -> None:
    def of(groups: Any) -> Callable[[Any], Any]:
        return lambda x: ops.all_reduce(x, ops.add, groups, 5, None, True)

    with pytest.raises(BackendError) as caught:
        run(lambda x: on_replica(0, of([[0, 1], [2]]), of([[0, 2], [1]]), x), rows(3), replicas=3)
    text = str(caught.value)
    assert "replica 0 waits at all_reduce" in text
    assert "for the group of replica 0, replica 1" in text
    assert "replica 1 has finished" in text
    assert "for the group of replica 0, replica 2" in text


def test_one_that_goes_round_once_more() -> None:
    def function(x: Any) -> Any:
        trips = ops.convert(ops.add(ops.replica_id(), ops.constant(np.uint32(2))), "s32")
        return xlapy.fori_loop(0, trips, lambda i, c: ops.all_reduce(c, ops.add), x)

    with pytest.raises(
        BackendError, match=r"replica 0 has finished,\n  replica 1 waits at all_reduce"
    ):
        run(function, rows(2), replicas=2)


def test_partitions_are_named() -> None:
    def function(x: Any) -> Any:
        own = ops.eq(ops.partition_id(), ops.constant(np.uint32(0)))
        return xlapy.cond(own, lambda x: x, lambda x: ops.all_to_all(x, 0, 0, 2, channel_id=1), x)

    with pytest.raises(BackendError, match="replica 1 partition 1 waits at all_to_all"):
        run(function, rows(4), replicas=2, partitions=2)
    with pytest.raises(
        BackendError, match=r"partition 0 has finished,\n  partition 1 waits at all_to_all"
    ):
        run(function, rows(2), partitions=2)


def test_nothing_to_receive() -> None:
    def receiving(x: Any) -> Any:
        return ops.recv_done(ops.recv("f64[2]", 0, source_target_pairs=[(1, 0)]))[0]

    with pytest.raises(
        BackendError, match=r"waits at recv.*for what replica 1 sends over channel 0"
    ):
        run(lambda x: on_replica(0, receiving, lambda x: x, x), rows(2), replicas=2)


def test_arrays_that_differ_on_one_channel() -> None:
    def of(count: int) -> Callable[[Any], Any]:
        def gathered(x: Any) -> Any:
            y = ops.concatenate([x] * count, 0)
            return ops.slice(ops.all_gather(y, 0, 2, None, 4, None, True), [0], [2], [1])

        return gathered

    with pytest.raises(
        BackendError, match=r"all_gather: devices that meet must bring arrays of the same types"
    ):
        run(lambda x: on_replica(0, of(1), of(2), x), rows(2), replicas=2)


# --- meetings -----------------------------------------------------------------------------------------------------


def test_devices_meet_at_other_instructions_of_a_channel() -> None:
    def of(factor: float) -> Callable[[Any], Any]:
        return lambda x: ops.mul(ops.all_reduce(x, ops.add, None, 4, None, True), factor)

    x = rows(2)
    found = run(lambda x: on_replica(0, of(1.0), of(10.0), x), x, replicas=2)
    np.testing.assert_array_equal(found, [x.sum(0), 10 * x.sum(0)])


def test_disjoint_groups_do_not_wait_for_each_other() -> None:
    # The first group goes round more often.
    def function(x: Any) -> Any:
        trips = ops.select(
            ops.lt(ops.replica_id(), ops.constant(np.uint32(2))), ops.constant(3), ops.constant(1)
        )
        return xlapy.fori_loop(
            0, trips, lambda i, c: ops.all_reduce(c, ops.add, [[0, 1], [2, 3]]), x
        )

    x = rows(4)
    first, second = x[0] + x[1], x[2] + x[3]
    found = run(function, x, replicas=4)
    np.testing.assert_array_equal(found, [4 * first, 4 * first, second, second])


def test_callbacks_run_in_one_order() -> None:
    seen: list[int] = []

    def note(number: Array, x: Array) -> Array:
        seen.append(int(number))
        return x

    def function(x: Any) -> Any:
        for _ in range(3):
            x = ops.all_reduce(ops.python_callback(note, [ops.replica_id(), x], "f64[2]"), ops.add)
        return x

    orders = set()
    for _ in range(3):
        seen.clear()
        run(function, rows(4), replicas=4)
        orders.add(tuple(seen))
    assert len(orders) == 1
    assert sorted(seen) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


def test_programs_within_callbacks_are_on_their_own() -> None:
    inner = xlapy.compile(lambda: ops.replica_id(), backend="interpreter")

    def ask(number: Array, x: Array) -> Array:
        outside = current_process()
        with xlapy.use_backend("interpreter"):
            alone = ops.all_reduce(ops.constant([1.0]), ops.add)
            grid = run(lambda x: ops.all_reduce(x, ops.add), rows(3), replicas=3)
        assert (alone.numpy()[0], int(inner().numpy()), grid[2, 1]) == (1.0, 0, 9.0)
        assert current_process() is outside
        assert outside.replica == number
        return np.asarray(x + outside.num_replicas)

    def function(x: Any) -> Any:
        return ops.all_reduce(ops.python_callback(ask, [ops.replica_id(), x], "f64[2]"), ops.add)

    x = rows(2)
    np.testing.assert_array_equal(run(function, x, replicas=2), [x.sum(0) + 4] * 2)
    assert current_process().num_replicas == 1


def test_the_context_of_the_caller_holds_on_every_device() -> None:
    names: list[str] = []

    def ask(x: Array) -> Array:
        names.append(xlapy.ones(2).backend.name)
        return x

    def function(x: Any) -> Any:
        return ops.all_reduce(ops.python_callback(ask, [x], "f64[2]"), ops.add)

    with xlapy.use_backend("interpreter"):
        run(function, rows(2), replicas=2)
    assert names == ["interpreter"] * 2


def test_devices_that_do_not_communicate_need_no_threads() -> None:
    threads: set[int] = set()

    def note(x: Array) -> Array:
        threads.add(threading.get_ident())
        return x

    run(lambda x: ops.python_callback(note, [x], "f64[2]"), rows(4), replicas=4)
    assert threads == {threading.get_ident()}


def test_many_devices() -> None:
    x = rows(64)
    found = run(lambda x: ops.all_reduce(x, ops.add), x, replicas=16, partitions=4)
    np.testing.assert_array_equal(found, np.tile(x.reshape(16, 4, 2).sum(0), (16, 1)))


# --- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_the_first_error_reaches_the_caller(failing: int) -> None:
    after: list[int] = []

    def fail(number: Array, x: Array) -> Array:
        if number == failing:
            raise ZeroDivisionError("on purpose")
        return x

    def note(x: Array) -> Array:
        after.append(1)
        return x

    def function(x: Any) -> Any:
        y = ops.all_reduce(ops.python_callback(fail, [ops.replica_id(), x], "f64[2]"), ops.add)
        return ops.python_callback(note, [y], "f64[2]")

    with pytest.raises(BackendError, match="got ZeroDivisionError: on purpose") as caught:
        run(function, rows(4), replicas=4)
    assert type(caught.value.__cause__) is ZeroDivisionError
    assert caught.value.__notes__ == [f"in replica {failing}"]
    assert after == []


def test_an_error_of_a_kernel_names_its_line() -> None:
    def function(x: Any) -> Any:
        start = ops.reshape(ops.convert(x, "s32"), (2,))
        return ops.ragged_all_to_all(x, start, start, x, start, start)  # fails

    with pytest.raises(
        ConstraintError, match=f"at .*test_lockstep.py:{line_of('# fails')} in"
    ) as caught:
        run(function, np.array([[0.0, 0.0], [0.0, 9.0]]), replicas=2)
    assert caught.value.__notes__ == ["in replica 1"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process that a shell starts in the background ignores interrupts unless it asks for them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_all_devices() -> None:
    def interrupt(number: Array, x: Array) -> Array:
        if number == 1:
            _thread.interrupt_main()
        return x

    def function(x: Any) -> Any:
        y = ops.python_callback(interrupt, [ops.replica_id(), x], "f64[2]")
        # Long enough for the caller to hear of it.
        return xlapy.fori_loop(0, 3000, lambda i, c: ops.all_reduce(c, ops.max), y)

    with pytest.raises(KeyboardInterrupt):
        run(function, rows(3), replicas=3)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_loops_without_end() -> None:
    def interrupt(x: Array) -> Array:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return x

    def function(x: Any) -> Any:
        y = ops.python_callback(interrupt, [x], "f64[2]")
        y = xlapy.while_loop(lambda c: xlapy.sum(c * 0.0) == 0.0, lambda c: c + 1.0, y)
        return ops.all_reduce(y, ops.add)

    with pytest.raises(KeyboardInterrupt):
        run(function, rows(3), replicas=3)


# --- devices ------------------------------------------------------------------------------------------------------


def test_devices_are_listed() -> None:
    assert list(Interpreter().devices) == ["interpreter:0"]
    backend = Interpreter(num_devices=3)
    assert list(backend.devices) == ["interpreter:0", "interpreter:1", "interpreter:2"]
    with xlapy.use_backend(backend):
        x = xlapy.ones(2)
        assert x.to("interpreter:0").placement is x.placement
        y = x.to("interpreter:2")
        assert (y + y).placement.device == "interpreter:2"
        with pytest.raises(BackendError, match="operands must lie on one device"):
            x + y


@pytest.mark.parametrize("count", [0, -1])
def test_there_must_be_a_device(count: int) -> None:
    with pytest.raises(BackendError, match=rf"at least 1; got {count} \[X1\]"):
        Interpreter(count)


@pytest.mark.parametrize(
    ("text", "listed"), [("", "1"), ("4", "4"), ("0", "0"), ("many", "'many'")]
)
def test_the_environment_says_how_many(text: str, listed: str) -> None:
    code = "from xlapy.backends.interpreter import Interpreter as I; print(len(I().devices))"
    environment = {**os.environ, "XLAPY_NUM_INTERPRETER_DEVICES": text}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    if text in ("0", "many"):
        assert "the number of devices must be at least 1; got" in done.stderr
        assert listed in done.stderr
    else:
        assert done.stdout.strip() == listed


# --- the host's queues --------------------------------------------------------------------------------------------


def test_each_device_has_queues_of_its_own() -> None:
    backend = Interpreter()

    def function(x: Any) -> Any:
        (fed,), token = ops.infeed(["f64[2]"])
        ops.outfeed(ops.all_reduce(fed, ops.add), token=token)
        return fed + x

    for i in range(4):
        backend.put_in_queue("infeed", (np.full(2, 10.0 * i),), i)
    call = xlapy.replicate(function, num_replicas=2, num_partitions=2, backend=backend)
    np.testing.assert_array_equal(call(rows(4)).numpy(), rows(4) + 10.0 * np.arange(4)[:, None])
    totals = [backend.take_from_queue("outfeed", i).tolist() for i in range(4)]
    assert totals == [[20.0] * 2, [40.0] * 2] * 2
    with pytest.raises(BackendError, match="must have left a value in queue 'outfeed' of device 3"):
        backend.take_from_queue("outfeed", 3)


def test_an_empty_queue_is_an_error_at_once() -> None:
    backend = Interpreter()

    def function(x: Any) -> Any:
        (fed,), _ = ops.infeed(["f64[2]"])  # feeds
        return ops.all_reduce(fed + x, ops.add)

    backend.put_in_queue("infeed", (np.zeros(2),), 0)
    call = xlapy.replicate(function, num_replicas=2, backend=backend)
    wanted = "infeed: the host must have left a value in queue 'infeed' of device 1"
    with pytest.raises(BackendError, match=wanted) as caught:
        call(rows(2))
    assert f"test_lockstep.py:{line_of('# feeds')}" in str(caught.value)


def test_what_the_host_leaves_is_copied() -> None:
    backend = Interpreter()
    mine = np.zeros(2)
    backend.put_in_queue("infeed", (mine,))
    mine[:] = 9
    (fed,) = backend.take_from_queue("infeed")
    np.testing.assert_array_equal(fed, [0, 0])
    assert not fed.flags.writeable


def test_other_backends_have_no_queues() -> None:
    with pytest.raises(UnsupportedOpError, match="queues"):
        xlapy.ones(2, device="pjrt:cpu").backend.put_in_queue("infeed", (np.zeros(2),))
