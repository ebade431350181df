"""What is no array: every way in refuses it, in the documented form."""

import array
import datetime
import decimal
import enum
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import check_form, refused

import xlapy
from xlapy import ops
from xlapy.errors import BackendError, DTypeError, ShapeError, XlapyError

X = np.ones(3, np.float32)

NO_ARRAYS: dict[str, Callable[[], Any]] = {
    "text": lambda: "abc",
    "bytes": lambda: b"abc",
    "objects": lambda: np.array([object()], object),
    "texts": lambda: np.array(["a", "b"]),
    "dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "duration": lambda: np.timedelta64(3, "s"),
    "date": lambda: datetime.date(2020, 1, 1),
    "set": lambda: {1, 2},
    "generator": lambda: (i for i in range(3)),
    "range": lambda: range(3),
    "function": lambda: len,
    "class": lambda: int,
    "structured": lambda: np.zeros(3, [("a", "<f4")]),
    "structured, big-endian": lambda: np.zeros((), [("a", ">f4")]),
    "void": lambda: np.void(b"abc"),
    "extended precision": lambda: np.zeros(3, np.longdouble),
    "extended complex": lambda: np.zeros(3, np.clongdouble),
    "memory": lambda: memoryview(b"abc"),
    "typed array": lambda: array.array("f", [1, 2]),
    "decimal": lambda: decimal.Decimal("1.5"),
    "fraction": lambda: fractions.Fraction(1, 2),
    "ellipsis": lambda: ...,
    "slice": lambda: slice(1),
}

