"""How accurate the result of an elementary function has to be: the `result_accuracy` of the operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from xlapy.dtypes import as_dtype
from xlapy.errors import UnsupportedOpError, XlapyError
from xlapy.specs import require
from xlapy.trace.mode import annotate, bind
from xlapy.trace.op import Hlo, lookup

__all__ = ["ACCURACY", "ResultAccuracy", "accuracy", "accurate_hlo", "check_accuracy", "plain_hlo"]


class ResultAccuracy(NamedTuple):
    """Tolerances of an elementary function's result; a result is good if it meets any one of them.

    Attributes
    ----------
    atol, rtol : float
        Absolute and relative.
    ulps : int
        In units in the last place.
    mode : str
        ``"TOLERANCE"``; ``"HIGHEST"`` and ``"DEFAULT"`` have no numbers.

    Examples
    --------
    >>> ResultAccuracy(ulps=2)
    ResultAccuracy(atol=0.0, rtol=0.0, ulps=2, mode='TOLERANCE')
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0
    mode: str = "TOLERANCE"


_NONE: Final[Mapping[str, Any]] = {}


def accuracy(given: Any, name: str = "") -> Mapping[str, Any]:
    """The record's parameters for what a user gave the operation `name`: none at all for the default."""
    if given is None:
        return _NONE
    try:
        found = _as_accuracy(given)
        check_accuracy(result_accuracy=found)
    except XlapyError as error:
        raise annotate(error, name, None) from None
    return _NONE if found.mode == "DEFAULT" else {"result_accuracy": found}


def _as_accuracy(given: Any) -> Any:
    if isinstance(given, str) and given.upper() in ("DEFAULT", "HIGHEST"):
        return ResultAccuracy(mode=given.upper())
    if isinstance(given, Mapping):
        unknown = set(given) - set(ResultAccuracy._fields)
        require(not unknown, "X1", "result_accuracy must have atol, rtol and ulps", given)
        return ResultAccuracy(**given)
    if type(given) is tuple and len(given) == 3:
        return ResultAccuracy(*given)
    return given


def check_accuracy(*, result_accuracy: Any = None) -> None:
    """X1: tolerances are not negative, and only the mode TOLERANCE has them."""
    if result_accuracy is None:
        return
    require(
        type(result_accuracy) is ResultAccuracy,
        "X1", "result_accuracy must be 'default', 'highest' or a ResultAccuracy", result_accuracy,
    )  # fmt: skip
    atol, rtol, ulps, mode = result_accuracy
    fine = isinstance(ulps, int) and all(isinstance(v, int | float) for v in (atol, rtol))
    require(
        fine and atol >= 0 and rtol >= 0 and ulps >= 0,
        "X1", "atol, rtol and ulps must not be negative, and ulps an integer", result_accuracy,
    )  # fmt: skip
    require(
        mode in ("DEFAULT", "HIGHEST", "TOLERANCE"),
        "X1", "mode must be DEFAULT, HIGHEST or TOLERANCE", mode,
    )  # fmt: skip
    require(
        mode == "TOLERANCE" or not (atol or rtol or ulps),
        "X1", "only the mode TOLERANCE must have tolerances", result_accuracy,
    )  # fmt: skip


class _Accuracy:
    """``#stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>``."""

    __slots__ = ("dialect",)

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def print(self, value: Any) -> str | None:
        """The attribute's text; None for the default."""
        if value is None:
            return None
        parts = []
        if value.atol:
            parts.append(f"atol = {value.atol:e}")
        if value.rtol:
            parts.append(f"rtol = {value.rtol:e}")
        if value.ulps:
            parts.append(f"ulps = {value.ulps}")
        parts.append(f"mode = #{self.dialect}.result_accuracy_mode<{value.mode}>")
        return f"#{self.dialect}.result_accuracy<{', '.join(parts)}>"

    def parse(self, attribute: Any) -> Any:
        """The accuracy; None for the default."""
        text = "" if attribute is None else str(attribute)
        mode = re.search(r"result_accuracy_mode<(\w+)>", text)
        if mode is None or mode.group(1) == "DEFAULT":
            return None
        found = dict(re.findall(r"\b(atol|rtol|ulps) = ([^,>\s]+)", text))
        return ResultAccuracy(
            float(found.get("atol", 0)),
            float(found.get("rtol", 0)),
            int(found.get("ulps", 0)),
            mode.group(1),
        )


ACCURACY: Final = _Accuracy("stablehlo")


def _read(name: str) -> Callable[[Any, Any], Any]:
    """Reading that leaves the parameter out where it is the default, as the public functions do."""

    def read(reader: Any, operation: Any) -> Any:
        found = ACCURACY.parse(reader.attribute(operation, "result_accuracy"))
        return bind(lookup(name), *reader.operands(operation), **accuracy(found))

    return read


def accurate_hlo(
    name: str, mlir_name: str, complex_form: Callable[[Any], Any] | None = None
) -> Hlo:
    """The declaration of an operation with a `result_accuracy`.

    `complex_form` computes the same of complex numbers by other operations, where XLA has none for them.
    """
    if complex_form is None:
        return Hlo(mlir_name, {"result_accuracy": ACCURACY}, read=_read(name))
    composed = complex_form

    def write(writer: Any, instruction: Any) -> None:
        if instruction.results[0].spec.dtype.kind == "complex":
            writer.composed(instruction, composed)
            return
        text = ACCURACY.print(instruction.params.get("result_accuracy"))
        writer.line(mlir_name, instruction, f"result_accuracy = {text}" if text else "")

    return Hlo(mlir_name, {"result_accuracy": ACCURACY}, write=write, read=_read(name))


def plain_hlo(name: str, mlir_name: str, fewest_bits: int = 0) -> Hlo:
    """The declaration of an operation whose dialect has no place for a `result_accuracy`.

    Floats of fewer bits are written by way of f32.
    """

    def by_f32(x: Any) -> Any:
        convert = lookup("convert_element_type")
        wide = bind(lookup(name), bind(convert, x, dtype=as_dtype("f32")))
        return bind(convert, wide, dtype=x.dtype)

    def write(writer: Any, instruction: Any) -> None:
        wanted = instruction.params.get("result_accuracy")
        if wanted is not None:
            error = UnsupportedOpError(
                f"{mlir_name} has no result_accuracy, so it must be the default; got {wanted} [X6]"
            )
            specs = [v.spec for v in instruction.operands]
            raise annotate(error, name, specs, instruction.source)
        if instruction.operands[0].spec.dtype.bits < fewest_bits:
            writer.composed(instruction, by_f32)
        else:
            writer.line(mlir_name, instruction)

    return Hlo(mlir_name, write=write)
