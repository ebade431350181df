"""Making arrays."""

from __future__ import annotations

import copy
import fractions
import math
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import BACKENDS, check

import xlapy
from xlapy import rounding
from xlapy.dtypes import TABLE
from xlapy.errors import (
    BackendError,
    ConstraintError,
    DTypeError,
    ShapeError,
    TracingError,
    XlapyError,
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_from_data(backend: str) -> None:
    with xlapy.use_backend(backend):
        for data, dtype in (
            (1, "s32"), (0.5, "f32"), (True, "pred"), (1j, "c64"), ([1, 2], "s32"), ([1, 0.5], "f32"),
            ([[True], [False]], "pred"), ([1j, 1], "c64"), (np.arange(3), "s64"), (np.ones(2), "f64"),
            (np.float64(1), "f64"), (np.int8(1), "s8"), ([], "f32"), ([np.float64(1)], "f64"), ((1, 2), "s32"),
            (np.ones(2, ml_dtypes.bfloat16), "bf16"), (np.ones((2, 0), np.uint8), "u8"), ([[], []], "f32"),
        ):  # fmt: skip
            x = xlapy.asarray(data)
            assert str(x.dtype) == dtype, data
            assert x.shape == np.shape(data)
            np.testing.assert_array_equal(np.asarray(x), np.asarray(data))
            traced = xlapy.compile(lambda data=data: xlapy.asarray(data))()
            assert traced.spec is x.spec


@pytest.mark.parametrize("dtype", [d for d in TABLE if d.bits != 6], ids=str)
def test_every_element_type(dtype: Any) -> None:
    x = xlapy.asarray([1, 1], dtype)
    assert x.dtype is dtype
    assert xlapy.ones(2, dtype=dtype).dtype is dtype
    back = xlapy.asarray(np.asarray(x))
    assert back.dtype is dtype
    assert back.tolist() == x.tolist()
    assert repr(x).endswith(f"{dtype}[2])")


def test_data_is_copied() -> None:
    array = np.arange(4, dtype=np.float32)
    x = xlapy.asarray(array)
    array[0] = 99
    assert x.tolist() == [0, 1, 2, 3]
    y = xlapy.compile(lambda: xlapy.asarray(array))
    y()
    array[1] = 99
    assert y().tolist() == [99, 1, 2, 3]
    with pytest.raises(ConstraintError):
        xlapy.asarray(array, copy=False)
    assert xlapy.asarray(x, copy=False).tolist() == x.tolist()


def test_lists_of_tensors() -> None:
    x = xlapy.asarray([1.0, 2.0])
    assert xlapy.asarray([x, x * 2]).tolist() == [[1, 2], [2, 4]]
    assert xlapy.asarray([[x[0], 5], [6, x[1]]]).tolist() == [[1, 5], [6, 2]]
    assert xlapy.compile(lambda x: xlapy.asarray([x[0], 3, x[1]]))(x).tolist() == [1, 3, 2]


def test_conversion_of_data() -> None:
    assert xlapy.asarray([2**40], "s64").tolist() == [2**40]
    assert xlapy.asarray([1.7, -1.7], "s8").tolist() == [1, -1]
    assert xlapy.asarray(np.array([300]), "u8").tolist() == [44]
    assert xlapy.asarray([0.1], "f64").tolist() == [0.1]
    assert xlapy.asarray(xlapy.asarray([1, 2]), "f32").dtype == xlapy.float32
    assert xlapy.asarray(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]
    assert xlapy.asarray(2**64 - 1, "u64").item() == 2**64 - 1
    for data, dtype in (([300], "u8"), ([-1], "u32"), (2**40, None), ([2**31], None), (2**70, "s64"), ([1j], "f32"),
                        ("a", None), ([None], None), ({}, None), (["a"], "f32"), ([[1], [1, 2]], None),
                        (object(), "f32"),
                        (np.array(["a"]), None), (np.array([1j]), "f32"), ([[1], [1, 2]], "f32")):  # fmt: skip
        with pytest.raises(DTypeError):
            xlapy.asarray(data, dtype)


def test_other_protocols() -> None:
    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3)

    assert xlapy.asarray(Wrapped()).dtype == xlapy.int64
    assert xlapy.from_dlpack(np.arange(3, dtype=np.int16)).dtype == xlapy.int16
    x = xlapy.asarray([1.0, 2.0])
    np.testing.assert_array_equal(np.from_dlpack(x), [1, 2])
    assert xlapy.from_dlpack(x).tolist() == [1, 2]
    with pytest.raises(DTypeError):
        xlapy.from_dlpack([1])
    with pytest.raises(ConstraintError, match="must be copied"):
        xlapy.from_dlpack(np.arange(3), copy=False)
    for back in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        back[0] = 5
        assert (x.tolist(), back.tolist()) == ([1, 2], [5, 2])