WAYS_IN: dict[str, Callable[[Any], Any]] = {
    "asarray": xlapy.asarray,
    "a numpy-like function": xlapy.sin,
    "an operation": ops.sin,
    "the second operand": lambda b: ops.add(xlapy.asarray(X), b),
    "a compiled function": lambda b: xlapy.compile(lambda x: x)(b),
    "a container": lambda b: xlapy.compile(lambda x: x)({"a": [b]}),
    "a traced operand": lambda b: xlapy.compile(lambda x: ops.add(x, b))(X),
    "a result": lambda b: xlapy.compile(lambda x: b)(X),
    "grad": lambda b: xlapy.grad(lambda x: xlapy.sum(x))(b),
    "vmap": lambda b: xlapy.vmap(lambda x: x)(b),
    "vjp": lambda b: xlapy.vjp(lambda x: x, b),
    "where": lambda b: xlapy.where(True, X, b),
    "full": lambda b: xlapy.full((2,), b),
    "cond": lambda b: xlapy.cond(b, lambda: 1.0, lambda: 2.0),
    "an index": lambda b: xlapy.asarray(X)[b],
    "an axis": lambda b: xlapy.sum(X, axis=b),
    "a bound": lambda b: xlapy.fori_loop(0, b, lambda i, x: x, X),
    "a backend": lambda b: xlapy.compile(lambda x: x, backend=b)(X),
    "an element type": lambda b: xlapy.zeros(2, dtype=b),
}
# What numpy means by these there is meant here, too.
ALLOWED = {
    ("an index", "ellipsis"), ("an index", "slice"), ("an index", "range"), ("an index", "typed array"),
    ("an index", "memory"), ("an element type", "class"), ("an axis", "generator"), ("an axis", "range"),
    ("an element type", "extended precision"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS_IN)
def test_what_is_no_array_is_refused(way: str) -> None:
    for name, make in NO_ARRAYS.items():
        if (way, name) in ALLOWED:
            continue
        try:
            found = WAYS_IN[way](make())
        except XlapyError as error:
            check_form(error)
        else:
            pytest.fail(f"{name} was taken: {found!r}")


@pytest.mark.parametrize("other", ["a", b"a", None, {1}, [None], {}, datetime.date(2020, 1, 1)])
def test_operators_leave_the_answer_to_python(other: Any) -> None:
    x = xlapy.asarray(X)
    with pytest.raises(TypeError):
        x + other
    with pytest.raises(TypeError):
        other - x


def test_ragged_lists() -> None:
    with refused(XlapyError, "equal lengths"):
        xlapy.asarray([[1, 2], [3]])
    with refused(XlapyError, "equal lengths"):
        ops.sin([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize(
    "shape",
    [
        "abc",
        b"abc",
        {1, 2},
        {1: 2},
        1.5,
        [2.0],
        [None],
        None,
        np.ones(2),
        True,
        [[1]],
        object(),
        -1,
    ],
    # An object's own text has its address, and processes that test side by side must name the tests alike.
    ids=lambda shape: "object" if type(shape) is object else repr(shape),
)
def test_shapes(shape: Any) -> None:
    for make in (xlapy.zeros, xlapy.empty, lambda s: xlapy.reshape(X, s)):
        if type(shape) is int and make not in (xlapy.zeros, xlapy.empty):
            continue  # "what is left", for reshape
        with refused():
            make(shape)


# --- Python's numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63, 2**100, -(2**70)])
def test_integers_that_do_not_fit(number: int) -> None:
    with refused(DTypeError, "must fit"):
        xlapy.asarray(np.ones(3, np.int32)) + number
    with refused(DTypeError, "must fit"):
        xlapy.compile(lambda x: x + number)(np.ones(3, np.int32))
    with refused(DTypeError, "must fit"):
        xlapy.compile(lambda x, n: x + n)(np.ones(3, np.int32), number)
    # Beside floats it is a float, as for numpy.
    assert float((xlapy.asarray(np.float64(0)) + number).item()) == float(number)


def test_enumerations_and_truth_values_count_as_what_they_are() -> None:
    member = enum.IntEnum("Kind", "A").A  # type: ignore[attr-defined]
    assert ops.add(xlapy.asarray(X), member).tolist() == [2, 2, 2]
    assert (xlapy.asarray(X) + np.bool_(True)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("backend", ["pjrt:cpu", "interpreter"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_special_numbers_come_through(value: float, backend: str) -> None:
    with xlapy.use_backend(backend):
        given = np.float32(value)
        for found in (
            xlapy.asarray(value),
            xlapy.compile(lambda x: x)(given),
            xlapy.compile(lambda: xlapy.asarray(value))(),
            xlapy.full((), value),
        ):
            assert found.numpy().tobytes() == given.tobytes()
        assert np.isnan(xlapy.max(xlapy.asarray([1.0, np.nan])).item())


def test_huge_numbers_are_infinite_where_the_type_is_too_small() -> None:
    assert np.isinf((xlapy.asarray(X) * 1e300).numpy()).all()
    with pytest.raises(OverflowError):
        float(2**5000)
    with refused(DTypeError):
        xlapy.asarray(2**5000)


# --- places -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["nowhere", "pjrt:", 3, [1], np.ones(2), {1}])
def test_places(place: Any) -> None:
    with refused(BackendError, "must be"), xlapy.use_backend(place):
        pass
    with refused(BackendError, "must be"):
        xlapy.compile(lambda x: x, backend=place)(X)
    with refused(BackendError, "must be"):
        xlapy.asarray(X).to(place)


def test_operands_of_two_backends() -> None:
    here, there = xlapy.asarray(X), xlapy.asarray(X).to("interpreter")
    for attempt in (
        lambda: here + there,
        lambda: ops.add(here, there),
        lambda: xlapy.concatenate([here, there]),
        lambda: xlapy.compile(lambda x, y: x + y)(here, there),
        lambda: xlapy.compile(lambda x: x + there)(here),
        lambda: xlapy.grad(lambda x: xlapy.sum(x * there))(here),
        lambda: xlapy.vmap(lambda x, y: x * y)(here, there),
        lambda: xlapy.where(here > 0, here, there),
        lambda: here.at[0].set(there[0]),
        lambda: xlapy.cond(True, lambda x: x, lambda x: x * there, here),
    ):
        with refused(BackendError, "must lie"):
            attempt()
    both = xlapy.compile(lambda x, y: x + y, backend="interpreter")(here, there)
    assert both.backend.name == "interpreter"


# --- wrong shapes and element types --------------------------------------------------------------------------------


def test_shapes_that_do_not_meet() -> None:
    a, b = xlapy.ones((2, 3)), xlapy.ones((4, 3))
    for attempt in (
        lambda: a + b,
        lambda: ops.add(a, b),
        lambda: a @ b,
        lambda: xlapy.concatenate([a, xlapy.ones((2, 2, 2))]),
        lambda: xlapy.stack([a, b]),
        lambda: xlapy.reshape(a, (4, 2)),
        lambda: xlapy.broadcast_to(a, (3, 3)),
        lambda: a.at[0].set(xlapy.ones(4)),
        lambda: xlapy.transpose(a, (0, 0)),
        lambda: xlapy.sum(a, axis=2),
        lambda: a[2],
        lambda: a[0, 0, 0],
        lambda: a.item(),
        lambda: bool(a),
    ):
        with refused(ShapeError):
            attempt()


def test_element_types_that_do_not_meet() -> None:
    f, s = xlapy.ones(3), xlapy.ones(3, dtype="s32")
    for attempt in (
        lambda: ops.add(f, s),
        lambda: ops.sin(s),
        lambda: ops.select(f, f, f),
        lambda: xlapy.cond(1, lambda: f, lambda: f),
        lambda: f & f,
        lambda: xlapy.asarray(np.ones(3, np.int64)) + xlapy.asarray(np.ones(3, np.uint64)),
        lambda: f[f],
        lambda: xlapy.fori_loop(np.int8(0), np.int64(3), lambda i, x: x, f),
    ):
        with refused(DTypeError):
            attempt()


def test_errors_name_the_operation() -> None:
    x = xlapy.asarray(X)
    for name, attempt in (
        ("sin", lambda: xlapy.sin("a")),
        ("sin", lambda: ops.sin("a")),
        ("add", lambda: ops.add(x, "a")),
        ("add", lambda: xlapy.compile(lambda x: ops.add(x, "a"))(x)),
        ("add", lambda: xlapy.compile(lambda x: xlapy.add(x, "a"))(x)),
        ("sum", lambda: xlapy.sum(len)),
        ("concatenate", lambda: xlapy.concatenate(["a"])),
        ("asarray", lambda: xlapy.asarray("a")),
        ("f", lambda: xlapy.compile(f)("a")),
        ("f", lambda: xlapy.compile(f)({"k": ["a"]})),
    ):
        with refused(DTypeError, rf"^{name}: "):
            attempt()


def f(x: Any) -> Any:
    return x


@pytest.mark.parametrize("number", [2**5000, -(2**20000)], ids=["long", "too long to be written"])
@pytest.mark.parametrize("dtype", ["pred", "s8", "f32", "f64", "c64"])
def test_integers_that_no_float_holds(number: int, dtype: str) -> None:
    x = xlapy.ones(3, dtype=dtype)
    functions: dict[str, Callable[[Any], Any]] = {
        "a sum": lambda x: x + number,
        "a difference": lambda x: number - x,
        "a function to floats": lambda x: xlapy.sin(number),
        "a choice": lambda x: xlapy.where(x == x, number, x),
        "an update": lambda x: x.at[0].set(number),
        "an operation": lambda x: ops.select(x == x, number, x),
        "full": lambda x: xlapy.full_like(x, number),
        "an index": lambda x: x[number],
        "an index in a list": lambda x: x[[number]],
        "a size": lambda x: xlapy.zeros(number),
        "an axis": lambda x: xlapy.sum(x, axis=number),
        "a seed": lambda x: xlapy.random.key(number),
        "a bound": lambda x: xlapy.fori_loop(0, number, lambda i, c: c, x),
        "an exponent": lambda x: (x + 1) ** number,
    }
    for name, f in functions.items():
        for way in (f, xlapy.compile(f)):
            with pytest.raises(XlapyError) as found:
                way(x)
            assert len(str(found.value)) < 2500, name
    with refused(DTypeError, "must fit"):
        xlapy.compile(lambda x, n: x * n)(x, number)
    # A comparison with integers is decided by the sign.
    if dtype == "s8":
        assert (x < number).tolist() == [number > 0] * 3
    assert len(x[number if number < 0 else 0 :].tolist()) == 3
