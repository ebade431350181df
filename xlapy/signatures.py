"""What the arguments of a compiled function amount to: the keys of its programs, and how results are packed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, final

import numpy as np

from xlapy import tree
from xlapy.backends.base import Executable as Program
from xlapy.dtypes import python_scalar
from xlapy.errors import BackendError, ConstraintError, DTypeError, TracingError, shown
from xlapy.methods import parts_of
from xlapy.numpy.promotion import is_weak
from xlapy.scalar_arguments import SCALARS, ScalarArguments, is_scalar
from xlapy.specs import Spec, TensorSpec, TokenSpec
from xlapy.staging import scalar_class, scalar_on_host
from xlapy.tensor import Placed, Tensor
from xlapy.trace.builder import host_array, scalar_array
from xlapy.trace.computation import Computation

#: in the place of a static argument's name: what the object of a method is like
INSTANCE: Final = object()


@final
class Signature:
    """What a call's arguments amount to: the key under which its program is kept.

    `static` has a name, what it is known by and the value of each static argument, and of a method's object.
    """

    __slots__ = ("key", "leaves", "static", "structure")

    def __init__(self, leaves: list[Any], structure: tree.TreeDef, static: tuple[Any, ...]) -> None:
        self.leaves = leaves = [_plain(x) for x in leaves]
        self.structure = structure
        self.static = static
        known = tuple([s[:2] for s in static])
        self.key = (structure, known, tuple([leaf_key(x) for x in leaves]))


def _plain(x: Any) -> Any:
    """A number of a class derived from Python's as one of Python's own; anything else itself."""
    if type(x) is Tensor or type(x) in SCALARS:
        return x
    number = python_scalar(x)
    return x if number is None else number


def leaf_key(x: Any) -> Any:
    """What of a leaf decides which program runs."""
    if type(x) is Tensor:
        if type(x.placed) is not Placed and is_weak(x):
            return type(x), x.placed, stand_in(x)
        return x.placed.spec
    if isinstance(x, TensorSpec):
        return x
    if type(x) is np.ndarray:
        # Within the function it is what a tensor of its spec is.
        with suppress(DTypeError):
            return TensorSpec(x.shape, x.dtype)
    if type(x) is int and not -(1 << 31) <= x < 1 << 31:
        return int, scalar_class(x)[0]
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    # Arrays of other libraries become tensors of their shape and type.
    return type(x) if shape is None else (type(x), tuple(shape), str(dtype))


def leaf_paths(signature: Signature, parameters: Sequence[inspect.Parameter]) -> list[str]:
    """What each leaf of a call of a function with these parameters is called: ``x``, ``params['w']``, ..."""
    names: list[str] = []
    if signature.static and signature.static[-1][0] is INSTANCE:
        parameters = parameters[1:]  # the object is no argument: its leaves come first
        names = [path for path, part in parts_of(signature.static[-1][2]) if part[0] == "leaf"]
    args_structure, kwargs_structure = signature.structure.children
    for i, child in enumerate(args_structure.children):
        if i < len(parameters) and parameters[i].kind is not inspect.Parameter.VAR_POSITIONAL:
            label = parameters[i].name
        else:
            rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
            label = f"{rest}[{i}]"
        names.extend(tree.paths(child, label))
    for key, child in zip(kwargs_structure.data, kwargs_structure.children, strict=True):
        names.extend(tree.paths(child, str(key)))
    return names


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What changed between two signatures, a sentence each."""
    changes = [
        f"{k} changed from {old[k]} to {v}" for k, v in new.items() if k in old and old[k] != v
    ]
    changes += [f"{k} is new, {v}" for k, v in new.items() if k not in old]
    return changes + [f"{k} is gone" for k in old if k not in new]


def explained(name: str, history: Sequence[Mapping[str, str]]) -> str:
    """Why a function was recorded each time: what differed from the nearest earlier signature."""
    lines = []
    for i, now in enumerate(history):
        if i == 0:
            arguments = ", ".join(f"{k}: {v}" for k, v in now.items() if k is not _PLACE)
            lines.append(f"trace 1 of {name}: first call, with {arguments or 'no arguments'}")
            continue
        nearest = min(history[:i], key=lambda old: len(difference(old, now)))
        changes = difference(nearest, now)
        lines.append(
            f"trace {i + 1} of {name}: {'; '.join(changes) or 'recorded again for the same signature'}"
        )
    return "\n".join(lines) or f"{name} has not been recorded"


#: beside the names of arguments
_PLACE: Final = "where it runs"


def described(signature: Signature, paths: Sequence[str], place: str) -> dict[str, str]:
    """The arguments of a call in words, by name, and where it runs."""
    found = {
        p: str(x.placed.spec)
        if type(x) is Tensor
        else str(spec_of_leaf(x))
        if type(x) not in SCALARS
        else type(x).__name__
        for p, x in zip(paths, signature.leaves, strict=True)
    }
    for name, _, value in signature.static:
        if name is not INSTANCE:
            found[name] = f"static {value!r}"
            continue
        for path, part in parts_of(value):
            if part[0] == "static":
                found[path] = f"static {part[1]!r}"
    found[_PLACE] = place
    return found