def test_places() -> None:
    x = xlapy.asarray([1.0], device="interpreter")
    assert x.backend.name == "interpreter"
    y = x.to("pjrt:cpu")
    assert (y.backend.name, y.tolist()) == ("pjrt:cpu", [1])
    assert y.to(y.device).backend.name == "pjrt:cpu"
    assert y.to_device("interpreter").backend.name == "interpreter"
    assert x.to(y.backend).backend is y.backend
    assert xlapy.zeros(2, device="interpreter").backend.name == "interpreter"
    assert xlapy.zeros_like(x).backend.name == "interpreter"
    assert xlapy.full_like(x, 3).backend.name == "interpreter"
    assert (x + 1).backend.name == "interpreter"
    with pytest.raises(BackendError, match="one device"):
        x + y
    with pytest.raises(BackendError):
        x.to("nowhere")
    with pytest.raises(BackendError):
        x.to(3)
    with pytest.raises(TracingError):
        xlapy.compile(lambda x: x.to("interpreter"))(y)


def test_one_value() -> None:
    check(lambda: xlapy.zeros((2, 3)), np.zeros((2, 3), np.float32))
    check(lambda: xlapy.ones(3, dtype="s8"), np.ones(3, np.int8))
    check(lambda: xlapy.full((2, 2), 7), np.full((2, 2), 7, np.int32))
    check(lambda: xlapy.full(2, 0.5, dtype="f64"), np.full(2, 0.5))
    check(lambda: xlapy.full((2, 0), True), np.full((2, 0), True))
    check(lambda: xlapy.full((), -0.0), np.float32(-0.0))
    check(lambda: xlapy.full((2, 3), np.arange(3)), np.tile(np.arange(3), (2, 1)))
    check(
        lambda x: xlapy.full((2, 2), x[0]),
        np.full((2, 2), 5, np.float32),
        np.array([5], np.float32),
    )
    check(lambda x: xlapy.zeros_like(x), np.zeros(2, np.int16), np.ones(2, np.int16))
    check(lambda x: xlapy.ones_like(x, dtype="f32"), np.ones(2, np.float32), np.ones(2, np.int16))
    check(lambda x: xlapy.full_like(x, 3), np.full(2, 3, np.int16), np.ones(2, np.int16))
    check(lambda x: xlapy.empty_like(x), np.zeros(2, np.int16), np.ones(2, np.int16))
    assert xlapy.empty(3).shape == (3,)
    for shape in (-1, (2, -1), 1.5, "a", (2, 2.0)):
        with pytest.raises((ShapeError, DTypeError)):
            xlapy.zeros(shape)
    with pytest.raises(DTypeError):
        xlapy.full(2, 300, dtype="s8")
    with pytest.raises(TracingError):
        xlapy.compile(lambda n: xlapy.zeros(n))(3)


RANGES: list[tuple[Any, ...]] = [
    (5,), (1, 5), (5, 1), (5, 1, -1), (0, 10, 3), (10, 0, -3), (0,), (-3,), (2.5,), (0, 1, 0.25), (1, 0, -0.25),
    (np.int64(4),), (0.0, 3),
]  # fmt: skip


