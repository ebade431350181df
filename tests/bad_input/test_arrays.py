"""Arrays of every make: the right values come in by every way, and the array is left as it was."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import DTypeError

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


class Subclass(np.ndarray):
    pass


def _read_only() -> np.ndarray:
    array = VALUES.copy()
    array.flags.writeable = False
    return array


def _unaligned(dtype: str = "<f4") -> np.ndarray:
    array = np.frombuffer(b"\0" + VALUES.astype(dtype).tobytes(), np.uint8)[1:].view(dtype)
    assert not array.flags.aligned
    return array.reshape(3, 4)


def _field(dtype: str) -> np.ndarray:
    records = np.zeros((3, 4), [("p", "u1"), ("v", dtype)])
    records["v"] = VALUES
    return records["v"]


def _strided() -> np.ndarray:
    wide = np.zeros((6, 8), np.float32)
    wide[::2, ::2] = VALUES
    return wide[::2, ::2]


ARRAYS: dict[str, Callable[[], np.ndarray]] = {
    "read-only": _read_only,
    "negative strides": lambda: VALUES[::-1, ::-1].copy()[::-1, ::-1],
    "Fortran order": lambda: np.asfortranarray(VALUES),
    "unaligned": _unaligned,
    "a field of records": lambda: _field("<f4"),
    "a big-endian field": lambda: _field(">f4"),
    "big-endian": lambda: VALUES.astype(">f4"),
    "big-endian, Fortran order": lambda: np.asfortranarray(VALUES.astype(">f4")),
    "big-endian, unaligned": lambda: _unaligned(">f4"),
    "strided": _strided,
    "a subclass": lambda: VALUES.view(Subclass),
    "a matrix": lambda: VALUES.view(np.matrix),
    "records": lambda: VALUES.view(np.recarray),
    "masked": lambda: np.ma.masked_array(VALUES),
}

WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "asarray": xlapy.asarray,
    "with an element type": lambda a: xlapy.asarray(a, dtype="f32"),
    "beside a tensor": lambda a: xlapy.zeros((3, 4)) + a,
    "before a tensor": lambda a: a + xlapy.zeros((3, 4)),
    "an operation": lambda a: ops.add(xlapy.zeros((3, 4)), a),
    "compiled": lambda a: xlapy.compile(lambda x: x * 1)(a),
    "in a container": lambda a: xlapy.compile(lambda x: x["k"][0] * 1)({"k": [a]}),
    "lowered": lambda a: xlapy.compile(lambda x: x * 1).lower(a).compile()(a),
    "closed over": lambda a: xlapy.compile(lambda x: x * 0 + a)(np.float32(0)),
    "returned": lambda a: xlapy.compile(lambda: a)(),
    "in a builder": lambda a: _built(a).instructions[0].params["value"],
    "exported": lambda a: xlapy.export(lambda x: x * 0 + a, "f32[3,4]").load()(VALUES),
    "grad": lambda a: xlapy.grad(lambda x: xlapy.sum(x * x / 2))(a),
    "vjp": lambda a: xlapy.vjp(lambda x: x * 1, a)[1](a)[0],
    "jvp": lambda a: xlapy.jvp(lambda x: x * 1, (a,), (a,))[1],
    "vmap": lambda a: xlapy.vmap(lambda r: r * 1)(a),
    "a loop": lambda a: xlapy.fori_loop(0, 2, lambda i, c: c * 1, a),
    "a branch": lambda a: xlapy.cond(True, lambda c: c * 1, lambda c: c, a),
    "an update": lambda a: xlapy.zeros((3, 4)).at[:].set(a),
    "parts": lambda a: xlapy.concatenate([a[:1], a[1:]]),
    "replicated": lambda a: xlapy.replicate(lambda x: x * 1, num_replicas=3, backend="interpreter")(
        a
    ),
}


def _built(a: np.ndarray) -> Any:
    b = xlapy.XlaBuilder("constant")
    return b.build(ops.add(b.parameter(0, "f32[3,4]"), a))


@pytest.mark.parametrize("backend", ["pjrt:cpu", "interpreter"])
@pytest.mark.parametrize("make", ARRAYS)
def test_every_make_by_every_way(make: str, backend: str) -> None:
    with xlapy.use_backend(backend):
        for name, way in WAYS.items():
            given = ARRAYS[make]()
            before = given.tobytes()
            found = np.asarray(way(given))
            assert found.dtype == np.float32, name
            assert found.dtype.isnative, name
            np.testing.assert_array_equal(found, VALUES, err_msg=name, strict=True)
            assert given.tobytes() == before, name


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", ">i8", ">u2", ">c8", ">f2", ">c16", ">i2"])
def test_big_endian_scalars(dtype: str) -> None:
    native = np.dtype(dtype).newbyteorder("=")
    for given in (np.array(3, dtype), np.array(3, dtype)[()], np.array([3], dtype)):
        for found in (
            xlapy.asarray(given),
            xlapy.compile(lambda x: x)(given),
            xlapy.compile(lambda given=given: xlapy.asarray(given))(),
            xlapy.full(given.shape, given),
            xlapy.full(given.shape, 3, dtype=given.dtype),
            xlapy.zeros(given.shape, dtype=dtype) + given,
            xlapy.compile(lambda x, given=given: x + given)(np.zeros(given.shape, dtype)),
        ):
            assert found.numpy().dtype == native
            assert found.numpy().dtype.isnative
            assert complex(found) == 3
        assert xlapy.TensorSpec((), dtype).dtype.numpy == native


@pytest.mark.parametrize("backend", ["pjrt:cpu", "interpreter"])
def test_later_changes_to_the_array_are_not_seen(backend: str) -> None:
    with xlapy.use_backend(backend):
        array = np.ones(10000, np.float32)
        identity, closed = xlapy.compile(lambda x: x), xlapy.compile(lambda: xlapy.asarray(array))
        kept = [xlapy.asarray(array), identity(array), identity([array])[0], closed()]
        array[:] = 7
        for tensor in kept:
            assert xlapy.min(tensor).item() == xlapy.max(tensor).item() == 1


@pytest.mark.parametrize("backend", ["pjrt:cpu", "interpreter"])
def test_what_comes_out_cannot_be_written_to(backend: str) -> None:
    with xlapy.use_backend(backend):
        x = xlapy.asarray(VALUES)
        for found in (x.numpy(), np.asarray(x), (x + 1).numpy(), x[0].numpy(), x.T.numpy()):
            with pytest.raises(ValueError, match="read-only"):
                found[...] = 0
        copied = np.array(x)
        copied[...] = 0
        np.testing.assert_array_equal(x.numpy(), VALUES)


def test_broadcast_views_are_taken_as_they_look() -> None:
    view = np.broadcast_to(np.float32(2), (100, 100))
    assert xlapy.sum(xlapy.compile(lambda x: x * 2)(view)).item() == 40000
    assert xlapy.sum(xlapy.asarray(view)).item() == 20000


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 5), ()])
@pytest.mark.parametrize("backend", ["pjrt:cpu", "interpreter"])
def test_empty_arrays_and_rank_0(shape: tuple[int, ...], backend: str) -> None:
    with xlapy.use_backend(backend):
        x = np.zeros(shape, np.float32)
        assert xlapy.compile(lambda x: xlapy.sin(x) * 2)(x).shape == shape
        assert xlapy.sum(xlapy.asarray(x)).item() == 0
        assert xlapy.grad(lambda x: xlapy.sum(x * x))(x).shape == shape
        assert xlapy.sort(xlapy.asarray(np.zeros((*shape, 2)))).shape == (*shape, 2)
        if not x.size:
            with refused():
                xlapy.max(xlapy.asarray(x))


def test_a_masked_array_with_masked_elements_is_refused() -> None:
    masked = np.ma.masked_array(VALUES, mask=VALUES > 5)
    for way in (xlapy.asarray, xlapy.compile(lambda x: x), lambda a: xlapy.ones((3, 4)) + a):
        with refused(DTypeError, "masked"):
            way(masked)
