"""The Python numbers among the arguments of a compiled function, and what it makes of them, in each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import DType, as_dtype, weak_dtype
from xlapy.errors import ConstraintError, DTypeError, XlapyError, shown
from xlapy.numpy.promotion import convert, is_weak, use_as_exponent, weak_source, weak_value
from xlapy.ops.elementwise_kernels import convert as convert_kernel
from xlapy.staging import scalar_class, scalar_on_host
from xlapy.tensor import Tensor
from xlapy.trace.builder import XlaBuilder, trace
from xlapy.trace.computation import Computation, Value
from xlapy.trace.replay import inline
from xlapy.trace.scalars import ScalarUse, further_parameters

__all__ = ["SCALARS", "ScalarArguments", "is_scalar"]

SCALARS: Final = (bool, int, float, complex)


def is_scalar(x: Any) -> bool:
    """Whether a leaf is a Python scalar, or stands for one in the trace that calls."""
    return type(x) in SCALARS or (type(x) is Tensor and is_weak(x))


@final
class ScalarArguments:
    """The numbers of one recorded program.

    Attributes
    ----------
    given : dict
        From the place of a leaf to the number that it is.
    computed : list of ScalarUse
        What follows from them, in the order in which it is computed.
    further : list of (ScalarUse, DType)
        The program's parameters after those for the leaves: a number, and the element type that it is in.
    """

    __slots__ = ("computed", "further", "given")

    def __init__(self) -> None:
        self.given: dict[int, ScalarUse] = {}
        self.computed: list[ScalarUse] = []
        self.further: list[tuple[ScalarUse, DType]] = []

    def __bool__(self) -> bool:
        return bool(self.given)

    def declare(self, builder: XlaBuilder, place: int, x: Any, parameter: Tensor) -> None:
        """Let a parameter stand for a number."""
        value = parameter.payload
        use = ScalarUse(value, _example(x) if type(x) is Tensor else x)
        builder.weak.add(value)
        builder.scalars[value] = self.given[place] = use

    def finish(self, builder: XlaBuilder, results: Sequence[Value]) -> None:
        """Take what the function did with the numbers, once it is recorded."""
        self.further = further_parameters(builder, results)
        self.computed = [use for use in builder.scalars.values() if use.function is not None]

    def values(self, leaves: Sequence[Any], name: str, paths: Callable[[], list[str]]) -> list[Any]:
        """The further arguments of a call: arrays, or weak tensors of an enclosing trace in the element type.

        Raises
        ------
        DTypeError
            If an integer does not fit what it meets, or a number is of another kind than when it was recorded.
        """
        found: dict[ScalarUse, Any] = {use: leaves[i] for i, use in self.given.items()}
        for use in self.computed:
            assert use.function is not None
            found[use] = use.function(*[_value(o, found) for o in use.operands])
        for use, x in found.items():
            if type(x) is Tensor:
                _pass_on(use, x)
            elif type(x) is not use.kind:
                self._refuse(
                    use,
                    f"must be of type {use.kind.__name__}, as when the function was recorded",
                    x,
                    name,
                    paths,
                )
            elif use.kind is int:
                self._check_integer(use, x, name, paths)
        return [_at(found[use], dtype) for use, dtype in self.further]

    def within(self, computation: Computation) -> Computation:
        """The program with the numbers computed in it, in the default element types, from those that are arguments.

        That is for those who know no Python numbers.

        Parameters
        ----------
        computation : Computation
            Its last parameters are the further ones.
        """
        if not self.further:
            return computation
        count = len(computation.parameters) - len(self.further)

        def whole(*leaves: Tensor) -> list[Tensor]:
            found: dict[ScalarUse, Any] = {use: leaves[i] for i, use in self.given.items()}
            for use in self.computed:
                assert use.function is not None
                made = use.function(*[_counted(_value(o, found), use.kind) for o in use.operands])
                found[use] = convert(made, as_dtype(use.kind))
            return inline(computation, [*leaves, *[convert(found[u], d) for u, d in self.further]])

        names = computation.parameter_names[:count]
        return trace(
            whole, computation.parameter_specs[:count], name=computation.name, names=names
        ).computation

    def _check_integer(
        self, use: ScalarUse, x: Any, name: str, paths: Callable[[], list[str]]
    ) -> None:
        if use.is_exponent and x < 0:
            what = "must not be negative, for an integer is raised to it"
            self._refuse(use, what, x, name, paths, ConstraintError)
        for dtype in use.met:
            self._fitting(use, x, dtype, name, paths)
        for other, dtype in self.further:
            if other is use:
                self._fitting(use, x, dtype, name, paths)

    def _fitting(
        self, use: ScalarUse, x: int, dtype: DType, name: str, paths: Callable[[], list[str]]
    ) -> None:
        try:
            weak_dtype(x, dtype)
        except DTypeError:
            self._refuse(use, f"must fit {dtype}, which it meets in the function", x, name, paths)

    def _refuse(
        self,
        use: ScalarUse,
        what: str,
        x: Any,
        name: str,
        paths: Callable[[], list[str]],
        error: type[XlapyError] = DTypeError,
    ) -> None:
        names: Mapping[ScalarUse, str] = {u: paths()[i] for i, u in self.given.items()}
        kind = "integer" if type(x) is int else "number"
        raise error(f"{name}: a Python {kind} {what}; got {shown(x)} for {_text(use, names)} [X3]")


def _example(x: Tensor) -> Any:
    """What a weak tensor of an enclosing trace was when that was recorded."""
    use = x.payload.scope.builder.scalars.get(x.payload)
    return weak_value(x) if use is None else use.example


def _value(operand: Any, found: Mapping[ScalarUse, Any]) -> Any:
    return found[operand] if type(operand) is ScalarUse else operand


def _pass_on(use: ScalarUse, x: Tensor) -> None:
    """Whoever gives the number to the enclosing program finds out whether it fits."""
    if is_weak(x):
        for dtype in use.met:
            weak_source(x, dtype)
        if use.is_exponent:
            use_as_exponent(x)


def _at(x: Any, dtype: DType) -> Any:
    """A number in an element type, converted as a program converts it."""
    if type(x) is Tensor:
        return convert(weak_source(x, dtype) if is_weak(x) else x, dtype)
    with np.errstate(all="ignore"):  # too large for the type: infinite, as for XLA
        return convert_kernel(scalar_on_host(x, scalar_class(x)[1]), dtype.numpy)


def _counted(x: Any, kind: type) -> Any:
    """Truth values are numbers to Python, unless it makes truth values of them."""
    if kind is bool:
        return x
    if type(x) is Tensor:
        return convert(x, as_dtype(int)) if x.dtype.kind == "bool" else x
    return int(x) if type(x) is bool else x


def _text(use: Any, names: Mapping[ScalarUse, str]) -> str:
    """How a number was written, such as ``n + 1``."""
    if type(use) is not ScalarUse:
        return "..." if type(use) is Tensor else repr(use)
    if use.function is None:
        return names[use]
    parts = [_text(o, names) for o in use.operands]
    return use.form.format(*[f"({p})" if " " in p else p for p in parts])