@pytest.mark.parametrize("arguments", RANGES, ids=str)
def test_ranges(arguments: tuple[Any, ...]) -> None:
    expected = np.arange(*arguments)
    expected = expected.astype(np.float32 if expected.dtype.kind == "f" else np.int32)
    check(lambda: xlapy.arange(*arguments), expected)
    check(lambda: xlapy.arange(*arguments, dtype="f64"), np.arange(*arguments).astype(np.float64))


def test_ranges_that_do_not_exist() -> None:
    assert xlapy.arange(3, dtype="u8").dtype == xlapy.uint8
    assert xlapy.arange(2**40, 2**40 + 2, dtype="s64").tolist() == [2**40, 2**40 + 1]
    assert xlapy.arange(3, dtype="bf16").tolist() == [0, 1, 2]
    for arguments, dtype in (((0, 5, 0), None), ((float("inf"),), None), ((float("nan"),), None)):
        with pytest.raises(ConstraintError):
            xlapy.arange(*arguments, dtype=dtype)
    for arguments, dtype in (
        ((300,), "u8"),
        ((1j,), None),
        ((True,), None),
        (("a",), None),
        ((3,), "pred"),
        ((2**40, 2**40 + 1), None),
    ):
        with pytest.raises(DTypeError):
            xlapy.arange(*arguments, dtype=dtype)
    with pytest.raises(TracingError):
        xlapy.compile(lambda n: xlapy.arange(n))(3)


def test_linear_spaces() -> None:
    for arguments in ((0, 1), (0, 1, 5), (1, -1, 4), (2, 3, 1), (2, 3, 0), (0.1, 0.3, 3)):
        expected = np.linspace(*arguments).astype(np.float32)
        check(lambda a=arguments: xlapy.linspace(*a), expected, rtol=1e-6)
        expected = np.linspace(*arguments, endpoint=False).astype(np.float32)
        check(lambda a=arguments: xlapy.linspace(*a, endpoint=False), expected, rtol=1e-6)
    check(lambda: xlapy.linspace(0, 1, 5, dtype="f64"), np.linspace(0, 1, 5))
    check(lambda: xlapy.linspace(0, 1j, 3), np.linspace(0, 1j, 3).astype(np.complex64))
    check(lambda x: xlapy.linspace(x, 2.0, 3), np.array([1, 1.5, 2], np.float32), np.float32(1))
    ends = np.asarray(xlapy.compile(lambda: xlapy.linspace(0.1, 0.7, 33))())
    assert ends[-1] == np.float32(0.7)
    with pytest.raises(ConstraintError):
        xlapy.linspace(0, 1, -1)


def test_matrices() -> None:
    for k in (-3, -1, 0, 1, 2, 5):
        check(lambda k=k: xlapy.eye(2, 3, k=k), np.eye(2, 3, k, np.float32))
        check(lambda k=k: xlapy.tri(3, 2, k), np.tri(3, 2, k, np.float32))
        x = np.arange(12, dtype=np.int32).reshape(2, 2, 3)
        check(lambda x, k=k: xlapy.tril(x, k=k), np.tril(x, k), x)
        check(lambda x, k=k: xlapy.triu(x, k=k), np.triu(x, k), x)
    check(lambda: xlapy.eye(3, dtype="s8"), np.eye(3, dtype=np.int8))
    check(lambda: xlapy.identity(2), np.eye(2, dtype=np.float32))
    with pytest.raises(ShapeError):
        xlapy.tril(xlapy.ones(3))


def test_grids() -> None:
    x, y, z = (
        np.arange(2, dtype=np.int32),
        np.arange(3, dtype=np.float32),
        np.arange(4, dtype=np.int32),
    )
    for indexing in ("xy", "ij"):
        expected = [g.astype(np.float32) for g in np.meshgrid(x, y, z, indexing=indexing)]
        check(lambda x, y, z, i=indexing: xlapy.meshgrid(x, y, z, indexing=i), expected, x, y, z)
    check(lambda x: xlapy.meshgrid(x, x), np.meshgrid(x, x), x)
    check(lambda x: xlapy.meshgrid(x), [x], x)
    assert xlapy.meshgrid() == []
    with pytest.raises(ShapeError):
        xlapy.meshgrid(xlapy.ones((2, 2)))
    with pytest.raises(ConstraintError):
        xlapy.meshgrid(xlapy.ones(2), indexing="a")


