"""Compiled methods: what an object holds is seen when it changes, however deep it lies."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy
from xlapy.errors import BackendError, DTypeError, TracingError

ONE = np.float32(1)
# Longer than what numpy prints, and different in the middle only.
FIRST = np.ones(5000, np.float32)
SECOND = FIRST.copy()
SECOND[2500] = 100


class Layer:
    def __init__(self, weight, gain=1.0):
        self.weight = xlapy.asarray(weight)
        self.gain = gain


class Model:
    """Tensors as attributes, beside numbers in containers, and in objects, one of them twice."""

    def __init__(self):
        self.weight = xlapy.asarray(FIRST)
        self.settings = {"scale": 2.0, "weight": xlapy.asarray(FIRST)}
        self.layer = Layer(FIRST)
        self.layers = [Layer(FIRST), self.layer, None]
        self.model = self  # a cycle

    @xlapy.compile
    def total(self, x):
        parts = (self.weight, self.settings["weight"], self.layer.weight, self.layers[0].weight)
        return x * self.layer.gain * self.settings["scale"] * sum(xlapy.sum(p) for p in parts)

    @xlapy.compile(static_argnames="times")
    def repeated(self, x, times=1):
        for _ in range(times):
            x = x + xlapy.max(self.layer.weight)
        return x

    @xlapy.compile(donate_argnames="x")
    def donating(self, x, y):
        return x + y

    @xlapy.compile
    def assigning(self, x):
        self.layer.weight = x
        return x


@pytest.mark.parametrize("place", ["attribute", "container", "object", "list"])
def test_another_tensor_is_seen(place):
    model = Model()
    before = model.total(ONE)
    second = xlapy.asarray(SECOND)
    if place == "attribute":
        model.weight = second
    elif place == "container":
        model.settings = {"scale": 2.0, "weight": second}
    elif place == "object":
        model.layer.weight = second
    else:
        model.layers[0].weight = second
    assert float(model.total(ONE)) - float(before) == 2 * 99
    assert Model.total.traces >= 1


class Slotted:
    """Without a `__dict__`, at the top and below."""

    __slots__ = ("__scale", "below", "weight")

    def __init__(self, weight, below=None):
        self.weight = xlapy.asarray(weight)
        self.below = below
        self.__scale = 2.0

    @xlapy.compile
    def total(self, x):
        below = xlapy.sum(self.below.weight) if self.below is not None else 0.0
        return (xlapy.sum(self.weight) + below) * x * self.__scale

    @xlapy.compile
    def assigning(self, x):
        self.weight = x
        return x


def test_objects_with_slots():
    model = Slotted(FIRST, Slotted(FIRST))
    assert float(model.total(ONE)) == 20000
    model.weight = xlapy.asarray(SECOND)
    assert float(model.total(ONE)) == 20000 + 2 * 99
    model.below.weight = xlapy.asarray(SECOND)
    assert float(model.total(ONE)) == 20000 + 4 * 99
    with pytest.raises(TracingError, match=r"must not assign attributes.*Slotted\.weight"):
        model.assigning(ONE)


def test_explain_names_the_attributes_that_changed():
    class Scaled(Model):
        @xlapy.compile
        def scaled(self, x):
            return x * self.layer.gain * self.settings["scale"] * self.weight

    model = Scaled()
    model.scaled(ONE)
    model.layer.gain = 3.0
    model.scaled(ONE)
    model.settings["scale"] = 0.0
    model.scaled(ONE)
    model.settings["scale"] = -0.0  # equal to 0.0
    assert str(model.scaled(ONE)[0]) == "-0.0"
    model.weight = xlapy.ones(2)
    model.scaled(ONE)
    for _ in range(2):
        model.layer.gain = float("nan")
        model.scaled(ONE)
    first, *lines = Scaled.scaled.explain().splitlines()
    assert "self.weight: f32[5000], " in first
    assert "self.layers[0].gain: static 1.0" in first
    assert [line.partition(": ")[2] for line in lines] == [
        "self.layer.gain changed from static 1.0 to static 3.0",
        "self.settings['scale'] changed from static 2.0 to static 0.0",
        "self.settings['scale'] changed from static 2.0 to static -0.0",
        "self.weight changed from f32[5000] to f32[2]",
        "self.layer.gain changed from static 3.0 to static nan",
    ]


def test_another_number_is_seen_and_an_equal_one_traces_nothing():
    model = Model()
    assert float(model.total(ONE)) == 40000
    model.layer.gain = 3.0
    assert float(model.total(ONE)) == 120000
    traces = Model.total.traces
    model.layer.gain = 1.0
    assert float(model.total(ONE)) == 40000
    assert float(Model().total(ONE)) == 40000
    assert Model.total.traces == traces


def test_static_arguments():
    model = Model()
    assert float(model.repeated(ONE, 3)) == 4
    assert float(model.repeated(ONE, times=2)) == 3
    assert float(model.repeated(ONE)) == 2
    traces = Model.repeated.traces
    model.layer.weight = xlapy.asarray(SECOND)
    assert float(model.repeated(ONE, 3)) == 301
    assert Model.repeated.traces == traces


def test_assignment_is_refused_and_leaves_the_object_alone():
    model = Model()
    with pytest.raises(TracingError, match=r"must not assign attributes.*Layer\.weight"):
        model.assigning(ONE)
    np.testing.assert_array_equal(model.layer.weight.numpy(), FIRST)


def test_an_attribute_that_cannot_be_compared_is_refused():
    model = Model()
    model.layer.names = {"a"}
    with pytest.raises(TracingError, match=r"set for self\.layer\.names"):
        model.total(ONE)


def test_inside_another_trace():
    model = Model()
    double = xlapy.compile(lambda x: model.total(x) * 2)
    assert float(double(ONE)) == 80000
    assert float(xlapy.grad(lambda x: model.total(x))(1.0)) == 40000


def test_the_named_argument_is_donated_and_named():
    model = Model()
    x, y = xlapy.asarray(FIRST), xlapy.asarray(FIRST)
    assert float(xlapy.sum(model.donating(x, y))) == 10000
    with pytest.raises(BackendError):
        x.numpy()
    np.testing.assert_array_equal(y.numpy(), FIRST)
    with pytest.raises(DTypeError, match=r"object for y "):
        model.donating(xlapy.asarray(FIRST), object())
