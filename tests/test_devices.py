"""Tensors on one of several devices, and what is computed from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy.backends.interpreter import Interpreter
from xlapy.backends.pjrt import Pjrt
from xlapy.backends.registry import get_backend
from xlapy.errors import BackendError, UnsupportedOpError

KINDS: dict[str, Callable[[], Any]] = {
    "test-pjrt-4": lambda: Pjrt("cpu", num_devices=4),
    "test-interpreter-4": lambda: Interpreter(4),
}
for _name, _factory in KINDS.items():
    xlapy.register_backend(_name, _factory)


def on(device: Any, values: Any = (1.0, 2.0)) -> Any:
    return xlapy.asarray(np.array(values, np.float32), device=device)


def place(backend: str, number: int) -> Any:
    found = get_backend(backend)
    return found.placement_of(found.devices[number])


@pytest.fixture(params=KINDS)
def places(request: pytest.FixtureRequest) -> list[Any]:
    return [place(request.param, i) for i in range(4)]


def test_devices_are_listed_and_named() -> None:
    assert len(xlapy.devices("test-pjrt-4")) == 4
    assert xlapy.devices("test-interpreter-4") == [f"interpreter:{i}" for i in range(4)]


def test_tensors_are_made_on_a_device_of_any_backend() -> None:
    """Also of one that is not the current one."""
    for device in xlapy.devices("test-pjrt-4"):
        for x in (
            on(device),
            xlapy.zeros(2, device=device),
            xlapy.arange(2, device=device),
            xlapy.full((2,), 3, device=device),
            xlapy.asarray([1, 2]).to(device),
        ):
            assert x.device is device
            assert x.backend is get_backend("test-pjrt-4")


def test_tensors_move(places: list[Any]) -> None:
    x = on(places[2])
    for target in places:
        moved = x.to(target)
        assert moved.placement is target
        assert moved.tolist() == [1, 2]
    assert x.to(x.backend).placement is places[0]
    assert x.to(x.backend.devices[3]).placement is places[3]
    assert x.to("interpreter").backend.name == "interpreter"
    back = x.to("interpreter").to(places[2])
    assert (back.placement, back.tolist()) == (places[2], [1, 2])


def test_a_device_without_a_name_is_found_through_the_tensor() -> None:
    backend = Pjrt("cpu", num_devices=2)
    x = on(backend)
    assert x.to(backend.devices[1]).device is backend.devices[1]


FOLLOWING: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x + x * 2,
    "scalar": lambda x: 1.0 - x,
    "array": lambda x: x + np.ones(2, np.float32),
    "composite": lambda x: xlapy.softmax(x),
    "index": lambda x: x[1:],
    "update": lambda x: x.at[0].set(3.0),
    "zeros_like": xlapy.zeros_like,
    "stack": lambda x: xlapy.stack([x, x]),
    "compile": xlapy.compile(lambda x: x * 2),
    "closure": lambda x: xlapy.compile(lambda y: y * x)(x),
    "donated": lambda x: xlapy.compile(lambda y: y * 2, donate_argnames="y")(x + 1),
    "grad": xlapy.grad(lambda x: xlapy.sum(x * x)),
    "vjp": lambda x: xlapy.vjp(lambda y: y * y, x)[1](x)[0],
    "vmap": xlapy.vmap(lambda x: x * 2),
    "while": lambda x: xlapy.while_loop(lambda s: xlapy.sum(s) < 99.0, lambda s: s * 2, x),
    "imported": lambda x: xlapy.export(lambda y: y + 1, "f32[2]").load()(x),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_programs_follow_their_arguments(name: str, places: list[Any]) -> None:
    f = FOLLOWING[name]
    for target in (places[0], places[3]):
        found = f(on(target))
        assert found.placement is target
        np.testing.assert_allclose(np.asarray(found), np.asarray(f(on(None))), rtol=1e-6)


def test_a_compiled_function_has_a_program_for_each_device(places: list[Any]) -> None:
    f = xlapy.compile(lambda x: x + 1)
    for target in (*places, *places):
        assert f(on(target)).placement is target
    assert f.compiles == 4
    g = xlapy.compile(lambda x: x + 1, backend=places[0].backend)
    assert g(on(places[2])).placement is places[2]
    assert g(np.ones(2, np.float32)).placement is places[0]


MIXING: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda x, y: x + y,
    "composite": lambda x, y: xlapy.where(x > 0, x, y),
    "concat": lambda x, y: xlapy.concat([x, y]),
    "compile": xlapy.compile(lambda x, y: x * y),
    "container": lambda x, y: xlapy.compile(lambda p: p["x"] * p["y"])({"x": x, "y": y}),
    "closure": lambda x, y: xlapy.compile(lambda z: z * y)(x),
    "grad": lambda x, y: xlapy.grad(lambda x, y: xlapy.sum(x * y))(x, y),
    "vmap": lambda x, y: xlapy.vmap(lambda x, y: x * y)(x, y),
    "cotangent": lambda x, y: xlapy.vjp(lambda x: x * x, x)[1](y),
    "cond": lambda x, y: xlapy.cond(x[0] > 0, lambda: x, lambda: y),
    "imported": lambda x, y: xlapy.export(lambda x, y: x + y, "f32[2]", "f32[2]").load()(x, y),
}


@pytest.mark.parametrize("name", MIXING)
def test_data_never_moves_by_itself(name: str, places: list[Any]) -> None:
    for other in (places[2], place("test-pjrt-4", 3), get_backend("interpreter").placement):
        with pytest.raises(BackendError, match=r"must lie (on one device|where its arguments do)"):
            MIXING[name](on(places[1]), on(other))


@pytest.mark.parametrize("where", [7, "interpreter:4", object()])
def test_other_places_are_refused(where: Any) -> None:
    with pytest.raises(BackendError, match="a place must be a backend, its name or one of its dev"):
        on(None).to(where)


@pytest.mark.parametrize("name", ["in_shardings", "out_shardings"])
def test_shardings_are_not_passed_over(name: str) -> None:
    with pytest.raises(UnsupportedOpError, match=rf"compile: {name} must be None.*\[X5\]"):
        xlapy.compile(lambda x: x, **{name: "rows"})
    with pytest.raises(UnsupportedOpError, match=rf"compile: {name} must be None"):
        xlapy.compile(**{name: "rows"})(lambda x: x)
