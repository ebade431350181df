"""Bitcast, which XLA puts into programs itself: an array's memory in another order, or as elements of another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from xlapy.specs import TensorSpec, require, require_array, require_dtype, require_shape
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.stablehlo_reader import Reader

from .bit_kernels import bitcast_convert
from .branch_rules import Fused

__all__ = ["bitcast_op", "layout_of"]

Array = np.ndarray[Any, Any]


def infer_bitcast(
    x: TensorSpec,
    *,
    shape: tuple[int, ...],
    dtype: Any,
    source_layout: tuple[int, ...],
    result_layout: tuple[int, ...],
) -> TensorSpec:
    """I1, X2: an array of known shape; X1: layouts that permute; C1: as many bits; X3: types made of each other."""
    require_array(x, "I1")
    require_shape(x.is_static, "X2", "the shape must be known", x)
    result = TensorSpec(shape, dtype)
    for what, layout, rank in (
        ("source_layout", source_layout, x.rank),
        ("result_layout", result_layout, result.rank),
    ):
        ok = sorted(layout) == list(range(rank))
        require(ok, "X1", f"{what} must list {rank} dimensions from minor to major", layout)
    wide, narrow = sorted((_bits(x.dtype), _bits(result.dtype)), reverse=True)
    parts = x.dtype is result.dtype or (
        wide % narrow == 0 and "complex" not in (x.dtype.kind, result.dtype.kind)
    )
    require_dtype(
        parts, "X3", f"the result must be {x.dtype}, or both be real and made of each other", result
    )
    require_shape(
        x.size * _bits(x.dtype) == result.size * _bits(result.dtype), "C1",
        f"the result must have as many bits as {x}", result,
    )  # fmt: skip
    return result


def _bits(dtype: Any) -> int:
    """How many bits an element takes in memory; XLA keeps truth values in bytes."""
    bits: int = 8 if dtype.kind == "bool" else dtype.bits
    return bits


def kernel_bitcast(
    x: Array, *, shape: tuple[int, ...], dtype: Any, source_layout: tuple[int, ...], result_layout: tuple[int, ...],
    out: TensorSpec,
) -> Array:  # fmt: skip
    """The operand's memory read as the result; layouts list dimensions from minor to major."""
    flat = np.ascontiguousarray(x.transpose(source_layout[::-1])).reshape(-1)
    given = TensorSpec(flat.shape, x.dtype)
    for name, spec, _ in _type_steps(given, out):
        if name == "reshape":
            flat = flat.reshape(spec.shape)
        elif name == "convert_element_type":
            flat = flat != 0 if spec.dtype.kind == "bool" else flat.astype(spec.dtype.numpy)
        else:
            flat = bitcast_convert(flat, spec.dtype.numpy)
    order = result_layout[::-1]
    return flat.reshape([shape[i] for i in order]).transpose(np.argsort(order, kind="stable"))


_Step = tuple[str, TensorSpec, dict[str, Any]]


def _type_steps(current: TensorSpec, result: TensorSpec) -> list[_Step]:
    """The operations that make the elements of another type of an array's memory: (name, result, parameters)."""
    steps: list[_Step] = []

    def step(name: str, spec: TensorSpec, params: dict[str, Any]) -> TensorSpec:
        steps.append((name, spec, params))
        return spec

    def convert(dtype: Any) -> TensorSpec:
        made = TensorSpec(current.shape, dtype)
        return step("convert_element_type", made, {"dtype": made.dtype})

    if current.dtype is result.dtype:
        return steps
    if current.dtype.kind == "bool":
        current = convert("u8")
    bits = TensorSpec((), "u8").dtype if result.dtype.kind == "bool" else result.dtype
    if current.dtype is not bits:
        wide, narrow = current.dtype.bits, bits.bits
        ratio = max(wide, narrow) // min(wide, narrow)
        count = current.size // ratio if wide < narrow else current.size
        flat = (count, ratio) if wide < narrow else (count,)
        if current.shape != flat:
            current = step("reshape", current.with_shape(flat), {"shape": flat})
        made = TensorSpec((count, ratio) if wide > narrow else (count,), bits)
        current = step("bitcast_convert_type", made, {"dtype": bits})
    if result.dtype.kind == "bool":
        convert("pred")
    return steps


