"""Custom calls of programs over arrays of any size: assertions of shapes, and operations whose parameters are computed.

Where the sizes are known they are checked, or read as the operations that they stand for. What becomes of them where
sizes are not known is the run's: the assertion then is one of the calls that the interpreter knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import ShapeError
from xlapy.specs import TensorSpec, has_unknown, require
from xlapy.trace.codecs import STRING, Enum
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.stablehlo_reader import Reader, split_text

from .custom import register_custom_call, register_sized_reader

Array = np.ndarray[Any, Any]

# --- assertions -----------------------------------------------------------------------------------------------------


def _refused(message: str, values: Sequence[Any]) -> ShapeError:
    """What an assertion says, with the sizes that it speaks of."""
    text = re.sub(
        r"\{(\d+)\}",
        lambda m: str(values[int(m[1])]) if int(m[1]) < len(values) else m[0],
        message or "an assertion of the program does not hold",
    )
    return ShapeError(f"shape_assertion: {text}; got {', '.join(map(str, values)) or 'false'} [X3]")


def read_shape_assertion(reader: Reader, operation: Any) -> Any:
    """Checked now, where it can be."""
    holds, *values = reader.operands(operation)
    known = reader.sizes(holds)
    if known is None:
        return None
    if not all(known):
        message = STRING.parse(reader.attribute(operation, "error_message"))
        found = [reader.sizes(v) for v in values]
        raise _refused(message, [f[0] if f else "?" for f in found])
    return ()


def run_shape_assertion(
    holds: Array, *values: Array, out: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Checked when it runs."""
    if not holds.all():
        raise _refused(str(attributes.get("error_message", "")), [int(v) for v in values])
    return ()


register_sized_reader("shape_assertion", read_shape_assertion)
register_custom_call("shape_assertion", run_shape_assertion)

# --- operations whose parameters are operands -----------------------------------------------------------------------


def read_dynamic_reduce_window(reader: Reader, operation: Any) -> Any:
    """reduce_window with what is known of its window; the computation is a function of the module."""
    operands = reader.operands(operation)
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")
    arrays, amounts = operands[: -len(names)], operands[-len(names) :]
    found = [reader.sizes(a) for a in amounts]
    if None in found or not all(x.spec.is_static for x in arrays):
        return None
    params: dict[str, Any] = dict(zip(names, found, strict=True))
    flat = params["padding"]
    params["padding"] = tuple(zip(flat[::2], flat[1::2], strict=True))
    (body,) = split_text(reader.text(operation, "called_computations").strip()[1:-1])
    return bind(
        lookup("reduce_window"),
        *arrays,
        body=reader.function(body.lstrip("@").strip('"')),
        **params,
    )


def read_dynamic_rng_bit_generator(reader: Reader, operation: Any) -> Any:
    """rng_bit_generator of a shape that is known."""
    state, sizes = reader.operands(operation)
    spec: Any = reader.result_specs(operation)[1]
    shape = spec.shape if not has_unknown(spec.shape) else reader.sizes(sizes)
    if shape is None:
        return None
    algorithm = Enum("rng_algorithm").parse(reader.attribute(operation, "rng_algorithm"))
    return bind(
        lookup("rng_bit_generator"), state, rng_algorithm=algorithm, shape=shape, dtype=spec.dtype
    )


def read_dynamic_top_k(reader: Reader, operation: Any) -> Any:
    """top_k of a number that is known."""
    x, count = reader.operands(operation)
    known = reader.sizes(count)
    if known is None or not x.spec.is_static:
        return None
    return bind(lookup("top_k"), x, k=known[0], largest=True)


def read_refinement_wrapper(reader: Reader, operation: Any) -> Any:
    """The operand, beside which its shape stands."""
    x, sizes = reader.operands(operation)
    known = reader.sizes(sizes)
    if known is None or not x.spec.is_static:
        return None
    ok = type(x.spec) is TensorSpec and x.spec.shape == known
    require(ok, "X3", f"the shape must be that of the operand, {x.spec.shape}", known)
    return x


_READERS: Final = {
    "dynamic_reduce_window": read_dynamic_reduce_window,
    "dynamic_rng_bit_generator": read_dynamic_rng_bit_generator,
    "dynamic_top_k": read_dynamic_top_k,
    "shape_refinement_operand_wrapper": read_refinement_wrapper,
}
for _name, _read in _READERS.items():
    register_sized_reader(f"stablehlo.{_name}", _read)
