"""What operations with computed sizes share: checks, compositions for XLA, reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import UnsupportedOpError
from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_shape,
    has_unknown,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.autodiff import has_tangent, jvp_computation
from xlapy.trace.batching import replay_batched
from xlapy.trace.builder import lift, trace
from xlapy.trace.computation import Instruction, Value, subcomputations
from xlapy.trace.mode import bind, current_builder
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .forms import part, reshaped
from .rules import Rules, broadcast_leading, vjp_through, zeros_like

Ints = tuple[int, ...]

#: the element type of sizes
SIZE: Final = as_dtype("s32")


def require_sizes(
    x: Any, label: str, what: str, count: int | None = None, counted: str = ""
) -> None:
    """An array of one dimension of integers, one for each dimension of something."""
    require_array(x, label, what)
    require_dtype(x.dtype.integer, label, f"{what} must be integers", x)
    require_shape(x.rank == 1, label, f"{what} must have one dimension", x)
    if count is not None:
        require_shape(
            x.shape[0] in (count, DYNAMIC), counted, f"{what} must have {count} entries", x
        )


def checked(shape: Any, out: TensorSpec) -> Ints:
    """Sizes found at run time: they must be those that are known, or within their bounds."""
    sizes = tuple(int(n) for n in shape)
    fits = len(sizes) == out.rank and all(
        n >= 0 and (m is DYNAMIC or n == m or (i in out.dynamic and n <= m))
        for i, (n, m) in enumerate(zip(sizes, out.shape))
    )
    require_shape(fits, "X3", f"the sizes must be those of the result {out}", sizes)
    return sizes


def element(values: Any, position: int) -> Any:
    """One entry of an array of one dimension, as an s32 scalar."""
    return bind(lookup("convert_element_type"), reshaped(part(values, position), ()), dtype=SIZE)


def known_values(x: Any) -> list[int] | None:
    """The integers that a traced tensor holds, if the program computes them from constants alone."""
    builder = current_builder()
    value = x.payload
    if builder is None or type(value) is not Value:
        return None
    makers = {v: i for i in builder.instructions for v in i.results}
    found = _evaluate(value, makers)
    return None if found is None else [int(n) for n in found.reshape(-1)]


def _evaluate(value: Value, makers: dict[Value, Instruction]) -> np.ndarray[Any, Any] | None:
    instruction = makers.get(value)
    if (
        instruction is None
        or len(instruction.results) != 1
        or any(subcomputations(instruction.params))
    ):
        return None
    if instruction.op.ad.kind not in ("elementwise", "linear", "bilinear", "zero"):
        return None
    if not instruction.operands and instruction.op.name not in ("constant", "iota"):
        return None
    arrays = []
    for v in instruction.operands:
        found = _evaluate(v, makers)
        if found is None:
            return None
        arrays.append(found)
    with np.errstate(all="ignore"):
        return np.asarray(instruction.op.kernel(*arrays, out=value.spec, **instruction.params))


def within_bound(size: Any, bound: int) -> Any:
    """A size cut to [0, bound], unless it is known to be: beyond it XLA writes into foreign memory."""
    known = known_values(size)
    if known is not None and 0 <= known[0] <= bound:
        return size
    maker = _maker(size)
    if maker is not None and maker.op.name == "clamp":
        limits = [known_values(Tensor(v.spec, v)) for v in (maker.operands[0], maker.operands[2])]
        if limits == [[0], [bound]]:
            return size
    return bind(lookup("clamp"), lift(0, (size,)), size, lift(bound, (size,)))


def _maker(x: Any) -> Instruction | None:
    """The instruction that a traced tensor comes from."""
    builder = current_builder()
    instructions = [] if builder is None else builder.instructions
    return next((i for i in reversed(instructions) if x.payload in i.results), None)


def with_sizes(x: Any, result: TensorSpec, size: Any) -> Any:
    """An array at its bounds cut to the sizes ``size(dimension)`` where the result's vary."""
    for d in result.dynamic:
        if d not in x.spec.dynamic:
            x = bind(
                lookup("set_dimension_size"),
                x,
                within_bound(size(d), result.shape[d]),
                dimension=d,
                varies=True,
            )
    return x


def require_bounds(result: TensorSpec) -> None:
    """XLA needs a bound for each size."""
    if has_unknown(result.shape):
        raise UnsupportedOpError(
            f"sizes must be known or bounded for XLA; got a result {result}: run it on the interpreter, or give the"
            " program's arguments static shapes [X5]"
        )


