"""RngUniform, RngNormal and RngBitGenerator: numbers from a state that XLA keeps, and bits from one that is given.

`xlapy.random` is the better source of randomness: its keys give the same numbers on every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import (
    TensorSpec,
    as_shape,
    as_word,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.codecs import Enum
from xlapy.trace.mode import bind, current_builder
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .bit_generators import philox_bits, three_fry_bits
from .bit_kernels import bitcast_convert
from .rules import broadcast_leading, zero
from .varying import known_values

__all__ = [
    "rng_bit_generator",
    "rng_bit_generator_op",
    "rng_normal",
    "rng_normal_op",
    "rng_uniform",
    "rng_uniform_op",
]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def _each_row(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """The operation on one row after the other."""
    rows = [
        x if b else broadcast_leading(x, size) for x, b in zip(args, is_batched, strict=True)
    ]  # fmt: skip
    specs = [x.spec.with_shape(x.spec.shape[1:]) for x in rows]
    body = as_computation(lambda *xs: bind(op, *xs, **params), specs, name=op.name)
    outs = bind(
        lookup("scan"), *rows, body=body, carries=0, dimension=0, is_reverse=False,
        is_associative=None,
    )  # fmt: skip
    return outs if len(outs) > 1 else outs[0]


# --- RngUniform and RngNormal -------------------------------------------------------------------------------------

#: what XLA draws itself; it aborts on any other type
_DRAWN: Final = frozenset({"s32", "s64", "u32", "u64", "f16", "bf16", "f32", "f64"})
_DISTRIBUTION: Final = Enum("rng_distribution")


def _drawn_type(dtype: DType) -> DType:
    """The type in which numbers are drawn that are converted to another one then."""
    if dtype.name in _DRAWN:
        return dtype
    return as_dtype({"int": "s32", "uint": "u32", "float": "f32"}[dtype.kind])


def infer_rng_uniform(a: TensorSpec, b: TensorSpec, *, shape: Ints) -> TensorSpec:
    """C1 to C3, of which C3 is how the result is made."""
    for x, label, name in ((a, "I1", "the first operand"), (b, "I2", "the second operand")):
        require_array(x, label, name)
        require_shape(x.rank == 0, label, f"{name} must be a scalar", x)
    require_dtype(a.dtype is b.dtype, "C1", "the operands must have one element type", (a, b))
    require_dtype(a.dtype.kind != "complex", "I1", "the element type must be real", a)
    require_dtype(
        a.dtype.kind != "bool", "X1", "the element type must be a number; compare numbers for booleans", a
    )  # fmt: skip
    spec = TensorSpec(shape, a.dtype)
    require_shape(spec.is_static, "X2", "the sizes must be known", shape)
    return spec


def infer_rng_normal(a: TensorSpec, b: TensorSpec, *, shape: Ints) -> TensorSpec:
    """As of rng_uniform; C2."""
    spec = infer_rng_uniform(a, b, shape=shape)
    require_dtype(spec.dtype.real, "C2", "the element type must be a float", a)
    return spec


def kernel_rng_uniform(a: Array, b: Array, *, shape: Ints, out: TensorSpec) -> Array:
    """Numbers of [a, b); where this is empty, a. No two calls give the same."""
    generator = np.random.default_rng()
    dtype = out.dtype.numpy
    if out.dtype.integer:
        first, end = int(a), int(b)
        if first >= end:
            return np.full(shape, a)
        wide = np.uint64 if out.dtype.kind == "uint" else np.int64
        return generator.integers(first, end, shape, wide).astype(dtype)
    share = generator.random(shape)
    found = np.asarray(float(a) * (1 - share) + float(b) * share).astype(dtype)
    # What rounding took to the end of the interval goes to the number before.
    return np.where(found == b, np.nextafter(b, a), found)


def kernel_rng_normal(a: Array, b: Array, *, shape: Ints, out: TensorSpec) -> Array:
    """Numbers of mean a and standard deviation b. No two calls give the same."""
    normal = np.random.default_rng().standard_normal(shape)
    return np.asarray(float(a) + float(b) * normal).astype(out.dtype.numpy)


def write_rng(distribution: str) -> Callable[[Writer, Any], None]:
    """The shape is an operand, which must be a constant; types that XLA does not draw are converted."""

    def write(writer: Writer, instruction: Any) -> None:
        (result,) = instruction.results
        spec: TensorSpec = result.spec
        drawn = _drawn_type(spec.dtype)
        rank = spec.rank
        sizes = ", ".join(map(str, spec.shape))
        kind = f"tensor<{rank}xi64>"
        value = f"dense<[{sizes}]>" if rank else "dense<>"
        bounds = [writer.names[v] for v in instruction.operands]
        scalar, scalars = TensorSpec((), drawn).mlir, instruction.operands[0].spec.mlir
        if drawn is not spec.dtype:
            bounds = [
                writer.raw(f'"stablehlo.convert"({x}) : ({scalars}) -> {scalar}') for x in bounds
            ]
        shape = writer.raw(f'"stablehlo.constant"() <{{value = {value} : {kind}}}> : () -> {kind}')
        made = spec.with_dtype(drawn).mlir
        found = writer.raw(
            f'"stablehlo.rng"({", ".join([*bounds, shape])}) <{{rng_distribution ='
            f" {_DISTRIBUTION.print(distribution)}}}> : ({scalar}, {scalar}, {kind}) -> {made}"
            + ("" if drawn is not spec.dtype else writer.location(instruction.source))
        )
        if drawn is not spec.dtype:
            found = writer.raw(
                f'"stablehlo.convert"({found}) : ({made}) -> {spec.mlir}'
                + writer.location(instruction.source)
            )
        writer.names[result] = found

    return write


def read_rng(reader: Reader, operation: Any) -> Any:
    """One operation stands for both distributions; a shape that is no constant must stand in the result's type."""
    a, b, sizes = reader.operands(operation)
    declared: Any = reader.result_specs(operation)[0]
    known = known_values(sizes)
    shape = declared.shape if known is None else tuple(known)
    _forget_constant(operation.operands[2], sizes)
    distribution = _DISTRIBUTION.parse(reader.attribute(operation, "rng_distribution"))
    op = rng_normal_op if distribution == "NORMAL" else rng_uniform_op
    return bind(op, a, b, shape=shape)


