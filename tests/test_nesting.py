"""What lies in itself or deep in each other is refused: Python's stack and XLA's come to an end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import ArtifactError, ConstraintError, DTypeError, ShapeError, TracingError
from xlapy.specs import parse_spec
from xlapy.trace.computation import DEEPEST, Computation, Instruction, Value
from xlapy.trace.op import lookup
from xlapy.trace.verify import verify

X = np.array([1.0, 2.0], np.float32)
#: as deep as Python lets functions be that are recorded, with room for what runs the tests, and too deep for all
DEEP, TOO_DEEP = 60, DEEPEST + 20
LIMIT = rf"must not lie more than {DEEPEST} deep in each other; got 1\d\d "
MESSAGE = rf"{LIMIT}|must not lie deeper in each other than Python can call; got \d+"


@contextmanager
def unlimited() -> Iterator[None]:
    """Where a user has given Python all the stack that it wants."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def branches(depth: int) -> Callable[[Any], Any]:
    def within(x: Any, left: int) -> Any:
        if not left:
            return x + 1
        return xlapy.cond(xlapy.sum(x) < left + 5, lambda: within(x, left - 1) * 1, lambda: x)

    return lambda x: within(x, depth - 1)


def loops(depth: int) -> Callable[[Any], Any]:
    def within(x: Any, left: int) -> Any:
        if not left:
            return x + 1
        return xlapy.fori_loop(0, 1, lambda i, s: within(s, left - 1), x)

    return lambda x: within(x, depth - 1)


