"""The fast path of a compiled call: the right leaf in the right place, whatever the container looks like."""

from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy.dispatch import NotPlainError, arrange, places


def number(n: float) -> xlapy.Tensor:
    return xlapy.asarray(np.float32(n))


CONTAINERS: list[Any] = [
    lambda a, b, c: ({"z": a, "a": {"y": b, "b": c}},),
    lambda a, b, c: ([a, (b, {"k": c})],),
    lambda a, b, c: (a, {"w": b, "b": c}),
    lambda a, b, c: ({"w": None, "b": [a, None]}, (b,), c),
    lambda a, b, c: ({2: a, 1: b, "s": c},),
    lambda a, b, c: ((), {}, [], a, b, {"n": {"m": {"l": c}}}),
]


@pytest.mark.parametrize("make", CONTAINERS)
def test_the_second_call_hands_over_what_the_first_did(make: Any) -> None:
    @xlapy.compile
    def back(*args: Any) -> Any:
        return args

    arguments = make(number(1), number(2), number(3))
    for scale in (1, 10):  # recorded first, then from the fast path
        arguments = make(number(1 * scale), number(2 * scale), number(3 * scale))
        found = back(*arguments)
        expected, structure = xlapy.tree.flatten(arguments)
        assert xlapy.tree.flatten(found)[1] == structure
        assert [t.item() for t in xlapy.tree.flatten(found)[0]] == [t.item() for t in expected]
    assert back.traces == 1
    assert len(back._fast) == 1


def test_dicts_in_another_order_are_one_program() -> None:
    difference = xlapy.compile(lambda d: d["a"] - d["b"])
    for _ in range(2):
        assert difference({"a": number(5), "b": number(3)}).item() == 2
        assert difference({"b": number(3), "a": number(5)}).item() == 2
    assert difference.traces == 1


def test_a_list_is_no_tuple_and_a_dict_no_list() -> None:
    kinds = xlapy.compile(lambda x: number(0) if type(x) is list else number(1))
    for _ in range(2):
        assert kinds([number(1), number(2)]).item() == 0
        assert kinds((number(1), number(2))).item() == 1
        assert kinds({0: number(1), 1: number(2)}).item() == 1


def test_where_the_leaves_stand() -> None:
    a, b, c = number(1), number(2), number(3)
    arguments = ({"z": a, "a": [b]}, c)
    payloads: list[Any] = []
    arrange(arguments, payloads, [])
    assert payloads == [a.payload, b.payload, c.payload]
    assert places(arguments) == [1, 0, 2]


@pytest.mark.parametrize("other", [1.0, np.ones(2), "text", {"a": 1}, [{"a": object()}]])
def test_what_is_no_tensor_takes_the_long_way(other: Any) -> None:
    with pytest.raises(NotPlainError):
        arrange((other,), [], [])
