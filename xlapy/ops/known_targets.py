"""What custom calls take and give that XLA itself knows: it checks little of them, and some end the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from xlapy.errors import UnsupportedOpError, shown
from xlapy.specs import Spec, TensorSpec, require_shape

__all__ = ["require_own_kernel", "require_signature"]

_Check = Callable[[Sequence[Any], Sequence[Any]], tuple[bool, str]]


def _one_array(operands: Sequence[Any], results: Sequence[Any]) -> tuple[bool, str]:
    return len(operands) == len(results) == 1, "one array, and give one"


def _same_array(operands: Sequence[Any], results: Sequence[Any]) -> tuple[bool, str]:
    return len(operands) == 1 and list(results) == list(operands), "one array, and give its like"


def _largest(operands: Sequence[Any], results: Sequence[Any]) -> tuple[bool, str]:
    ok = len(operands) == 1 and len(results) == 2
    if ok:
        x, (values, indices) = operands[0], results
        ok = x.rank in (1, 2) and x.is_static and values.rank == x.rank
        ok = ok and values.dtype is x.dtype and values.shape[:-1] == x.shape[:-1]
        ok = ok and values.shape[-1] <= x.shape[-1]
        ok = ok and indices == values.with_dtype("s32")
    return (
        ok,
        "a vector or matrix, and give as many elements of each row as s32 positions of them",
    )


def _some(operands: Sequence[Any], results: Sequence[Any]) -> tuple[bool, str]:
    return bool(operands and results), "an array, and give one"


def _decomposed(operands: Sequence[Any], results: Sequence[Any]) -> tuple[bool, str]:
    return len(operands) == 1 and len(results) == 2, "one array, and give two"


def _cut(operands: Sequence[Any], results: Sequence[Any]) -> tuple[bool, str]:
    ok = len(results) == 1 and len(results[0].dynamic) == results[0].rank == len(operands) - 1
    return ok, "an array and its sizes, and give one of sizes that vary"


_CHECKS: Final[dict[str, _Check]] = {
    "Eigh": _decomposed,
    "LayoutConstraint": _same_array,
    "Qr": _decomposed,
    "SPMDFullToShardShape": _one_array,
    "SPMDShardToFullShape": _one_array,
    "Sharding": _one_array,
    "SliceToDynamic": _cut,
    "TopK": _largest,
}
#: those that stand for kernels of oneDNN
_ONEDNN: Final = "__onednn$"


def require_signature(target: str, operands: Sequence[Spec], results: Sequence[Spec]) -> None:
    """X3: a target that XLA knows is called as it is defined."""
    check = _some if target.startswith(_ONEDNN) else _CHECKS.get(target)
    if check is None:
        return
    arrays = all(type(s) is TensorSpec for s in (*operands, *results))
    ok, what = check(operands, results) if arrays else (False, "arrays")
    require_shape(ok, "X3", f"{target} must take {what}", (tuple(operands), tuple(results)))


def require_own_kernel(target: str) -> None:
    """Refuse what XLA has no kernel of unless it is built so: it leaves the results as they lie in memory."""
    if target.startswith(_ONEDNN):
        raise UnsupportedOpError(
            f"a kernel must be XLA's own; got {shown(target)}, which jaxlib is built without: compile the program"
            " without it, with xla_cpu_use_onednn=False, or use the interpreter [X5]"
        )
