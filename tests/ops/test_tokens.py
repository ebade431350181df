"""Tokens in programs and at their edges, and the queues between a program and the host."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy.backends.interpreter import Interpreter
from xlapy.backends.pjrt import Pjrt
from xlapy.errors import BackendError, DTypeError, NotDifferentiableError, UnsupportedOpError
from xlapy.specs import TokenSpec
from xlapy.trace.builder import trace
from xlapy.trace.simplify import eliminate_dead, simplify

BACKENDS = ("interpreter", "pjrt:cpu")


@pytest.fixture
def host():
    """An interpreter with empty queues, in use."""
    backend = Interpreter()
    with xlapy.use_backend(backend):
        yield backend


def names(computation):
    return [i.op.name for i in computation.instructions]


# --- infeed and outfeed ---------------------------------------------------------------------------------------------


def test_items_go_through_in_order(host):
    @xlapy.compile
    def step(x):
        pair, token = ops.infeed("(f32[2], s32[])")
        token = ops.outfeed(ops.add(pair[0], x), token=token)
        one, token = ops.infeed("f32[2]", token=token)
        ops.outfeed([one, pair[1]], token=token)
        return ops.add(one, x)

    for k in (1.0, 3.0):
        xlapy.transfer_to_infeed({"b": np.int32(k), "a": np.float32([k, k])})
        xlapy.transfer_to_infeed([np.float32([0, k])])
    for k in (1.0, 3.0):
        np.testing.assert_array_equal(step(np.float32([10, 20])).numpy(), [10, 20 + k])
    for k in (1.0, 3.0):
        np.testing.assert_array_equal(xlapy.transfer_from_outfeed().numpy(), [10 + k, 20 + k])
        array, number = xlapy.transfer_from_outfeed()
        np.testing.assert_array_equal(array.numpy(), [0, k])
        assert number.spec == xlapy.TensorSpec((), "s32")
        assert int(number) == k
    with pytest.raises(BackendError, match="outfeed"):
        xlapy.transfer_from_outfeed()


def test_eager_calls_use_the_queues(host):
    xlapy.transfer_to_infeed(xlapy.asarray(True))
    data, token = ops.infeed("pred[]")
    assert bool(data)
    assert isinstance(token.spec, TokenSpec)
    assert isinstance(ops.outfeed(2.0, token=token).spec, TokenSpec)
    assert float(xlapy.transfer_from_outfeed()) == 2.0


def test_an_empty_queue_is_an_error_at_the_infeeds_line(host):
    @xlapy.compile
    def step():
        return ops.infeed("f32[2]")[0]  # here

    for _ in range(2):
        with pytest.raises(BackendError, match=r"(?s)device 0.*test_tokens.py.*# here"):
            step()


@pytest.mark.parametrize(
    "item", [np.zeros(3, "f4"), np.zeros(2, "f8"), np.zeros((2, 1), "f4"), [np.zeros(2, "f4")] * 2]
)
def test_another_type_is_an_error_at_the_infeeds_line(host, item):
    @xlapy.compile
    def step():
        return ops.infeed("f32[2]")[0]  # here

    xlapy.transfer_to_infeed(item)
    with pytest.raises(DTypeError, match=r"(?s)must be f32\[2\]; got .*test_tokens.py.*# here"):
        step()


def test_nothing_is_read_and_left_for_empty_tuples(host):
    data, token = ops.infeed("()")
    assert data == ()
    ops.outfeed((), token=token)
    xlapy.transfer_to_infeed(())
    with pytest.raises(BackendError, match="empty"):
        ops.infeed("f32[]")
    with pytest.raises(BackendError, match="empty"):
        xlapy.transfer_from_outfeed()


def test_queues_belong_to_a_device():
    backend = Interpreter(num_devices=2)
    step = xlapy.compile(lambda: ops.infeed("f32[]")[0], backend=backend)
    xlapy.transfer_to_infeed(1.0, device="interpreter:1", backend=backend)
    with pytest.raises(BackendError, match="device 0"):
        step()
    with pytest.raises(BackendError, match="interpreter:0, interpreter:1"):
        xlapy.transfer_to_infeed(1.0, device="interpreter:2", backend=backend)
    with pytest.raises(BackendError, match="got -1"):
        xlapy.transfer_from_outfeed(device=-1, backend=backend)


def test_an_infeed_in_a_loop(host):
    @xlapy.compile
    def total(n):
        def body(i, x, token):
            data, token = ops.infeed("f32[]", token=token)
            return ops.add(i, 1), ops.add(x, data), ops.outfeed(data, token=token)

        return ops.while_(lambda i, x, token: ops.lt(i, n), body, (0, 0.0, ops.create_token()))[1]

    for k in range(5):
        xlapy.transfer_to_infeed(float(k))
    assert float(total(4)) == 6.0
    assert [float(xlapy.transfer_from_outfeed()) for _ in range(4)] == [0, 1, 2, 3]
    assert float(total(1)) == 4.0


def test_what_is_seen_outside_is_kept_and_not_merged():
    def f(x):
        ops.create_token()
        ops.after_all([ops.create_token()])
        for _ in range(2):
            ops.infeed("f32[]")
            ops.outfeed(x)
            ops.send(x, 1)
            ops.recv("f32[]", 2)
        ops.send_done(ops.send(x, 3))
        return x

    found = names(simplify(trace(f, [xlapy.TensorSpec((), "f32")]).computation))
    for name in ("infeed", "outfeed", "recv"):
        assert found.count(name) == 2
    assert found.count("send") == 3
    assert "after_all" not in found
    assert "send_done" not in found


def test_dead_loops_and_calls_are_kept_for_their_effects_only():
    def loop(effect):
        def f(x):
            body = lambda i, t: (ops.add(i, 1), effect(x, t))  # noqa: E731
            ops.while_(lambda i, t: ops.lt(i, 3), body, (0, ops.create_token()))
            ops.call(lambda t: effect(x, t), ops.create_token())
            return x

        return names(eliminate_dead(trace(f, [xlapy.TensorSpec((), "f32")]).computation))

    kept = loop(lambda x, t: ops.outfeed(x, token=t))
    assert "while" in kept
    assert "call" in kept
    dropped = loop(lambda x, t: ops.after_all([t]))
    assert "while" not in dropped
    assert "call" not in dropped


# --- what XLA does not run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.infeed("f32[2]")[0], lambda x: ops.outfeed(x), lambda x: ops.send(x, 1),
        lambda x: ops.recv("f32[2]", 1)[0], lambda x: ops.call(lambda: ops.infeed("f32[2]")[0]),
    ],
)  # fmt: skip
def test_xla_is_refused_before_anything_runs(call):
    with (
        xlapy.use_backend("pjrt:cpu"),
        pytest.raises(UnsupportedOpError, match="pass the data as arguments"),
    ):
        xlapy.compile(call)(xlapy.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda: xlapy.transfer_to_infeed(1.0), xlapy.transfer_from_outfeed,
        lambda: xlapy.transfer_to_channel(1.0, 3), lambda: xlapy.transfer_from_channel(3),
    ],
)  # fmt: skip
def test_xla_has_no_queues(call):
    with (
        xlapy.use_backend("pjrt:cpu"),
        pytest.raises(UnsupportedOpError, match="use the interpreter"),
    ):
        call()


# --- derivatives and vectorised forms -------------------------------------------------------------------------------


def test_what_comes_in_is_constant_and_what_goes_out_has_no_derivative(host):
    def weighted(x):
        data, token = ops.infeed("f32[]")
        ops.outfeed(ops.stop_gradient(x), token=token)
        return ops.mul(data, ops.mul(x, x))

    for _ in range(2):
        xlapy.transfer_to_infeed(3.0)
    assert float(xlapy.grad(weighted)(2.0)) == 12.0
    assert float(xlapy.transfer_from_outfeed()) == 2.0
    assert [float(t) for t in xlapy.jvp(weighted, (2.0,), (1.0,))] == [12.0, 12.0]

    def leak(x):
        ops.outfeed(x)  # here
        return x

    for derivative in (xlapy.grad(leak), lambda x: xlapy.jvp(leak, (x,), (1.0,))):
        with pytest.raises(NotDifferentiableError, match=r"(?s)outfeed.*# here"):
            derivative(2.0)


def _fed(x):
    data, _ = ops.infeed("f32[]")
    return ops.mul(ops.sin(x), data)


def _loop(count, body):
    def f(x):
        step = lambda i, y: (ops.add(i, 1), body(y))  # noqa: E731
        return ops.while_(lambda i, y: ops.lt(i, count(x)), step, (0, x))[1]

    return f


IN_CONTROL_FLOW = {
    "call": (1, lambda x: ops.call(_fed, x)),
    "conditional": (1, lambda x: ops.conditional(0, [_fed, ops.cos], [x, x])),
    "loop": (3, _loop(lambda x: 3, _fed)),
    "call in a loop": (2, _loop(lambda x: 2, lambda y: ops.call(_fed, y))),
}


@pytest.mark.parametrize("name", IN_CONTROL_FLOW)
def test_a_derivative_reads_no_item_twice(host, name):
    """What control flow needs on the way back is kept, not run again."""
    rounds, f = IN_CONTROL_FLOW[name]

    def by_hand(x):
        y, slope = x, 1.0
        for k in range(rounds):
            y, slope = (k + 2) * np.sin(y), slope * (k + 2) * np.cos(y)
        return y, slope

    for run in (lambda: xlapy.jvp(f, (1.0,), (1.0,)), lambda: xlapy.value_and_grad(f)(1.0)):
        for k in range(rounds):
            xlapy.transfer_to_infeed(k + 2.0)
        np.testing.assert_allclose([float(v) for v in run()], by_hand(1.0), rtol=1e-5)
        with pytest.raises(BackendError, match="empty"):
            host.take_from_queue("infeed")


def test_a_loop_that_would_read_twice_has_no_way_back(host):
    """How often it runs is known only when it has run."""
    count = lambda x: ops.convert_element_type(ops.mul(x, 3.0), "s32")  # noqa: E731
    with pytest.raises(NotDifferentiableError, match="must be repeatable.*got infeed"):
        xlapy.grad(_loop(count, _fed))(1.0)
    with_tokens = _loop(count, lambda y: (ops.after_all([]), ops.sin(y))[1])
    slope = np.cos(1.0) * np.cos(np.sin(1.0)) * np.cos(np.sin(np.sin(1.0)))
    np.testing.assert_allclose(float(xlapy.grad(with_tokens)(1.0)), slope, rtol=1e-5)


def test_vectorised_over_what_the_host_does_not_see(host):
    def f(x):
        data, token = ops.infeed("f32[]")
        return ops.add(x, data), ops.after_all([token])

    xlapy.transfer_to_infeed(1.0)
    found = xlapy.vmap(lambda x: f(x)[0])(np.float32([1, 2]))
    np.testing.assert_array_equal(found.numpy(), [2, 3])
    with pytest.raises(UnsupportedOpError, match="whole batch"):
        xlapy.vmap(lambda x: (x, ops.outfeed(x))[0])(np.float32([1, 2]))


# --- tokens without the host ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_at_the_edge(backend):
    @xlapy.compile
    def f(x, token, other):
        return ops.add(x, 1.0), ops.after_all([token, other]), {"t": token}

    with xlapy.use_backend(backend):
        x = xlapy.asarray([1.0, 2.0])
        token = ops.create_token()
        assert repr(token) == str(token) == "Tensor(token[])"
        for _ in range(2):
            y, after, kept = f(x, token, ops.after_all([token, token]))
            np.testing.assert_array_equal(y.numpy(), [2, 3])
            assert isinstance(after.spec, TokenSpec)
            assert isinstance(kept["t"].spec, TokenSpec)
        assert (f.traces, f.compiles) == (1, 1)
        with pytest.raises(BackendError, match="token"):
            token.numpy()
        # Nothing but tokens.
        assert isinstance(xlapy.compile(lambda t: t)(token).spec, TokenSpec)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_in_loops_and_conditionals(backend):
    def f(x, token):
        step = lambda i, y, t: (ops.add(i, 1), ops.mul(y, x), ops.after_all([t]))  # noqa: E731
        _, y, token = ops.while_(lambda i, y, t: ops.lt(i, 3), step, (0, x, token))
        branches = [lambda y, t: (ops.sin(y), t), lambda y, t: (y, ops.after_all([t, t]))]
        y, token = ops.conditional(1, branches, [(y, token), (y, token)])
        return y, token

    with xlapy.use_backend(backend):
        token = ops.create_token()
        y, after = xlapy.compile(f)(2.0, token)
        assert float(y) == 16.0
        assert isinstance(after.spec, TokenSpec)
        assert float(xlapy.grad(lambda x: f(x, token)[0])(2.0)) == 32.0
        value, slope = xlapy.jvp(lambda x: f(x, token)[0], (2.0,), (1.0,))
        assert (float(value), float(slope)) == (16.0, 32.0)
        found = xlapy.vmap(lambda x: f(x, token)[0])(np.float32([1, 2]))
        np.testing.assert_array_equal(found.numpy(), [1, 16])


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_with_trip_counts_of_their_own_carry_a_token(backend):
    def f(n, token):
        step = lambda i, t: (ops.add(i, 1), ops.after_all([t]))  # noqa: E731
        return ops.while_(lambda i, t: ops.lt(i, n), step, (0, token))[0]

    with xlapy.use_backend(backend):
        token = ops.create_token()
        found = xlapy.vmap(lambda n: f(n, token))(np.int32([3, 1, 0]))
        np.testing.assert_array_equal(found.numpy(), [3, 1, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_written_and_read_again(backend):
    def f(x, token):
        return ops.mul(x, 2.0), ops.after_all([token, ops.create_token()])

    artifact = xlapy.export(f, "f32[2]", TokenSpec())
    again = xlapy.from_stablehlo(artifact.serialize())
    assert str(again.parameter_specs) == "(f32[2], token[])"
    with xlapy.use_backend(backend):
        y, token = again(xlapy.ones(2), ops.create_token())
        np.testing.assert_array_equal(y.numpy(), [2, 2])
        assert isinstance(token.spec, TokenSpec)
        inner = xlapy.compile(lambda x: again(x, ops.create_token())[0])
        np.testing.assert_array_equal(inner(xlapy.ones(2)).numpy(), [2, 2])


def test_queues_survive_the_round_trip(host):
    def f(x):
        data, token = ops.infeed("(f32[2], s32[])", "c", layout=[[0], []])
        token = ops.outfeed([x, *data], None, "d", token=token)
        return ops.add(x, data[0]), token

    for again in (
        xlapy.from_stablehlo(xlapy.export(f, "f32[2]").serialize()),
        xlapy.from_hlo(xlapy.compile(f).lower(xlapy.ones(2)).hlo_text),
    ):
        xlapy.transfer_to_infeed([np.float32([1, 2]), 3])
        np.testing.assert_array_equal(again(xlapy.ones(2), backend=host)[0].numpy(), [2, 3])
        assert [x.tolist() for x in xlapy.transfer_from_outfeed()] == [[1, 1], [1, 2], 3]


@pytest.mark.parametrize("entered", [False, True])
def test_the_builders_level(host, entered):
    b = xlapy.XlaBuilder("main")
    x = b.parameter(0, "f32[2]")
    if entered:
        with b:
            data, token = ops.infeed("f32[2]")
            token = ops.outfeed(ops.add(x, data), token=token)
    else:
        token = ops.outfeed(ops.add(x, x))
    computation = b.build(token)
    assert len(computation.parameters) == 1
    if entered:
        xlapy.transfer_to_infeed(np.float32([3, 4]))
    xlapy.from_stablehlo(xlapy.export(computation).stablehlo_text)(np.float32([3, 4]), backend=host)
    np.testing.assert_array_equal(xlapy.transfer_from_outfeed().numpy(), [6, 8])


@pytest.mark.parametrize(
    ("call", "label"),
    [
        (lambda: ops.after_all(ops.create_token()), "I1"),
        (lambda: ops.after_all([1.0]), "I1"),
        (lambda: ops.infeed("f32[2]", token=1.0), "I1"),
        (lambda: ops.infeed("f32[2]", 3), "I2"),
        (lambda: ops.infeed("((f32[2]), f32[2])"), "C2"),
        (lambda: ops.infeed("f32[2,2]", layout=[[0]]), "X1"),
        (lambda: ops.infeed("f32[2]", layout=0), "X1"),
        (lambda: ops.infeed(2), "X1"),
        (lambda: ops.outfeed([1.0], "f32[2]"), "X1"),
        (lambda: ops.outfeed(ops.create_token()), "I1"),
    ],
)
def test_wrong_calls(call, label):
    with pytest.raises(xlapy.errors.XlapyError, match=re.escape(f"[{label}]")):
        call()


@pytest.mark.parametrize("backend", BACKENDS)
def test_outer_tokens_are_used_within(backend):
    with xlapy.use_backend(backend):
        token, x = ops.create_token(), xlapy.asarray([1.0, 2.0])
        f = lambda x: (ops.mul(x, 2.0), ops.after_all([token]))  # noqa: E731
        np.testing.assert_array_equal(xlapy.compile(f)(x)[0].numpy(), [2, 4])
        total = lambda a, b: (ops.after_all([token]), ops.add(a, b))[1]  # noqa: E731
        assert float(ops.reduce([x], [0.0], total, [0])[0]) == 3.0
        np.testing.assert_array_equal(xlapy.export(f, x).load()(x)[0].numpy(), [2, 4])


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_have_no_rows(backend):
    with xlapy.use_backend(backend):
        x, token = np.float32([[1, 2], [3, 4]]), ops.create_token()
        f = lambda x, t: (ops.add(x, x), ops.after_all([t]), t, ops.create_token())  # noqa: E731
        for axes in (0, (1, None)):
            found = xlapy.vmap(f, in_axes=axes)(x, token)
            wanted = 2 * (x if axes == 0 else x.T)
            np.testing.assert_array_equal(found[0].numpy(), wanted)
            assert [t.spec for t in found[1:]] == [TokenSpec()] * 3


def test_tokens_move_to_another_backend():
    token = ops.create_token()
    for backend in BACKENDS:
        assert token.to(backend).backend.name == backend
        again = xlapy.export(lambda t: ops.after_all([t, t]), TokenSpec()).load()
        assert again(token.to(BACKENDS[0]), backend=backend).backend.name == backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_of_python_in_order(backend):
    """XLA runs what does not depend on each other in any order, and at once; tokens give one."""
    seen = []

    def note(x, k, token):
        def callback(v):
            time.sleep(0.002 * (5 - k))
            seen.append(float(v))
            return v

        x, token = ops.python_callback(callback, [x], "f32[]", has_side_effect=True, token=token)
        nothing = lambda v: seen.append(float(v))  # noqa: E731
        return ops.python_callback(nothing, [x], [], has_side_effect=True, token=token)[1]

    @xlapy.compile
    def f(x, token):
        for k in range(5):
            token = note(ops.add(x, float(k)), k, token)
        return x, token

    with xlapy.use_backend(backend):
        x, token = f(1.0, ops.create_token())
        xlapy.block_until_ready(f(x, token))
        assert seen == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5] * 2
        seen.clear()
        rows = xlapy.vmap(lambda x: (x, note(x, 5, ops.create_token())))(np.float32([1, 2, 3]))[0]
        xlapy.block_until_ready(rows)
        assert seen == [1, 2, 3] * 2
        with pytest.raises(NotDifferentiableError, match="python_callback"):
            xlapy.grad(lambda x: (x, note(x, 5, token))[0])(1.0)


def test_a_custom_call_takes_and_gives_tokens():
    ops.register_custom_call(
        "hand_on_the_token", lambda x, token, *, out, attributes: (x + 1, token)
    )

    def f(x, token):
        ops.custom_call("hand_on_the_token", [x, token], ["f32[]", "token[]"], has_side_effect=True)
        return ops.custom_call("hand_on_the_token", [x, token], ["f32[]", "token[]"])

    with xlapy.use_backend("interpreter"):
        x, token = xlapy.compile(f)(1.0, ops.create_token())
        assert float(x) == 2.0
        assert isinstance(token.spec, TokenSpec)
    artifact = xlapy.export(f, "f32[]", TokenSpec())
    assert artifact.stablehlo_text.count("stablehlo.custom_call") == 2
    x, _ = artifact.load()(1.0, ops.create_token(), backend="interpreter")
    assert float(x) == 2.0
    with pytest.raises(NotDifferentiableError, match="custom_call"):
        xlapy.grad(lambda x: (f(x, ops.create_token()), x)[1])(
            1.0
        )  # an error before it is compiled


def test_replicated_functions_use_outer_tokens():
    """On another device a token is what it is on the first."""
    for backend in (Interpreter(), Pjrt("cpu", num_devices=2)):
        with xlapy.use_backend(backend):
            token = ops.create_token()
            f = lambda x, t=token: (ops.after_all([t]), ops.add(x, 1.0))[1]  # noqa: E731
            found = xlapy.replicate(f, num_replicas=2)(np.float32([1, 2]))
            np.testing.assert_array_equal(found.numpy(), [2, 3])