def _forget_constant(operand: Any, tensor: Tensor) -> None:
    """Take back a constant that says nothing but the shape: this is a parameter, and is written as a constant again."""
    builder = current_builder()
    assert builder is not None
    if len(list(operand.uses)) == 1 and builder.instructions[-1].results == (tensor.payload,):
        builder.instructions.pop()


rng_uniform_op = register(Op(
    name="rng_uniform",
    section="RngUniform",
    infer=infer_rng_uniform,
    hlo=Hlo("stablehlo.rng", write=write_rng("UNIFORM"), read=read_rng),
    kernel=kernel_rng_uniform,
    ad=zero,
    batch=_each_row,
))  # fmt: skip

rng_normal_op = register(Op(
    name="rng_normal",
    section="RngNormal",
    infer=infer_rng_normal,
    # It is read as the other distribution's operation.
    hlo=Hlo("", write=write_rng("NORMAL")),
    kernel=kernel_rng_normal,
    ad=zero,
    batch=_each_row,
))  # fmt: skip


def rng_uniform(a: Any, b: Any, shape: int | Sequence[int]) -> Tensor:
    """Numbers drawn evenly from [a, b), others each time.

    Parameters
    ----------
    a, b : scalar
        Of one element type, any integer or float.
    shape : int or sequence of int

    Returns
    -------
    Tensor
        Of this shape and the element type of `a` and `b`. XLA may give `b` itself where floats are narrower than f32,
        by rounding.

    Raises
    ------
    ShapeError
        [I1], [I2] If `a` or `b` is no scalar.
    DTypeError
        [C1] If their element types differ; [I1], [X1] if they are complex or boolean.

    Notes
    -----
    Section RngUniform of the operation semantics; ``stablehlo.rng``. The numbers come from a state that the backend
    keeps: they can be neither seeded nor repeated. XLA draws s32, u32, s64, u64, f16, bf16, f32 and f64; other types
    are drawn in wider ones and converted. Where ``b <= a`` the interpreter gives `a` for integers, and XLA any number.

    The derivative is 0; ``a + (b - a) * rng_uniform(0.0, 1.0, shape)`` has one with respect to `a` and `b`. In a
    function that is vectorised, rows share a draw unless its `a` or `b` differs from row to row.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.rng_uniform(5, 6, (2, 3))
    Tensor([[5, 5, 5],
            [5, 5, 5]], s32[2,3])
    """
    return _drawn(rng_uniform_op, a, b, shape)


