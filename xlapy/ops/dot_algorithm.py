"""How exactly products are to be computed: precisions and algorithms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from xlapy.dtypes import as_dtype
from xlapy.specs import as_word, require

__all__ = ["DotAlgorithm", "as_algorithm", "as_precision_config", "require_precision"]

PRECISIONS: Final = ("DEFAULT", "HIGH", "HIGHEST")


@final
@dataclass(frozen=True)
class DotAlgorithm:
    """How an accelerator computes a product.

    Attributes
    ----------
    lhs_precision_type, rhs_precision_type, accumulation_type : str
        Element types, or ``"tf32"``, that the operands are rounded to and the sums are kept in.
    lhs_component_count, rhs_component_count : int
        Into how many parts an operand is split.
    num_primitive_operations : int
        How many products of such parts there are: 3, 6 and 9 for more exact results.
    allow_imprecise_accumulation : bool
        Whether sums may now and then be kept in less.

    Raises
    ------
    ConstraintError
        [C22, C23, C24] If a count is not positive. [X2] If no hardware is known that has it.

    Examples
    --------
    >>> as_algorithm("TF32_TF32_F32_X3").num_primitive_operations
    3
    """

    lhs_precision_type: str
    rhs_precision_type: str
    accumulation_type: str
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    def __post_init__(self) -> None:
        for field in ("lhs_precision_type", "rhs_precision_type", "accumulation_type"):
            value = getattr(self, field)
            if value != "tf32":
                object.__setattr__(self, field, as_dtype(value).name)
        types = (self.lhs_precision_type, self.rhs_precision_type, self.accumulation_type)
        for label, field in (
            ("C22", "lhs_component_count"),
            ("C23", "rhs_component_count"),
            ("C24", "num_primitive_operations"),
        ):
            count = getattr(self, field)
            require(type(count) is int and count > 0, label, f"{field} must be positive", count)
        f8 = types[0].startswith("f8") and types[1].startswith("f8") and types[2] == "f32"
        require(
            self.num_primitive_operations in ((1,) if f8 else _KNOWN.get(types, ()))
            and self.lhs_component_count == self.rhs_component_count == 1
            and (f8 or not self.allow_imprecise_accumulation),
            "X2",
            f"algorithm must be a combination of two f8 types with f32, or one of {', '.join(_NAMES)}",
            self,
        )

    @staticmethod
    def print(value: DotAlgorithm) -> str:
        """The text of the attribute."""
        parts = []
        for field in DotAlgorithm.__dataclass_fields__:
            v: Any = getattr(value, field)
            if field.endswith("_type") and v != "tf32":
                v = as_dtype(v).mlir
            parts.append(f"{field} = {str(v).lower() if isinstance(v, bool) else v}")
        return f"#stablehlo.dot_algorithm<{', '.join(parts)}>"

    @staticmethod
    def parse(attribute: Any) -> DotAlgorithm:
        """The algorithm from the attribute."""
        found: dict[str, Any] = dict(re.findall(r"(\w+) = (\w+)", str(attribute)))
        for field, value in found.items():
            if not field.endswith("_type"):
                found[field] = value == "true" if value in ("true", "false") else int(value)
        return DotAlgorithm(**found)


#: the numbers of products that are known for operands and sums of these types
_KNOWN: Final = {
    ("f16", "f16", "f16"): (1,),
    ("f16", "f16", "f32"): (1,),
    ("bf16", "bf16", "bf16"): (1,),
    ("bf16", "bf16", "f32"): (1, 3, 6, 9),
    ("tf32", "tf32", "f32"): (1, 3),
    ("f32", "f32", "f32"): (1,),
    ("f64", "f64", "f64"): (1,),
}
_NAMES: Final = {
    "_".join(types).upper() + (f"_X{count}" if count > 1 else ""): (types, count)
    for types, counts in _KNOWN.items()
    for count in counts
}


def as_algorithm(algorithm: Any) -> DotAlgorithm | None:
    """An algorithm from its name, such as ``"BF16_BF16_F32_X3"``."""
    if algorithm is None or isinstance(algorithm, DotAlgorithm):
        return algorithm
    name = as_word(algorithm)
    known = type(name) is str and name in _NAMES
    require(known, "X2", f"algorithm must be one of {', '.join(_NAMES)}", algorithm)
    types, count = _NAMES[name]
    return DotAlgorithm(*types, num_primitive_operations=count)


def require_precision(precision_config: Any, label: str) -> None:
    """Two words, or none at all."""
    require(
        precision_config is None
        or (len(precision_config) == 2 and all(p in PRECISIONS for p in precision_config)),
        label,
        "precision_config must be two of DEFAULT, HIGH and HIGHEST",
        precision_config,
    )


def as_precision_config(precision_config: Any) -> tuple[str, str] | None:
    """The pair of words from None, one word for both operands, or two; capitals do not matter."""
    if precision_config is None:
        return None
    if isinstance(precision_config, str):
        precision_config = (precision_config, precision_config)
    require(
        isinstance(precision_config, Sequence)
        and len(precision_config) == 2
        and all(isinstance(p, str) for p in precision_config),
        "C11",
        "precision_config must be a word for each operand",
        precision_config,
    )
    first, second = map(as_word, precision_config)
    return first, second
