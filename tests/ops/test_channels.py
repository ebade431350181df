"""Send and recv between the simulated devices of a program, and to and from the host."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy.backends.base import CompileOptions
from xlapy.backends.eager import compile_checked
from xlapy.backends.interpreter import Interpreter
from xlapy.errors import BackendError, DTypeError, NotDifferentiableError, UnsupportedOpError
from xlapy.specs import parse_spec
from xlapy.trace.builder import trace

RING = ((0, 1), (1, 2), (2, 0))


@pytest.fixture
def host():
    """An interpreter with empty queues, in use."""
    backend = Interpreter()
    with xlapy.use_backend(backend):
        yield backend


def on_grid(backend, function, *columns, replicas=1, partitions=1):
    """The first result of a function on each device, from the devices' arguments."""
    specs = [xlapy.TensorSpec(c[0].shape, c[0].dtype) for c in columns]
    computation = getattr(function, "computation", None)
    if computation is None:
        computation = trace(function, specs).computation
    options = CompileOptions(num_replicas=replicas, num_partitions=partitions)
    program = compile_checked(computation, backend.placement, options)
    return [np.asarray(x) for x in program.execute([list(c) for c in columns])[0]]


def arrays(count):
    return [np.float32([k, 10 * k]) for k in range(1, count + 1)]


@pytest.mark.parametrize("first", ["send", "recv"])
@pytest.mark.parametrize(
    ("grid", "channel"), [({"replicas": 3}, 0), ({"replicas": 3}, -2), ({"partitions": 3}, 7)]
)
def test_around_a_ring(host, first, grid, channel):
    def f(x):
        if first == "send":
            ops.send_done(ops.send(x, channel, source_target_pairs=RING))
        data, _ = ops.recv_done(ops.recv("f32[2]", channel, source_target_pairs=RING))
        if first == "recv":
            ops.send(x, channel, source_target_pairs=RING)
        return ops.sub(data, x)

    xs = arrays(3)
    found = on_grid(host, f, xs, **grid)
    np.testing.assert_array_equal(found, [xs[2] - xs[0], xs[0] - xs[1], xs[1] - xs[2]])


def test_replicas_of_partitions_keep_to_their_row(host):
    """A positive channel joins partitions of one replica, another one the replicas of a partition."""

    def f(x):
        token = ops.send(x, 5, source_target_pairs=((0, 1), (1, 0)))
        across, token = ops.recv("f32[2]", 5, source_target_pairs=((0, 1), (1, 0)), token=token)
        token = ops.send(x, 0, source_target_pairs=((1, 0),), token=token)
        down, token = ops.recv("f32[2]", 0, source_target_pairs=((1, 0),), token=token)
        return ops.add(ops.mul(across, 100.0), down)

    a, b, c, d = xs = arrays(4)
    found = on_grid(host, f, xs, replicas=2, partitions=2)
    np.testing.assert_array_equal(found, [100 * b + c, 100 * a + d, 100 * d, 100 * c])


def test_a_pipeline_in_a_loop(host):
    """Each round hands the data on by one stage."""
    pairs = ((0, 1), (1, 2))

    def f(x):
        def body(i, y):
            data, _ = ops.recv("f32[2]", 0, source_target_pairs=pairs)
            ops.send(y, 0, source_target_pairs=pairs)
            return ops.add(i, 1), ops.add(data, x)

        return ops.while_(lambda i, y: ops.lt(i, 2), body, (0, x))[1]

    a, b, c = xs = arrays(3)
    np.testing.assert_array_equal(on_grid(host, f, xs, replicas=3), [a, a + b, a + b + c])


def test_several_arrays_in_order(host):
    def f(x):
        for k in range(3):
            ops.send([ops.mul(x, float(k)), k], 1)
        kept, token = [], None
        for _ in range(3):
            (data, number), token = ops.recv(["f32[2]", "s32[]"], 1, token=token)
            kept.append(ops.add(data, ops.convert_element_type(number, "f32")))
        return ops.concat_in_dim(kept, 0)

    with xlapy.use_backend(host):
        found = xlapy.compile(f)(np.float32([1, 2])).numpy()
    np.testing.assert_array_equal(found, [0, 0, 2, 3, 4, 6])


def test_what_never_comes_is_an_error(host):
    lonely = xlapy.compile(lambda: ops.recv("f32[2]", 4)[0])
    with pytest.raises(BackendError, match=r"waits at recv \(test_channels.py:\d+\).*channel 4"):
        lonely()

    def f(x):
        return ops.recv("f32[2]", 0, source_target_pairs=((1, 0),))[0]

    with pytest.raises(BackendError, match=r"(?s)replica 0 waits at recv.*replica 1 has finished"):
        on_grid(host, f, arrays(2), replicas=2)