def _steps(x: Any, params: Mapping[str, Any]) -> list[_Step]:
    """The operations that a bitcast is made of: (name, result, parameters)."""
    source, target = params["source_layout"][::-1], params["result_layout"][::-1]
    result = TensorSpec(params["shape"], params["dtype"])
    steps: list[_Step] = []
    current: TensorSpec = x
    if source != tuple(range(x.rank)):
        current = current.with_shape([x.shape[i] for i in source])
        steps.append(("transpose", current, {"permutation": source}))
    steps += _type_steps(current, result)
    current = steps[-1][1] if steps else current
    ordered = [result.shape[i] for i in target]
    if list(current.shape) != ordered:
        current = current.with_shape(ordered)
        steps.append(("reshape", current, {"shape": tuple(ordered)}))
    if target != tuple(range(result.rank)):
        back = tuple(int(i) for i in np.argsort(target))
        current = current.with_shape([current.shape[i] for i in back])
        steps.append(("transpose", current, {"permutation": back}))
    return steps


def _bitcast(x: Any, **params: Any) -> Any:
    """Transposes and reshapes, and the bits as others between them."""
    for name, result, given in _steps(x.spec, params):
        if name == "bitcast_convert_type":
            x = _convert_bits(x, result)
        else:
            x = bind(lookup(name), x, **given)
    return x


def _convert_bits(x: Any, result: TensorSpec) -> Any:
    from .conversion import bitcast_convert_type

    found = bitcast_convert_type(x, result.dtype)
    require_shape(found.spec == result, "X1", f"the bits must make {result}", found.spec)
    return found


def read_bitcast(reader: Reader, operation: Any) -> Any:
    """Layouts are attributes of their own; without them the last dimension is the minor one."""
    (operand,) = reader.operands(operation)
    spec: Any = reader.result_specs(operation)[0]
    return bind(
        bitcast_op,
        operand,
        shape=spec.shape,
        dtype=spec.dtype,
        source_layout=_layout(reader, operation, "source_layout", operand.spec.rank),
        result_layout=_layout(reader, operation, "result_layout", spec.rank),
    )


def _layout(reader: Reader, operation: Any, name: str, rank: int) -> tuple[int, ...]:
    attribute = reader.attribute(operation, name)
    if attribute is None:
        return tuple(range(rank))[::-1]
    return layout_of(str(attribute))


def layout_of(text: str) -> tuple[int, ...]:
    """The dimensions in ``dense<[1, 0]> : tensor<2xindex>``."""
    body = text[text.index("<") + 1 : text.index(">")]
    return tuple(int(n) for n in body.strip("[]").split(",") if n.strip())


@final
class _BitcastRules(Fused):
    """Linear where the type stays; bits of another type are no numbers that vary."""

    __slots__ = ()

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Mapping[str, Any]
    ) -> Any:
        """The same of the tangent."""
        same = operands[0].dtype is params["dtype"]
        out = bind(op, operands[0], **params)
        return (out,), (bind(op, tangents[0], **params) if same else None,)

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Mapping[str, Any]
    ) -> Any:
        """Nothing is kept."""
        return (bind(op, operands[0], **params),), ()

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Mapping[str, Any],
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The bitcast that leads back."""
        spec = operands[0].spec
        if spec.dtype is not params["dtype"]:
            return [None]
        return [
            bind(
                op, cotangents[0], shape=spec.shape, dtype=spec.dtype, source_layout=params["result_layout"],
                result_layout=params["source_layout"],
            )
        ]  # fmt: skip


def batch_bitcast(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, shape: tuple[int, ...], dtype: Any,
    source_layout: tuple[int, ...], result_layout: tuple[int, ...],
) -> Any:  # fmt: skip
    """The new axis is the major one."""
    return bind(
        op,
        args[0],
        shape=(size, *shape),
        dtype=dtype,
        source_layout=(*[i + 1 for i in source_layout], 0),
        result_layout=(*[i + 1 for i in result_layout], 0),
    )


bitcast_op = register(Op(
    name="bitcast",
    section="Bitcast",
    infer=infer_bitcast,
    hlo=Hlo("", decomposition=_bitcast),
    kernel=kernel_bitcast,
    ad=_BitcastRules(),
    batch=batch_bitcast,
))  # fmt: skip
register_reader("mhlo.bitcast", read_bitcast)