def rng_normal(mu: Any, sigma: Any, shape: int | Sequence[int]) -> Tensor:
    """Numbers of a normal distribution, others each time.

    Parameters
    ----------
    mu, sigma : scalar
        Mean and standard deviation, of one float type.
    shape : int or sequence of int

    Returns
    -------
    Tensor
        Of this shape and the element type of `mu` and `sigma`.

    Raises
    ------
    ShapeError
        [I1], [I2] If `mu` or `sigma` is no scalar.
    DTypeError
        [C1] If their element types differ; [C2], [I1], [X1] if they are no floats.

    Notes
    -----
    Section RngNormal of the operation semantics; ``stablehlo.rng``. What is said of `rng_uniform` holds: no seed, a
    derivative of 0, rows that share a draw.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.rng_normal(3.0, 0.0, 2)
    Tensor([3., 3.], f32[2])
    """
    return _drawn(rng_normal_op, mu, sigma, shape)


def _drawn(op: Op, a: Any, b: Any, shape: Any) -> Tensor:
    result: Tensor = bind(op, lift(a, (b,)), lift(b, (a,)), shape=as_shape(shape))
    return result


# --- RngBitGenerator ----------------------------------------------------------------------------------------------

ALGORITHMS: Final = ("DEFAULT", "THREE_FRY", "PHILOX")
_ALGORITHM: Final = Enum("rng_algorithm")


def infer_rng_bit_generator(
    state: TensorSpec, *, rng_algorithm: str, shape: Ints, dtype: DType
) -> tuple[TensorSpec, TensorSpec]:
    """C1, which is how the results are made, and C2."""
    require(
        rng_algorithm in ALGORITHMS, "I1", f"rng_algorithm must be one of {ALGORITHMS}", rng_algorithm
    )  # fmt: skip
    require_array(state, "I2", "the state")
    require_dtype(state.dtype.name == "u64", "I2", "the state must be of u64", state)
    require_shape(state.rank == 1 and state.is_static, "I2", "the state must be a vector", state)
    sizes = (2,) if rng_algorithm == "THREE_FRY" else (2, 3)
    require_shape(
        state.shape[0] in sizes,
        "C2",
        f"the state of {rng_algorithm} must have {' or '.join(map(str, sizes))} elements",
        state,
    )
    spec = TensorSpec(shape, dtype)
    require_dtype(
        spec.dtype.integer or spec.dtype.real, "X1", "the element type must be an integer or a float", dtype
    )  # fmt: skip
    require_dtype(
        spec.dtype.bits != 6, "X2", "there must be an integer of the element type's width", dtype
    )
    require_shape(spec.is_static, "X3", "the sizes must be known", shape)
    return state, spec


def kernel_rng_bit_generator(
    state: Array, *, rng_algorithm: str, shape: Ints, dtype: DType, out: Any
) -> tuple[Array, Array]:
    """XLA's bits on a CPU, where DEFAULT is PHILOX; of each word as many low bits as an element has."""
    generate = three_fry_bits if rng_algorithm == "THREE_FRY" else philox_bits
    after, words = generate(state, shape, dtype.bits)
    unsigned = words.astype(_unsigned(dtype).numpy, copy=False)
    return after, bitcast_convert(unsigned, dtype.numpy)