def test_eager_creation_compiles_nothing() -> None:
    backend = xlapy.zeros(1).backend
    before = backend.compiles + backend.loads
    for n in range(1, 30):
        (
            xlapy.zeros(n),
            xlapy.ones((n, 2)),
            xlapy.full(n, 3),
            xlapy.arange(n),
            xlapy.eye(n),
            xlapy.linspace(0, 1, n),
        )
        xlapy.asarray(list(range(n)))
    assert backend.compiles + backend.loads == before


def test_conversion() -> None:
    x = np.array([-1.7, 0.0, 1.7, 100.0], np.float32)
    check(lambda x: x.astype("s32"), x.astype(np.int32), x)
    check(lambda x: xlapy.astype(x, bool), x.astype(bool), x)
    check(lambda x: xlapy.astype(x, "bf16"), x.astype(ml_dtypes.bfloat16), x)
    check(lambda x: xlapy.astype(x, np.complex64), x.astype(np.complex64), x)
    check(lambda: xlapy.astype(3, "f64"), np.float64(3))
    check(lambda: xlapy.astype(0.1, "f64"), np.float64(0.1))
    check(lambda: xlapy.astype(2**40, "s64"), np.int64(2**40))
    with pytest.raises(DTypeError, match="real"):
        xlapy.astype(xlapy.asarray([1j]), "f32")
    with pytest.raises(DTypeError):
        xlapy.asarray([1]).astype("strange")


RANGES: list[tuple[Any, Any, Any, Any]] = [
    (0, 1, 0.1, None), (0.5, 700, 0.7, "bf16"), (0, 300, 1, "bf16"), (10, 0, -3, "u8"), (-100, 101, 200, "s8"),
    (0, 2**60 + 1, 2**59, "s64"), (2**31 - 3, 2**31, 1, "u32"), (0, 5, 1e30, "s8"), (1e30, 0, 1, "f32"),
    (0, 20000, 0.5, "f32"), (2**24 - 1, 2**24 + 4, 1, "f32"), (2**40, 2**40 + 3, 1, "f64"), (3, 0, 1, "s32"),
    (2**63, 2**63 + 3, 1, "u64"), (-3, 3, 2, "f16"), (0, -20000, -1, "f16"),
]  # fmt: skip


@pytest.mark.parametrize("start, stop, step, dtype", RANGES)
def test_ranges_are_the_same_in_a_trace(start: Any, stop: Any, step: Any, dtype: Any) -> None:
    count = max(
        0,
        math.ceil(
            (fractions.Fraction(stop) - fractions.Fraction(start)) / fractions.Fraction(step)
        ),
    )
    values = [start + i * step for i in range(count)]
    kind = xlapy.zeros(0, dtype=dtype).dtype.numpy
    wide = np.array(values, object if np.dtype(kind).kind in "iu" else None)
    expected = rounding.astype(wide, kind)  # ml_dtypes would round twice
    check(lambda: xlapy.arange(start, stop, step, dtype=dtype), expected)


@pytest.mark.parametrize(
    "arguments", [(0, 1, 7), (-2, 3, 4), (0, 1j, 3), (0.1, 0.7, 20000), (5, 5, 1), (1, 2, 0)]
)
@pytest.mark.parametrize("endpoint", [True, False])
def test_spaces_are_the_same_in_a_trace(arguments: Any, endpoint: bool) -> None:
    expected = np.linspace(*arguments, endpoint=endpoint)
    kind = np.complex64 if expected.dtype.kind == "c" else np.float32
    check(lambda: xlapy.linspace(*arguments, endpoint=endpoint), expected.astype(kind))


def test_integers_of_a_space_are_rounded_down() -> None:
    for dtype in ("s8", "s64"):
        kind = xlapy.zeros(0, dtype=dtype).dtype.numpy
        check(lambda d=dtype: xlapy.linspace(-2, 3, 4, dtype=d), np.linspace(-2, 3, 4, dtype=kind))
        check(
            lambda a, d=dtype: xlapy.linspace(a, 3.0, 4, dtype=d),
            np.linspace(-2, 3, 4, dtype=kind),
            np.float32(-2),
        )


