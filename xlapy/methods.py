"""Compiled methods: an object's tensors are arguments, its other attributes static."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from xlapy import tree
from xlapy.errors import XlapyError
from xlapy.source import hide_library_frames
from xlapy.tensor import Tensor


def is_dynamic(x: Any) -> bool:
    """Whether an attribute is made of tensors."""
    leaves, _ = tree.flatten(x)
    return bool(leaves) and all(isinstance(v, Tensor | np.ndarray) for v in leaves)


def split_instance(instance: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """An object's attributes: those made of tensors are arguments, the others are static."""
    attributes = vars(instance) if hasattr(instance, "__dict__") else {}
    dynamic = {k: v for k, v in attributes.items() if is_dynamic(v)}
    fixed = []
    for name, value in attributes.items():
        if name not in dynamic:
            try:
                hash(value)
                fixed.append((name, type(value), value))
            except TypeError:
                fixed.append((name, type(value), repr(value)))
    return dynamic, tuple(fixed)


def stand_in_for(instance: Any, dynamic: Mapping[str, Any]) -> Any:
    """A shallow copy of the object that holds traced tensors."""
    copy = object.__new__(type(instance))
    copy.__dict__.update(vars(instance))
    copy.__dict__.update(dynamic)
    return copy


@final
class BoundMethod:
    """A compiled method of one object: its tensors are arguments, so that later assignments are seen."""

    __slots__ = ("__self__", "_compiled")

    def __init__(self, compiled: Any, instance: Any) -> None:
        self._compiled = compiled
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method for its object."""
        compiled = self._compiled
        try:
            if compiled._static:
                # Static arguments are found by name, so the object takes its place among the arguments first.
                bound = types.MethodType(compiled._function, self.__self__)
                signature = inspect.signature(bound).bind(*args, **kwargs)
                kwargs = dict(signature.arguments)
                args = ()
            return compiled._call(args, kwargs, self.__self__)
        except XlapyError as error:
            hide_library_frames(error)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)
