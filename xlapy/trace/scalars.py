"""Python numbers that a program is given anew in each call, and those that Python makes of them.

Outside a trace an operator gives a Python number for Python numbers. Within one it gives what stands for it: nothing is
recorded, for each call computes the number in Python before the program runs, and hands it over in the element types
that it meets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import TensorSpec
from xlapy.tensor import Tensor
from xlapy.trace.computation import Value

if TYPE_CHECKING:
    from xlapy.trace.builder import XlaBuilder

__all__ = ["ScalarUse", "derived", "further_parameters"]

_KINDS: Final = (bool, int, float, complex)
_DOUBLE, _COMPLEX = as_dtype("f64"), as_dtype("c128")
_EXACT: Final = (as_dtype("f32"), _DOUBLE, _COMPLEX)
#: how Python computes what a function of `xlapy.numpy` is the operator for, and how it is written
_PYTHON: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "add": (operator.add, "{} + {}"),
    "subtract": (operator.sub, "{} - {}"),
    "multiply": (operator.mul, "{} * {}"),
    "divide": (operator.truediv, "{} / {}"),
    "floor_divide": (operator.floordiv, "{} // {}"),
    "remainder": (operator.mod, "{} % {}"),
    "pow": (operator.pow, "{} ** {}"),
    "bitwise_and": (operator.and_, "{} & {}"),
    "bitwise_or": (operator.or_, "{} | {}"),
    "bitwise_xor": (operator.xor, "{} ^ {}"),
    "bitwise_left_shift": (operator.lshift, "{} << {}"),
    "bitwise_right_shift": (operator.rshift, "{} >> {}"),
    "less": (operator.lt, "{} < {}"),
    "less_equal": (operator.le, "{} <= {}"),
    "greater": (operator.gt, "{} > {}"),
    "greater_equal": (operator.ge, "{} >= {}"),
    "equal": (operator.eq, "{} == {}"),
    "not_equal": (operator.ne, "{} != {}"),
    "negative": (operator.neg, "-{}"),
    "positive": (operator.pos, "+{}"),
    "abs": (abs, "abs({})"),
    "bitwise_invert": (operator.invert, "~{}"),
    "round": (round, "round({})"),
}


@final
class ScalarUse:
    """A Python number in a program, and what the program does with it.

    Attributes
    ----------
    value : Value
        The number in the default element type of its kind.
    kind : type
        Of Python: bool, int, float or complex.
    example : bool, int, float or complex
        What it was when the function was recorded.
    function, operands
        What it is computed by, from other numbers, `ScalarUse` and weak tensors of enclosing traces; no function for an
        argument.
    form : str
        How it is written, with a place for each operand.
    met : set of DType
        The element types that it takes, and so has to fit.
    parameters : dict
        By element type further parameters with the number.
    is_exponent : bool
        Whether an integer is raised to it.
    """

    __slots__ = (
        "example", "form", "function", "is_exponent", "kind", "met", "operands", "parameters", "value"
    )  # fmt: skip

    def __init__(
        self,
        value: Value,
        example: Any,
        function: Callable[..., Any] | None = None,
        operands: Sequence[Any] = (),
        form: str = "",
    ) -> None:
        self.value = value
        self.example = example
        self.kind = type(example)
        self.function = function
        self.operands = operands
        self.form = form
        self.met: set[DType] = set()
        self.parameters: dict[DType, Value] = {}
        self.is_exponent = False

    def at(self, dtype: DType) -> Tensor:
        """What to convert to an element type that the number takes: a parameter that loses nothing."""
        self.met.add(dtype)
        own: DType = self.value.spec.dtype  # type: ignore[union-attr]
        if own is dtype or (self.function is None and not (own.inexact and dtype.inexact)):
            return Tensor(self.value.spec, self.value)
        if dtype.inexact and dtype not in _EXACT:
            # Rounded once, by the program, as outside a trace.
            dtype = _COMPLEX if own.kind == "complex" else _DOUBLE
        value = self.parameters.get(dtype)
        if value is None:
            value = Value(TensorSpec((), dtype), self.value.scope)
            self.parameters[dtype] = value
        return Tensor(value.spec, value)


def derived(name: str, *operands: Any) -> Any:
    """What an operator gives for numbers alone: a weak tensor, or two for `divmod`; None if there is anything else."""
    owner: XlaBuilder | None = None
    for x in operands:
        if type(x) is Tensor:
            value = x.payload
            if type(value) is not Value or value.scope is None or not value.scope.open:
                return None
            builder: XlaBuilder = value.scope.builder
            if value not in builder.scalars:
                return None
            if owner is None or builder.is_nested_in(owner.scope):
                owner = builder
        elif type(x) not in _KINDS:
            return None
    if owner is None:
        return None
    if name == "divmod":
        return derived("floor_divide", *operands), derived("remainder", *operands)
    return _computed(owner, name, operands) if name in _PYTHON else None


def _computed(owner: XlaBuilder, name: str, operands: Sequence[Any]) -> Tensor:
    key = (name, *[x.payload if type(x) is Tensor else (type(x), repr(x)) for x in operands])
    use = owner.derived.get(key)
    if use is None:
        function, form = _PYTHON[name]
        # Python's own errors, such as that of a division by zero, are raised as they are outside.
        example = function(*[_example(x) for x in operands])
        known = [owner.scalars.get(x.payload, x) if type(x) is Tensor else x for x in operands]
        value = Value(TensorSpec((), as_dtype(type(example))), owner.scope)
        use = owner.derived[key] = ScalarUse(value, example, function, known, form)
        owner.scalars[value] = use
        owner.weak.add(value)
    return Tensor(use.value.spec, use.value)


def _example(x: Any) -> Any:
    return x.payload.scope.builder.scalars[x.payload].example if type(x) is Tensor else x


def further_parameters(
    builder: XlaBuilder, results: Sequence[Value]
) -> list[tuple[ScalarUse, DType]]:
    """Declare the parameters for the numbers that a recorded program reads besides its arguments."""
    if not builder.derived and not any(use.parameters for use in builder.scalars.values()):
        return []
    read = set(results)
    for instruction in builder.instructions:
        read.update(instruction.operands)
    found = []
    for use, value in _values(builder):
        if value in read:
            number = len(builder.parameters)
            builder.parameters[number] = value
            builder.parameter_names[number] = ""
            found.append((use, value.spec.dtype))  # type: ignore[union-attr]
    return found


def _values(builder: XlaBuilder) -> Iterator[tuple[ScalarUse, Value]]:
    for use in builder.scalars.values():
        if use.function is not None:
            yield use, use.value
        for value in use.parameters.values():
            yield use, value