WRONG_RANGES: list[tuple[type, Callable[[], Any]]] = [
    (DTypeError, lambda: xlapy.linspace(0, 300, 3, dtype="s8")),
    (DTypeError, lambda: xlapy.linspace(0, 1j, 3, dtype="f32")),
    (ConstraintError, lambda: xlapy.linspace(0, float("inf"), 3, dtype="s32")),
    (ConstraintError, lambda: xlapy.linspace(0, 2**5000, 3)),
    (ConstraintError, lambda: xlapy.arange(0, 2**5000, 2**4999, dtype="f64")),
    (ConstraintError, lambda: xlapy.arange(0.0, 2**5000)),
    (XlapyError, lambda: xlapy.arange(10**30, dtype="f32")),
    (DTypeError, lambda: xlapy.arange(0, 300, 100, dtype="u8") + xlapy.arange(-1, 2, dtype="u8")),
]


@pytest.mark.parametrize("error, function", WRONG_RANGES, ids=range(len(WRONG_RANGES)))
def test_ranges_that_there_are_not(error: type, function: Callable[[], Any]) -> None:
    for way in (function, xlapy.compile(function)):
        with pytest.raises(error, match=r"; got .*\[\w+\]"):
            way()


def test_wrong_ends_are_shown_once() -> None:
    with pytest.raises(ConstraintError, match=r"^linspace: start and stop .*got \(0.0, inf\)"):
        xlapy.linspace(0, float("inf"), 3, dtype="s32")
    with pytest.raises(ShapeError, match=r"^linspace: start and stop must be scalars"):
        xlapy.linspace(xlapy.ones(3), 1.0, 3)


NUMBERS = [
    0.0,
    -0.0,
    1.7,
    -1.7,
    127.5,
    128,
    255.9,
    256,
    -129,
    3e9,
    -3e9,
    1e19,
    -1e19,
    1e30,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize("to", ["pred", "s4", "s8", "u8", "s16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("given", ["f16", "bf16", "f32", "f64", "list"])
def test_data_is_converted_as_astype_does_it(given: str, to: str) -> None:
    with np.errstate(all="ignore"):
        array = np.array(NUMBERS).astype(
            xlapy.zeros(0, dtype="f64" if given == "list" else given).dtype.numpy
        )
    data: Any = array.tolist() if given == "list" else array
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            expected = xlapy.asarray(array).astype(to).numpy()
            for found in (
                xlapy.asarray(data, dtype=to),
                xlapy.compile(lambda: xlapy.asarray(data, dtype=to))(),
                xlapy.full((len(NUMBERS),), data, dtype=to),
            ):
                np.testing.assert_array_equal(found.numpy(), expected)


def test_complex_numbers_are_true_where_they_are_not_0() -> None:
    z = np.array([0, 1j, 1, -0.0j], np.complex64)
    for found in (
        xlapy.asarray(z, "pred"),
        xlapy.asarray(z.tolist(), "pred"),
        xlapy.asarray(z).astype("pred"),
    ):
        assert found.tolist() == [False, True, True, False]
    with pytest.raises(DTypeError, match="must not become real"):
        xlapy.ops.constant(1j, "f32")
    with pytest.raises(DTypeError, match="must fit"):
        xlapy.ops.constant(300, "s8")


def test_what_other_libraries_are_given() -> None:
    x = xlapy.asarray([1.0, 2.0])
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 7
    assert x.tolist() == [1, 2]
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(BufferError, match="on the host"):
        x.__dlpack__(dl_device=(2, 0))

    class Narrow:
        """An array of a type that numpy does not read by DLPack."""

        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError

        def __dlpack_device__(self) -> Any:
            return 1, 0

    class Readable(Narrow):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(2, ml_dtypes.bfloat16)

    assert str(xlapy.from_dlpack(Readable()).dtype) == "bf16"
    with pytest.raises(DTypeError, match=r"on the host; got .*\[X1\]"):
        xlapy.from_dlpack(Narrow())