def calls(depth: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        return x + 1

    for _ in range(depth - 1):
        f = (lambda g: xlapy.compile(lambda x: g(x) * 1))(f)
    return f


def maps(depth: int) -> Callable[[Any], Any]:
    def within(x: Any, left: int) -> Any:
        return x + 1 if not left else xlapy.vmap(lambda y: within(y, left - 1), in_axes=0)(x)

    return lambda x: within(xlapy.reshape(x, (2, *[1] * (depth - 1))), depth - 1).reshape(2)


NESTS = {"branches": branches, "loops": loops, "calls": calls}
WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "recorded": lambda f: xlapy.compile(f).trace(X),
    "printed": lambda f: repr(xlapy.compile(f).trace(X)),
    "written": lambda f: xlapy.compile(f).lower(X).stablehlo_text,
    "hlo": lambda f: xlapy.compile(f).lower(X).hlo_text,
    "exported": lambda f: xlapy.export(f, "f32[2]").serialize(),
    "read": lambda f: xlapy.export(f, "f32[2]").load(),
    "interpreted": lambda f: xlapy.compile(f, backend="interpreter")(X),
    "gradient": lambda f: xlapy.compile(xlapy.grad(lambda x: xlapy.sum(f(x)))).trace(X),
    "tangent": lambda f: xlapy.compile(lambda x: xlapy.jvp(f, (x,), (x,))).trace(X),
    "rows": lambda f: xlapy.compile(xlapy.vmap(f)).trace(np.ones((3, 2), np.float32)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nest", NESTS)
def test_deep_programs(nest: str, way: str) -> None:
    WAYS[way](NESTS[nest](DEEP))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nest", NESTS)
def test_programs_that_are_too_deep(nest: str, way: str) -> None:
    for depth in (TOO_DEEP, 5 * TOO_DEEP):
        with refused(TracingError, MESSAGE):
            WAYS[way](NESTS[nest](depth))
        with unlimited(), refused(TracingError, LIMIT):
            WAYS[way](NESTS[nest](depth))


@pytest.mark.parametrize("nest", ["loops", "calls"])
def test_deep_programs_on_xla(nest: str) -> None:
    with unlimited():
        found = xlapy.compile(NESTS[nest](DEEPEST - 2), backend="pjrt:cpu")(X)
        assert found.tolist() == [2, 3]


def test_a_program_that_uses_up_the_stack_otherwise() -> None:
    """Far less deep than is allowed, but with many calls of Python in each."""

    def deeper(f: Callable[[], Any], frames: int) -> Any:
        return f() if not frames else deeper(f, frames - 1)

    def within(x: Any, left: int) -> Any:
        if not left:
            return x
        return deeper(lambda: xlapy.cond(x[0] > 0, lambda: within(x, left - 1), lambda: x), 40)

    with refused(TracingError, r"than Python can call; got \d\d "):
        xlapy.compile(lambda x: within(x, 60)).trace(X)


def test_a_function_that_calls_itself_is_pythons_matter() -> None:
    def f(x: Any) -> Any:
        return f(x)

    with pytest.raises(RecursionError):
        xlapy.compile(f).trace(X)
    with pytest.raises(RecursionError):
        xlapy.compile(lambda x: xlapy.cond(x[0] > 0, lambda: f(x), lambda: x)).trace(X)

    def without_end(x: Any) -> Any:
        return xlapy.cond(x[0] > 0, lambda: without_end(x), lambda: x)

    with refused(TracingError, MESSAGE):
        xlapy.compile(without_end).trace(X)


def called(depth: int) -> Computation:
    """A program made by hand, each calling the next."""
    spec = parse_spec("f32[2]")
    x = Value(spec)
    made = Computation([x], [], [x])
    for _ in range(depth - 1):
        x, y = Value(spec), Value(spec)
        made = Computation(
            [x], [Instruction(lookup("call"), (x,), {"computation": made}, (y,))], [y]
        )
    return made


def test_programs_are_verified_for_it() -> None:
    verify(called(DEEPEST))
    for depth in (DEEPEST + 1, 5 * DEEPEST, 5000):
        with refused(TracingError, LIMIT):
            verify(called(depth))
    inner = called(60)
    outer = xlapy.compile(lambda x: calls(50)(ops.call(inner, x)))
    with refused(TracingError, LIMIT):
        xlapy.compile(lambda x: nested_call(inner, x, 50)).lower(X).compile()
    assert outer(X).tolist() == [2, 3]


def nested_call(inner: Computation, x: Any, depth: int) -> Any:
    if not depth:
        return ops.call(inner, x)
    return xlapy.cond(x[0] > 0, lambda: nested_call(inner, x, depth - 1), lambda: x)


# --- programs that are read -----------------------------------------------------------------------------------------


def branches_in_text(depth: int) -> str:
    text = "func.func public @main(%a: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {\n"
    text += "".join(f'%r{i} = "stablehlo.if"(%p) ({{\n' for i in range(depth))
    found = "%a"
    for i in reversed(range(depth)):
        text += f'"stablehlo.return"({found}) : (tensor<f32>) -> ()\n}}, {{\n'
        text += '"stablehlo.return"(%a) : (tensor<f32>) -> ()\n}) : (tensor<i1>) -> tensor<f32>\n'
        found = f"%r{i}"
    return f"{text}func.return {found} : tensor<f32>\n}}"


def calls_in_text(depth: int) -> str:
    text = ""
    for i in range(depth):
        name = "public @main" if not i else f"private @f{i}"
        text += f"func.func {name}(%a: tensor<f32>) -> tensor<f32> {{\n"
        if i < depth - 1:
            text += f"%0 = func.call @f{i + 1}(%a) : (tensor<f32>) -> tensor<f32>\n"
        text += f"func.return {'%0' if i < depth - 1 else '%a'} : tensor<f32>\n}}\n"
    return text


def calls_in_hlo(depth: int) -> str:
    text = "HloModule m\n\n"
    for i in range(depth):
        name = "ENTRY %main" if i == depth - 1 else f"%f{i}"
        last = f"call(%p), to_apply=%f{i - 1}" if i else "add(%p, %p)"
        text += f"{name} (p: f32[]) -> f32[] {{\n  %p = f32[] parameter(0)\n  ROOT %r = f32[] {last}\n}}\n\n"
    return text


def tuples_in_text(depth: int) -> str:
    kind = "tuple<" * depth + "tensor<f32>" + ">" * depth
    return f"func.func public @main(%a: {kind}) -> {kind} {{\n  func.return %a : {kind}\n}}"


TEXTS: dict[str, tuple[Callable[[int], str], Callable[[str], Any]]] = {
    "branches": (branches_in_text, xlapy.from_stablehlo),
    "calls": (calls_in_text, xlapy.from_stablehlo),
    "hlo": (calls_in_hlo, xlapy.from_hlo),
    "tuples": (tuples_in_text, xlapy.from_stablehlo),
}


@pytest.mark.parametrize("name", TEXTS)
def test_deep_texts(name: str) -> None:
    write, read = TEXTS[name]
    assert repr(read(write(DEEPEST - 1)))
    wrong = (ArtifactError, ShapeError), r"must not (lie more than|be nested).*; got .*\[X\d\]"
    for depth in (DEEPEST + 2, 5 * DEEPEST, 3000):
        with pytest.raises(wrong[0], match=wrong[1]):
            read(write(depth))
        with unlimited(), pytest.raises(wrong[0], match=wrong[1]):
            read(write(depth))


def test_a_deep_text_is_differentiated_and_interpreted() -> None:
    for write in (branches_in_text, calls_in_text):
        f = xlapy.from_stablehlo(write(DEEP))
        more = [True] if write is branches_in_text else []
        with xlapy.use_backend("interpreter"):
            assert f(np.float32(3), *map(np.array, more)).item() == 3
            assert xlapy.grad(lambda x: f(x, *map(np.array, more)))(np.float32(3)).item() == 1  # noqa: B023


# --- containers and specs -------------------------------------------------------------------------------------------


def nested(depth: int, within: Callable[[Any], Any], leaf: Any = 1.0) -> Any:
    for _ in range(depth):
        leaf = within(leaf)
    return leaf


CONTAINERS = {
    "lists": lambda x: [x],
    "tuples": lambda x: (x,),
    "dicts": lambda x: {"a": x},
    "mixed": lambda x: [{"a": (x,)}],
}
TAKERS: dict[str, Callable[[Any], Any]] = {
    "compiled": lambda t: xlapy.compile(lambda t: 1)(t),
    "returned": lambda t: xlapy.compile(lambda x: t)(X),
    "gradient": lambda t: xlapy.grad(lambda t: xlapy.asarray(1.0))(t),
    "rows": lambda t: xlapy.vmap(lambda x, t: x, in_axes=(0, None))(X, t),
    "mapped": lambda t: xlapy.tree.map(lambda x: x, t),
    "branch": lambda t: xlapy.cond(True, lambda: t, lambda: t),
    "exported": lambda t: xlapy.export(lambda t: 1, t),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("name", CONTAINERS)
def test_deep_containers(name: str, taker: str) -> None:
    TAKERS[taker](nested(30, CONTAINERS[name]))
    with refused(ConstraintError, "nor lie deeper"):
        TAKERS[taker](nested(5000, CONTAINERS[name]))
    itself: list[Any] = [1.0]
    itself.append(itself)
    itself.append(itself)
    with refused(ConstraintError, "must not contain itself"):
        TAKERS[taker](nested(1, CONTAINERS[name], itself))


@pytest.mark.parametrize(
    "take", [xlapy.asarray, xlapy.sin, lambda t: xlapy.add(X, t), lambda t: xlapy.asarray(X)[t]]
)
def test_deep_lists_are_no_arrays(take: Callable[[Any], Any]) -> None:
    for depth in (70, 600, 5000):
        with refused((DTypeError, ShapeError, ConstraintError)):
            take(nested(depth, CONTAINERS["lists"], 1))
        with refused((DTypeError, ShapeError, ConstraintError)):
            take(nested(depth, lambda x: [1, x], 1))


def test_deep_tuples_have_no_spec() -> None:
    assert str(parse_spec("(" * 100 + "f32[]" + ")" * 100)).count("(") == 100
    for depth in (101, 600, 60_000):
        with refused(ShapeError, "tuples must not lie more than 100 deep"):
            parse_spec("(" * depth + "f32[]" + ")" * depth)

    def f(x: Any) -> Any:
        for _ in range(200):
            x = ops.tuple([x])
        return x

    with refused(ShapeError, "tuples must not lie more than 100 deep"):
        xlapy.compile(f).trace(X)