def _unsigned(dtype: DType) -> DType:
    """The unsigned integer of a type's width."""
    return as_dtype(f"u{dtype.bits}")


def write_rng_bit_generator(writer: Writer, instruction: Any) -> None:
    """XLA makes unsigned integers whatever the type says; other types are their bits."""
    state, bits = instruction.results
    spec: TensorSpec = bits.spec
    unsigned = _unsigned(spec.dtype)
    attribute = f"rng_algorithm = {_ALGORITHM.print(instruction.params['rng_algorithm'])}"
    if unsigned is spec.dtype:
        writer.line("stablehlo.rng_bit_generator", instruction, attribute)
        return
    given, kind = writer.names[instruction.operands[0]], state.spec.mlir
    made = spec.with_dtype(unsigned).mlir
    location = writer.location(instruction.source)
    writer.names[state], words = writer.raw_several(
        f'"stablehlo.rng_bit_generator"({given}) <{{{attribute}}}> : ({kind}) -> ({kind}, {made}){location}',
        2,
    )
    writer.names[bits] = writer.raw(
        f'"stablehlo.bitcast_convert"({words}) : ({made}) -> {spec.mlir}{location}'
    )


def read_rng_bit_generator(reader: Reader, operation: Any) -> Any:
    """The shape and element type stand in the result's type."""
    spec: Any = reader.result_specs(operation)[1]
    return bind(
        rng_bit_generator_op,
        *reader.operands(operation),
        rng_algorithm=_ALGORITHM.parse(reader.attribute(operation, "rng_algorithm")),
        shape=spec.shape,
        dtype=spec.dtype,
    )


rng_bit_generator_op = register(Op(
    name="rng_bit_generator",
    section="RngBitGenerator",
    infer=infer_rng_bit_generator,
    hlo=Hlo(
        "stablehlo.rng_bit_generator", write=write_rng_bit_generator, read=read_rng_bit_generator
    ),
    kernel=kernel_rng_bit_generator,
    ad=zero,
    batch=_each_row,
))  # fmt: skip


def rng_bit_generator(
    algorithm: str, initial_state: Any, shape: int | Sequence[int], dtype: Any = "u32"
) -> tuple[Tensor, Tensor]:
    """Random bits that follow from a state, and the state for the next ones.

    Parameters
    ----------
    algorithm : str
        ``"THREE_FRY"``, ``"PHILOX"``, or ``"DEFAULT"`` for the one that the backend likes best.
    initial_state : u64[2] or u64[3]
        A key and a counter; three elements for ``"PHILOX"`` and ``"DEFAULT"`` only, whose counter may have 128 bits.
    shape : int or sequence of int
    dtype : dtype
        Any integer or float, of which each bit is random: floats may be nan or infinite.

    Returns
    -------
    state : Tensor
        Of the spec of `initial_state`.
    bits : Tensor

    Raises
    ------
    ConstraintError
        [I1] For another algorithm.
    ShapeError
        [I2], [C2] If the state has another shape.
    DTypeError
        [I2] If the state has another element type; [X1], [X2] for complex numbers, booleans and floats of 6 bits.

    Notes
    -----
    Section RngBitGenerator of the operation semantics; ``stablehlo.rng_bit_generator``. The interpreter gives the bits
    of XLA on a CPU, where ``"DEFAULT"`` is ``"PHILOX"``. Other platforms and versions may give others, most of all for
    ``"DEFAULT"``. Vectorised, each row's state gives its own bits.

    Examples
    --------
    >>> import numpy as np
    >>> from xlapy import ops
    >>> state, bits = ops.rng_bit_generator("THREE_FRY", np.array([1, 2], np.uint64), 3)
    >>> bits
    Tensor([  43444564, 2150618427, 3979645651], u32[3])
    >>> state
    Tensor([1, 4], u64[2])
    """
    state, bits = bind(
        rng_bit_generator_op,
        lift(initial_state),
        rng_algorithm=as_word(algorithm, "RNG_"),
        shape=as_shape(shape),
        dtype=as_dtype(dtype),
    )
    return state, bits
