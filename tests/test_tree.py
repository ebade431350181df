"""Containers: taking them apart and putting them together."""

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest

from xlapy import tree
from xlapy.errors import ConstraintError, DTypeError


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any = None


@pytest.mark.parametrize(
    ("container", "leaves"),
    [
        (1, [1]),
        (None, []),
        ({}, []),
        ([], []),
        ({"b": 1, "a": 2}, [2, 1]),
        ([1, (2, [3]), {"k": 4}], [1, 2, 3, 4]),
        (Point(1, [2, None]), [1, 2]),
        (Layer(1), [1]),
        (Layer(1, {"b": 2}), [1, 2]),
        (collections.OrderedDict(b=1, a=2), [1, 2]),
        ({1: "a", "b": "c"}, ["a", "c"]),
        (range(3), [range(3)]),
    ],
)
def test_a_container_comes_together_again(container: Any, leaves: list[Any]) -> None:
    found, structure = tree.flatten(container)
    assert found == leaves
    assert structure.leaves == len(leaves)
    again = tree.unflatten(structure, found)
    assert again == container
    assert type(again) is type(container)
    assert tree.flatten(again)[1] == structure


def test_a_class_met_as_a_leaf_can_be_registered_later() -> None:
    class Box:
        def __init__(self, item: Any) -> None:
            self.item = item

    box = Box([1, 2])
    assert tree.flatten(box)[0] == [box]
    tree.register(Box, lambda b: ((b.item,), None), lambda _, items: Box(*items))
    leaves, structure = tree.flatten(box)
    assert leaves == [1, 2]
    assert tree.unflatten(structure, [3, 4]).item == [3, 4]


def test_a_class_is_registered_once() -> None:
    with pytest.raises(ConstraintError, match="registered once; got dict"):
        tree.register(dict, lambda d: ((), None), lambda _, items: {})


def test_as_many_leaves_as_the_structure_has() -> None:
    _, structure = tree.flatten({"a": 1, "b": 2})
    with pytest.raises(ConstraintError, match="must get 2 leaves; got 3"):
        tree.unflatten(structure, [1, 2, 3])


def test_map_refuses_containers_of_other_structures() -> None:
    assert tree.map(lambda a, b: a + b, {"a": 1}, {"a": 2}) == {"a": 3}
    with pytest.raises(DTypeError, match="one structure"):
        tree.map(lambda a, b: a + b, {"a": 1}, {"b": 2})