@pytest.mark.parametrize(
    ("channel", "pairs", "match"),
    [
        (1, ((0, 1),), r"partitions \(there are 1\).*\[C4\]"),
        (0, ((0, 2),), r"replicas \(there are 2\).*\[C4\]"),
        (0, (), r"which device sends to which.*\[X1\]"),
    ],
)
def test_pairs_must_be_of_the_grid(host, channel, pairs, match):
    def f(x):
        ops.send(x, channel, source_target_pairs=pairs)  # here
        return x

    def g(x):
        return ops.recv("f32[2]", channel, source_target_pairs=pairs)[0]  # here

    for function in (f, g):
        with pytest.raises(BackendError, match=f"(?s){match}.*# here"):
            on_grid(host, function, arrays(2), replicas=2)


def test_another_type_is_an_error_at_the_recvs_line(host):
    def f(x):
        ops.send(x, 1)
        return ops.recv("f32[3]", 1)[0]  # here

    with pytest.raises(DTypeError, match=r"(?s)channel 1 must be f32\[3\]; got f32\[2\].*# here"):
        xlapy.compile(f)(xlapy.ones(2))


def test_the_hosts_channels(host):
    def f(x):
        data, token = ops.recv("f32[2]", 3, is_host_transfer=True)
        ops.send([x, data], 4, is_host_transfer=True, token=token)
        ops.send(data, 5, is_host_transfer=True, token=token)
        return data

    step = xlapy.compile(f)
    with pytest.raises(BackendError, match="recv 3"):
        step(xlapy.ones(2))
    xlapy.transfer_to_channel(np.float32([1, 2]), 3)
    np.testing.assert_array_equal(step(xlapy.ones(2)).numpy(), [1, 2])
    assert [x.tolist() for x in xlapy.transfer_from_channel(4)] == [[1, 1], [1, 2]]
    assert xlapy.transfer_from_channel(5).tolist() == [1, 2]
    with pytest.raises(BackendError, match="send 5"):
        xlapy.transfer_from_channel(5)


def test_each_device_has_queues_of_its_own(host):
    def f(x):
        data, token = ops.infeed("f32[2]")
        ops.outfeed(ops.add(x, data), token=token)
        return data

    for device in range(4):
        xlapy.transfer_to_infeed(np.float32([device, 0]), device=device)
    xs = arrays(4)
    found = on_grid(host, f, xs, replicas=2, partitions=2)
    np.testing.assert_array_equal(found, [[k, 0] for k in range(4)])
    for device in range(4):
        out = xlapy.transfer_from_outfeed(device=device).numpy()
        np.testing.assert_array_equal(out, xs[device] + [device, 0])


def test_derivatives_and_rows_are_refused(host):
    def f(x):
        ops.send(x, 1)  # here
        return ops.add(ops.recv("f32[]", 1)[0], x)

    for derivative in (xlapy.grad(f), lambda x: xlapy.jvp(f, (x,), (1.0,))):
        with pytest.raises(NotDifferentiableError, match="(?s)collective_permute.*# here"):
            derivative(2.0)
    with pytest.raises(UnsupportedOpError, match="(?s)one recv.*# here"):
        xlapy.vmap(f)(np.float32([1, 2]))


# --- from and to text -------------------------------------------------------------------------------------------------

HLO_RING = """HloModule m, replica_count=3
ENTRY e {{
  x = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), {channel}frontend_attributes={{{pairs}}}
  s = (f32[2], u32[], token[]) send(x, t), {channel}control-predecessors={{r}}, frontend_attributes={{{pairs}}}
  rd = (f32[2], token[]) recv-done(r){done}
  y = f32[2] get-tuple-element(rd), index=0
  sd = token[] send-done(s){done}
  ROOT z = f32[2] subtract(y, x)
}}"""
QUOTED = '_xla_send_recv_source_target_pairs="{{0,1},{1,2},{2,0}}"'
BARE = '_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,0}},_xla_other="1"'


@pytest.mark.parametrize("pairs", [QUOTED, BARE])
@pytest.mark.parametrize("channel", [None, 0, 1])
def test_hlo_around_a_ring(host, channel, pairs):
    given = "" if channel is None else f"channel_id={channel}, "
    text = HLO_RING.format(pairs=pairs, channel=given, done=given and ", " + given[:-2])
    f = xlapy.from_hlo(text)
    xs = arrays(3)
    grid = {"partitions": 3} if channel else {"replicas": 3}
    wanted = [xs[2] - xs[0], xs[0] - xs[1], xs[1] - xs[2]]
    np.testing.assert_array_equal(on_grid(host, f, xs, **grid), wanted)
    again = xlapy.from_stablehlo(xlapy.export(f).serialize())
    np.testing.assert_array_equal(on_grid(host, again, xs, **grid), wanted)