def _composed(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """The operation as a computation of what it is composed of."""
    decompose = op.hlo.decomposition
    assert decompose is not None
    return trace(
        lambda *xs: decompose(*xs, **params), [x.spec for x in operands], name=op.name
    ).computation


def batch_composed(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """The rules of what the operation is composed of."""
    computation = _composed(
        op,
        [_Row(a.spec, b) for a, b in zip(args, is_batched, strict=True)],
        params,
    )
    outs, flags = replay_batched(computation, args, is_batched, size)
    return outs[0] if flags[0] else broadcast_leading(outs[0], size)


class _Row:
    """Stands for one row of a batched operand."""

    __slots__ = ("spec",)

    def __init__(self, spec: TensorSpec, is_batched: bool) -> None:
        self.spec = spec
        if is_batched:
            self.spec = spec.with_shape(spec.shape[1:], tuple(d - 1 for d in spec.dynamic))


def composed_derivatives(
    name: str, wrt: Ints = (0,), of_any_size: Callable[..., Any] | None = None
) -> Rules:
    """The derivatives of an operation that is linear in the operands `wrt` and has a composition.

    A result with unknown sizes has none; ``of_any_size(cotangent, *operands, **params)`` is its transpose by the first
    operand.
    """

    def jvp(
        operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        arguments = list(operands)
        for i in wrt:
            arguments[i] = zeros_like(operands[i]) if tangents[i] is None else tangents[i]
        return (bind(lookup(name), *arguments, **params),)

    def vjp(
        operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        if of_any_size is not None and has_unknown(params["result"].shape):
            back = of_any_size(cotangents[0], *operands, **params)
            return (back, *[None] * (len(operands) - 1))
        computation = _composed(lookup(name), operands, params)
        needed = [i in wrt for i in range(len(operands))]
        return vjp_through(computation, operands, cotangents, needed)

    return Rules(jvp, vjp)


def derivatives_of_composition(name: str) -> Rules:
    """The derivatives of an operation through what it is composed of."""

    def jvp(
        operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        computation = _composed(lookup(name), operands, params)
        active = [t is not None for t in tangents]
        forward, _ = jvp_computation(computation, active, [True])
        return inline(forward, [*operands, *[t for t in tangents if t is not None]])[1:]

    def vjp(
        operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        computation = _composed(lookup(name), operands, params)
        needed = [has_tangent(x.spec) for x in operands]
        return vjp_through(computation, operands, cotangents, needed)

    return Rules(jvp, vjp)


def read_result(reader: Reader, operation: Any) -> TensorSpec:
    """The declared result, where operands do not say it."""
    spec = reader.result_specs(operation)[0]
    require_array(spec, "X1", "the result")
    assert type(spec) is TensorSpec
    return spec


def known_shape(reader: Reader, sizes: Any, result: TensorSpec) -> Ints | None:
    """The shape of a declared result of any size, where its sizes follow from those of the arguments."""
    if not has_unknown(result.shape):
        return None
    found = reader.sizes(sizes)
    if found is not None:
        require_shape(min(found, default=0) >= 0, "X3", "sizes must not be negative", found)
    return found


def known_amounts(
    reader: Reader, x: Any, amounts: Sequence[Any], result: TensorSpec
) -> list[Ints] | None:
    """As `known_shape`, of amounts that say what becomes of an array's sizes."""
    if not has_unknown(result.shape) or not x.spec.is_static:
        return None
    found = [reader.sizes(a) for a in amounts]
    return None if None in found else [f for f in found if f is not None]


def result_of(dtype: Any, sizes: Any, are_dynamic: Sequence[bool] | None) -> TensorSpec:
    """The spec of a result from its sizes or bounds."""
    shape = as_shape(sizes)
    flags = (False,) * len(shape) if are_dynamic is None else tuple(bool(f) for f in are_dynamic)
    require(
        len(flags) == len(shape), "X1", f"dims_are_dynamic must have {len(shape)} entries", flags
    )
    return TensorSpec(shape, dtype, tuple(i for i, f in enumerate(flags) if f))


def lift_sizes(sizes: Any) -> Tensor:
    """Sizes as one array: from an array, or from integers and integer scalars."""
    if not isinstance(sizes, list | tuple) or not any(isinstance(s, Tensor) for s in sizes):
        return lift(
            sizes if not isinstance(sizes, list | tuple) or sizes else np.zeros(0, np.int32)
        )
    like = next(s for s in sizes if isinstance(s, Tensor))
    rows = [reshaped(lift(s, (like,)), (1,)) for s in sizes]
    result: Tensor = bind(lookup("concatenate"), *rows, dimension=0)
    return result


def write_with_result(name: str, **codecs: Any) -> Any:
    """A writer for operations whose parameter `result` stands in the result's type."""

    def write(writer: Writer, instruction: Any) -> None:
        params = instruction.params
        texts = [(key, codec.print(params[key])) for key, codec in codecs.items()]
        writer.line(name, instruction, ", ".join(f"{k} = {t}" for k, t in texts if t is not None))

    return write