@contextmanager
def unrepeated(active: set[Any], mark: Any, name: str) -> Iterator[None]:
    """Refuse to record a function for a signature while it is being recorded for the same one."""
    if mark in active:
        specs = ", ".join(map(str, mark[-1]))
        raise TracingError(
            f"{name}: a compiled function must not call itself with arguments of the same specs, for recording it"
            f" would not end; got ({specs}) [X1]\n"
            "  use xlapy.while_loop, or an argument in static_argnames that ends the recursion"
        )
    active.add(mark)
    try:
        yield
    finally:
        active.discard(mark)


def spec_of_leaf(x: Any) -> Spec:
    """The spec of an argument's leaf."""
    if type(x) is Tensor:
        spec: Spec = x.placed.spec
        return spec
    if isinstance(x, TensorSpec | TokenSpec):
        return x
    array = host_scalar(x) if type(x) in SCALARS else host_array(x)
    return TensorSpec(array.shape, array.dtype)


def host_scalar(x: Any) -> np.ndarray[Any, Any]:
    """A Python scalar as an argument: of its kind's default type, where it fits."""
    if type(x) is int and not -(1 << 31) <= x < 1 << 31:
        return scalar_on_host(x, scalar_class(x)[1])
    return scalar_array(x)


def with_leaves(signature: Signature, leaves: list[Any], originals: list[Any]) -> Signature:
    """The signature with tensors for leaves; Python scalars stay, so that they are weak in the trace."""
    kept = [o if is_scalar(o) else x for x, o in zip(leaves, originals, strict=True)]
    return Signature(kept, signature.structure, signature.static)


@final
class Entry:
    """A program and how to hand it arguments and unpack its results."""

    __slots__ = (
        "captured", "computation", "donated", "executable", "out_structure", "run", "scalars"
    )  # fmt: skip

    def __init__(
        self,
        computation: Computation,
        captured: list[Tensor],
        out_structure: tree.TreeDef,
        donated: frozenset[int],
        scalars: ScalarArguments,
    ) -> None:
        self.computation = computation
        self.captured = captured
        self.out_structure = out_structure
        self.donated = donated
        self.scalars = scalars
        self.executable: Program | None = None
        self.run: Callable[[list[Any]], Any] | None = None

    def require_unshared(
        self, tensors: Sequence[Tensor], name: str, paths: Callable[[], list[str]]
    ) -> None:
        """Refuse a donated array that the program gets a second time: its memory may be taken already."""
        places: dict[int, int] = {}
        payloads = [t.payload for t in (*tensors, *self.captured)]
        for i, payload in enumerate(payloads):
            first = places.setdefault(id(payload), i)
            if first != i and payload is not None and not self.donated.isdisjoint((first, i)):
                names = paths()
                second = names[i] if i < len(names) else "closed over by the function"
                raise BackendError(
                    f"{name}: a donated array must be passed once; got it as {names[first]} and {second} [X1]\n"
                    "  pass a copy, or leave it out of donate_argnames"
                )

    def consume(self, tensors: Sequence[Tensor], leaves: Sequence[Any]) -> None:
        """Delete what was donated, whether its memory could be used or not."""
        for i in self.donated:
            if tensors[i] is leaves[i]:
                tensors[i].delete()


def stand_in(x: Any) -> Any:
    """The number that checks are made with, for a scalar beyond the default types; None for others."""
    if type(x) is Tensor:
        return x.payload.scope.builder.stand_ins.get(x.payload)
    key = leaf_key(x)
    return None if key is type(x) else key[1]


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The function's signature; some of Python's own, such as `max`, do not say what theirs is."""
    try:
        return inspect.signature(function)
    except ValueError:
        return _ANY_ARGUMENTS


_ANY_ARGUMENTS: Final = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)


def bind_arguments(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments by name."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TracingError(
            f"{name}: arguments must fit the function's signature {signature}; got {error} [X1]"
        ) from None


def as_names(names: Any, what: str) -> tuple[str, ...]:
    """The names of arguments: one, or a sequence of them."""
    if isinstance(names, str):
        return (names,)
    try:
        return tuple(names)
    except TypeError:
        raise DTypeError(
            f"compile: {what} must be a name or a sequence of names; got {shown(names)} [X1]"
        ) from None


def check_names(signature: inspect.Signature, static: Sequence[str], donate: Sequence[str]) -> None:
    """Refuse names that the function's arguments have not."""
    parameters = signature.parameters
    named = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for what, names in (("static_argnames", static), ("donate_argnames", donate)):
        for name in names:
            if name not in parameters and not named:
                raise ConstraintError(
                    f"compile: {what} must name arguments of the function, {tuple(parameters)}; got {name!r} [X1]"
                )
    both = set(static) & set(donate)
    if both:
        raise ConstraintError(
            f"compile: a static argument must not be donated; got {sorted(both)} [X1]"
        )


def as_flags(options: Any) -> tuple[tuple[str, Any], ...]:
    """The compiler's flags in one order."""
    if options is None:
        return ()
    if not isinstance(options, Mapping):
        raise DTypeError(
            f"compile: options must be a mapping of names to values; got {shown(options)} [X1]"
        )
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | bool | int | float):
            raise DTypeError(
                "compile: an option must be a name with a number, a truth value or a text; got"
                f" {shown(name)}: {shown(value)} [X1]"
            )
    return tuple(sorted(options.items()))


def leaves_below(names: Sequence[str], paths: Sequence[str]) -> frozenset[int]:
    """The places of the leaves that are the named arguments, or within them."""
    return frozenset(
        i
        for i, p in enumerate(paths)
        if any(p == n or p.startswith((f"{n}[", f"{n}.")) for n in names)
    )


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