def test_hlo_with_the_host(host):
    text = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), channel_id=3, is_host_transfer=true
  rd = (f32[2], token[]) recv-done(r), channel_id=3, is_host_transfer=true
  y = f32[2] get-tuple-element(rd), index=0
  u = token[] get-tuple-element(rd), index=1
  s = (f32[2], u32[], token[]) send(x, u), channel_id=4, is_host_transfer=true
  sd = token[] send-done(s), channel_id=4, is_host_transfer=true
  ROOT z = f32[2] add(y, x)
}"""
    xlapy.transfer_to_channel(np.float32([1, 2]), 3)
    found = xlapy.from_hlo(text)(np.float32([10, 20]), backend=host)
    np.testing.assert_array_equal(found.numpy(), [11, 22])
    assert xlapy.transfer_from_channel(4).tolist() == [10, 20]


START = "  s = (f32[2], u32[], token[]) send(x, t), channel_id=1\n"
HALVES = {
    "a send alone": START + "  ROOT z = f32[2] add(x, x)",
    "a send as the result": START.replace("  s", "  ROOT s"),
    "a send taken apart": START + "  ROOT z = f32[2] get-tuple-element(s), index=0",
    "a recv alone": "  r = (f32[2], u32[], token[]) recv(t), channel_id=1\n  ROOT z = f32[2] add(x, x)",
    "a recv of a tuple": "  r = ((f32[2], f32[2]), u32[], token[]) recv(t), channel_id=1\n"
    "  ROOT d = ((f32[2], f32[2]), token[]) recv-done(r), channel_id=1",
    "a send of a tuple": "  p = (f32[2], f32[2]) tuple(x, x)\n"
    "  s = ((f32[2], f32[2]), u32[], token[]) send(p, t), channel_id=1\n"
    "  ROOT d = token[] send-done(s), channel_id=1",
}


def test_what_xla_cannot_convert_is_refused():
    """XLA's conversion ends the process on these, so another process tries them."""
    head = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  t = token[] after-all()\n"
    script = f"""
import xlapy
for name, text in {HALVES!r}.items():
    try:
        xlapy.from_hlo({head!r} + text + "\\n}}")
    except xlapy.errors.UnsupportedOpError as error:
        assert "must be" in str(error)
        print(name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.split("\n")) == (0, [*HALVES, ""]), done.stderr


def test_xlas_own_text_of_a_program(host):
    """What XLA writes of a program is read as the same program."""

    def f(x):
        token = ops.send(x, 6, source_target_pairs=((0, 1), (1, 0)))
        return ops.recv("f32[2]", 6, source_target_pairs=((0, 1), (1, 0)), token=token)[0]

    with xlapy.use_backend("pjrt:cpu"):
        text = xlapy.compile(f).lower(xlapy.ones(2)).hlo_text
    xs = arrays(2)
    np.testing.assert_array_equal(on_grid(host, xlapy.from_hlo(text), xs, partitions=2), xs[::-1])


@pytest.mark.parametrize(
    ("call", "label"),
    [
        (lambda x: ops.send(x, 1.5), "X1"),
        (lambda x: ops.send(x, 2**63), "I4"),
        (lambda x: ops.send(x, 1, source_target_pairs=[(0.5, 1)]), "I3"),
        (lambda x: ops.send(x, 1, source_target_pairs=None), "I3"),
        (lambda x: ops.recv("f32[2]", 1, source_target_pairs=3), "I2"),
        (lambda x: ops.send(x, 1, source_target_pairs=[(0, 1, 2)]), "C1"),
        (lambda x: ops.send(x, 1, is_host_transfer=2), "I6"),
        (lambda x: ops.send(x, 1, token=x), "I2"),
        (lambda x: ops.recv("((f32[2]))", 1), "X1"),
        (lambda x: ops.send_done(x), "I1"),
        (lambda x: ops.recv_done(x), "I1"),
        (lambda x: ops.recv_done((x, x)), "I1"),
        (lambda x: xlapy.transfer_to_channel(x, "1"), "X1"),
        (lambda x: xlapy.transfer_from_channel(True), "X1"),
    ],
)
def test_wrong_calls(call, label):
    with pytest.raises(xlapy.errors.XlapyError, match=re.escape(f"[{label}]")):
        call(xlapy.ones(2))


def test_specs_are_of_what_goes_through():
    b = xlapy.XlaBuilder("main")
    x = b.parameter(0, "f32[2]")
    with b:
        data, token = ops.recv_done(ops.recv("(f32[2], s32[])", 1, token=ops.send(x, 2)))
    assert [d.spec for d in data] == [parse_spec("f32[2]"), parse_spec("s32[]")]
    assert token.spec == parse_spec("token[]")
