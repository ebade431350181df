"""What the arguments of a compiled function amount to: the keys of its programs, and how results are packed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from xlapy import tree
from xlapy.backends.base import Executable as Program
from xlapy.errors import ConstraintError
from xlapy.specs import Spec, TensorSpec, TokenSpec
from xlapy.tensor import Tensor
from xlapy.trace.builder import host_array, scalar_array
from xlapy.trace.computation import Computation

SCALARS: Final = (bool, int, float, complex)


@final
class Signature:
    """What a call's arguments amount to: the key under which its program is kept."""

    __slots__ = ("key", "leaves", "static", "structure")

    def __init__(self, leaves: list[Any], structure: tree.TreeDef, static: tuple[Any, ...]) -> None:
        self.leaves = leaves
        self.structure = structure
        self.static = static
        self.key = (structure, static, tuple([leaf_key(x) for x in leaves]))


def leaf_key(x: Any) -> Any:
    """What of a leaf decides which program runs."""
    if type(x) is Tensor:
        return x.placed
    if isinstance(x, TensorSpec):
        return x
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    # Arrays of other libraries become tensors of their shape and type.
    return type(x) if shape is None else (type(x), tuple(shape), str(dtype))


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What changed between two signatures, a sentence each."""
    changes = [
        f"{k} changed from {old[k]} to {v}" for k, v in new.items() if k in old and old[k] != v
    ]
    changes += [f"{k} is new, {v}" for k, v in new.items() if k not in old]
    return changes + [f"{k} is gone" for k in old if k not in new]


def spec_of_leaf(x: Any) -> Spec:
    """The spec of an argument's leaf."""
    if type(x) is Tensor:
        spec: Spec = x.placed.spec
        return spec
    if isinstance(x, TensorSpec | TokenSpec):
        return x
    array = scalar_array(x) if isinstance(x, SCALARS) else host_array(x)
    return TensorSpec(array.shape, array.dtype)


def with_leaves(signature: Signature, leaves: list[Any], originals: list[Any]) -> Signature:
    """The signature with tensors for leaves; Python scalars stay, so that they are weak in the trace."""
    kept = [o if isinstance(o, SCALARS) else x for x, o in zip(leaves, originals, strict=True)]
    return Signature(kept, signature.structure, signature.static)


@final
class Entry:
    """A program and how to hand it arguments and unpack its results."""

    __slots__ = ("captured", "computation", "donated", "executable", "out_structure", "run")

    def __init__(
        self,
        computation: Computation,
        captured: list[Tensor],
        out_structure: tree.TreeDef,
        donated: frozenset[int],
    ) -> None:
        self.computation = computation
        self.captured = captured
        self.out_structure = out_structure
        self.donated = donated
        self.executable: Program | None = None
        self.run: Callable[[list[Any]], Any] | None = None


def without_static(
    function: str, static: Sequence[str], bound: inspect.BoundArguments
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """All dynamic arguments by name, so that positions do not matter; those of ``*args`` in front."""
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if name in static:
            continue
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            keyword.update({k: v for k, v in value.items() if k not in static})
        elif kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ConstraintError(
                f"{function}: a function with static arguments must not have positional-only ones;"
                f" got {name!r} [X1]"
            )
        else:
            keyword[name] = value
    return tuple(positional), keyword
