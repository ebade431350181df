"""Scan: a computation applied to one slice after the other, with values that are carried along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec, as_axis, require, require_array, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.autodiff import jvp_computation, vjp_computation
from xlapy.trace.batching import batch_computation
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.codecs import BOOL, I64, Optional
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .branch_rules import Fused
from .forms import permuted
from .regions import as_list, listed, rearranged, require_computation, traced_with_captures
from .rules import broadcast_leading, zeros_like, zeros_of

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- the record -----------------------------------------------------------------------------------


def infer_scan(
    *operands: TensorSpec,
    body: Computation,
    carries: int,
    dimension: int,
    is_reverse: bool,
    is_associative: bool | None,
) -> tuple[TensorSpec, ...]:
    """X1 to X5; there is no StableHLO operation to take labels from."""
    require(
        type(carries) is int and 0 <= carries < len(operands),
        "X1",
        "there must be an input beside the inits",
        (len(operands), carries),
    )
    for x in operands:
        require_array(x, "I1", "each operand")
        require(x.is_static, "X1", "the sizes must be known", x)
    count = len(operands) - carries
    inputs, inits = operands[:count], operands[count:]
    least = min(x.rank for x in inputs)
    require(
        type(dimension) is int and 0 <= dimension < least,
        "X2",
        f"dimension must be in [0, {least})",
        dimension,
    )
    length = inputs[0].shape[dimension]
    require_shape(
        all(x.shape[dimension] == length for x in inputs),
        "X3",
        "the inputs must be of one size along the dimension",
        tuple(inputs),
    )
    require_computation(
        body, [*[without_dimension(x, dimension) for x in inputs], *inits], "I2", "X4", "body"
    )
    results = body.result_specs
    outputs = results[: len(results) - carries]
    require_dtype(
        len(results) >= carries and results[len(outputs) :] == tuple(inits),
        "X5",
        f"body must give the carried values {listed(inits)} at last",
        listed(results),
    )
    for y in outputs:
        require_dtype(
            type(y) is TensorSpec and y.is_static and dimension <= y.rank,
            "X5",
            f"each output must be an array of at least {dimension} dimensions",
            y,
        )
    return (*[_with_dimension(y, dimension, length) for y in outputs], *inits)


def without_dimension(x: TensorSpec, dimension: int) -> TensorSpec:
    """The spec of a slice."""
    return x.with_shape((*x.shape[:dimension], *x.shape[dimension + 1 :]))


def _with_dimension(x: Any, dimension: int, length: int) -> TensorSpec:
    spec: TensorSpec = x.with_shape((*x.shape[:dimension], length, *x.shape[dimension:]))
    return spec


def kernel_scan(
    *arrays: Array,
    body: Callable[..., tuple[Array, ...]],
    carries: int,
    dimension: int,
    is_reverse: bool,
    is_associative: bool | None,
    out: Any,
) -> tuple[Array, ...]:
    """(output[i], carried) = body(input[i], carried), from the first i to the last or the other way."""
    count = len(arrays) - carries
    inputs = [np.moveaxis(x, dimension, 0) for x in arrays[:count]]
    carried: Sequence[Any] = arrays[count:]
    several = len(out) - carries
    outputs = [np.empty(s.shape, s.dtype.numpy) for s in out[:several]]
    rows = [np.moveaxis(y, dimension, 0) for y in outputs]
    steps = range(len(inputs[0]))
    for i in reversed(steps) if is_reverse else steps:
        found = body(*[x[i] for x in inputs], *carried)
        for y, f in zip(rows, found, strict=False):
            y[i] = f
        carried = found[several:]
    return (*outputs, *carried)


# --- as loops -------------------------------------------------------------------------------------


def decompose_scan(
    *operands: Any,
    body: Computation,
    carries: int,
    dimension: int,
    is_reverse: bool,
    is_associative: bool | None,
) -> tuple[Any, ...]:
    """A while over the slices, for formats without scan."""
    count = len(operands) - carries
    params: Any = {"body": body, "carries": carries, "dimension": dimension}
    specs = infer_scan(
        *[x.spec for x in operands], **params, is_reverse=is_reverse, is_associative=is_associative
    )
    outputs = [zeros_of(s) for s in specs[: len(specs) - carries]]
    length = operands[0].spec.shape[dimension]
    if not length:
        return (*outputs, *operands[count:])
    number = as_dtype("s32" if length < 2**31 - 1 else "s64")

    def constant(value: int) -> Any:
        return bind(lookup("constant"), value=np.asarray(value, number.numpy))

    def starts(rank: int, i: Any) -> list[Any]:
        return [i if d == dimension else constant(0) for d in range(rank)]

    def step(i: Any, *state: Any) -> list[Any]:
        xs, ys = state[:count], state[count : count + len(outputs)]
        at = bind(lookup("sub"), constant(length - 1), i) if is_reverse else i
        slices = []
        for x in xs:
            spec = x.spec
            sizes = tuple(1 if d == dimension else n for d, n in enumerate(spec.shape))
            piece = bind(lookup("dynamic_slice"), x, *starts(spec.rank, at), slice_sizes=sizes)
            small = without_dimension(spec, dimension).shape
            slices.append(bind(lookup("reshape"), piece, shape=small))
        found = inline(body, [*slices, *state[count + len(outputs) :]])
        written = []
        for y, f in zip(ys, found, strict=False):
            shape = tuple(1 if d == dimension else n for d, n in enumerate(y.spec.shape))
            piece = bind(lookup("reshape"), f, shape=shape)
            place = starts(y.spec.rank, at)
            written.append(bind(lookup("dynamic_update_slice"), y, piece, *place))
        return [bind(lookup("add"), i, constant(1)), *xs, *written, *found[len(outputs) :]]

    def more(i: Any, *state: Any) -> Any:
        less = {"comparison_direction": "LT", "compare_type": "SIGNED"}
        return bind(lookup("compare"), i, constant(length), **less)

    state = [constant(0), *operands[:count], *outputs, *operands[count:]]
    kinds = [s.spec for s in state]
    found = bind(
        lookup("while"),
        *state,
        cond=as_computation(more, kinds, name="cond"),
        body=as_computation(step, kinds, name="scan"),
    )
    return tuple(found[1 + count :])


# --- derivatives ----------------------------------------------------------------------------------


def _carried_activity(
    body: Computation, inputs: Sequence[bool], inits: Sequence[bool]
) -> tuple[list[bool], list[bool]]:
    """Which carried values and which outputs vary with what is active, once this has gone around."""
    carried = list(inits)
    while True:
        _, outs = jvp_computation(body, [*inputs, *carried])
        outputs = outs[: len(outs) - len(carried)]
        grown = [a or b for a, b in zip(carried, outs[len(outputs) :], strict=True)]
        if grown == carried:
            return carried, outputs
        carried = grown


def _chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [v for v, f in zip(values, flags, strict=True) if f]


def _spread(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    found = iter(values)
    return [next(found) if f else None for f in flags]


@final
class ScanDerivatives(Fused):
    """Both modes are scans: of the body with its tangents, and of its way back the other way round."""

    __slots__ = ()

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Any
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """One scan of values and tangents."""
        body, carries = params["body"], params["carries"]
        m = len(operands) - carries
        inputs = [t is not None for t in tangents[:m]]
        carried, outputs = _carried_activity(body, inputs, [t is not None for t in tangents[m:]])
        dual, _ = jvp_computation(body, [*inputs, *carried], [*outputs, *carried])
        # From (inputs, carried, input tangents, carried tangents) to the order of a scan, and the same of the results.
        specs = body.parameter_specs
        given = [*specs[:m], *_chosen(specs[:m], inputs)]
        kept = [*specs[m:], *_chosen(specs[m:], carried)]
        places = list(range(len(given) + len(kept)))
        taken = [
            *places[:m],
            *places[len(given) : len(given) + carries],
            *places[m : len(given)],
            *places[len(given) + carries :],
        ]
        dual = rearranged(dual, [*given, *kept], taken)
        n, extra = len(outputs), sum(outputs)
        results = dual.results
        order = [
            *results[:n],
            *results[n + carries : n + carries + extra],
            *results[n : n + carries],
            *results[n + carries + extra :],
        ]
        wide = Computation(dual.parameters, dual.instructions, order, dual.name)
        found = bind(
            op,
            *operands[:m],
            *_chosen(tangents[:m], inputs),
            *operands[m:],
            *[
                zeros_like(x) if t is None else t
                for x, t, a in zip(operands[m:], tangents[m:], carried, strict=True)
                if a
            ],
            **{**params, "body": wide, "carries": len(kept), "is_associative": None},
        )
        outs = [*found[:n], *found[n + extra : n + extra + carries]]
        out_tangents = [
            *_spread(found[n : n + extra], outputs),
            *_spread(found[n + extra + carries :], carried),
        ]
        return outs, out_tangents

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Any
    ) -> tuple[Sequence[Any], Any]:
        """A scan that also gives what was carried into each step."""
        body, carries = params["body"], params["carries"]
        m = len(operands) - carries
        n = len(body.results) - carries
        kept = _changing(body, m, n)
        order = [
            *body.results[:n],
            *_chosen(body.parameters[m:], kept),
            *body.results[n:],
        ]
        deep = params["dimension"]
        if any(v.spec.rank < deep for v in _chosen(body.parameters[m:], kept)):
            # What is carried has too few dimensions to be an output there.
            return _forward_moved(op, operands, params, kept)
        wide = Computation(body.parameters, body.instructions, order, body.name)
        found = bind(op, *operands, **{**params, "body": wide, "is_associative": None})
        extra = sum(kept)
        return [*found[:n], *found[n + extra :]], list(found[n : n + extra])

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Any,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """A scan of the body's way back, from the last step to the first."""
        body, carries, dimension = params["body"], params["carries"], params["dimension"]
        m = len(operands) - carries
        n = len(body.results) - carries
        kept = _changing(body, m, n)
        wanted = list(needed[:m])
        carried, varying = _carried_activity(body, wanted, list(needed[m:]))
        given = [c is not None and v for c, v in zip(cotangents[:n], varying, strict=True)]
        back = eliminate_dead(vjp_computation(body, [*wanted, *carried], [*given, *carried]))
        inputs, inits = operands[:m], operands[m:]
        # The way back takes (inputs, carried, cotangents of outputs, cotangents of carried). In its scan the inputs are
        # the inputs, what was carried and changes, and the cotangents of outputs; the rest is carried.
        still = [not k for k in kept]
        specs = list(back.parameter_specs)
        own = list(range(len(specs)))
        ins, held = own[:m], own[m : m + carries]
        out_cts, carried_cts = (
            own[m + carries : m + carries + sum(given)],
            own[m + carries + sum(given) :],
        )
        arrangement = [*ins, *_chosen(held, kept), *out_cts, *carried_cts, *_chosen(held, still)]
        handed = [arrangement.index(h) for h in _chosen(held, still)]
        around = rearranged(
            back, [specs[a] for a in arrangement], [arrangement.index(o) for o in own], handed
        )
        if dimension and any(v.spec.rank < dimension for v in _chosen(body.parameters[m:], kept)):
            inputs = [_first(x, dimension) for x in inputs]
            cts = [_first(c, dimension) for c in _chosen(cotangents[:n], given)]
            along = 0
        else:
            cts, along = _chosen(cotangents[:n], given), dimension
        found = bind(
            op,
            *inputs,
            *residuals,
            *cts,
            *[
                zeros_like(x) if c is None else c
                for x, c, a in zip(inits, cotangents[n:], carried, strict=True)
                if a
            ],
            *_chosen(inits, still),
            body=around,
            carries=len(carried_cts) + sum(still),
            dimension=along,
            is_reverse=not params["is_reverse"],
            is_associative=None,
        )
        of_inputs = _spread(found, wanted)
        if along != dimension:
            of_inputs = [g if g is None else _last_to(g, dimension) for g in of_inputs]
        rest = found[sum(wanted) :]
        of_inits = _spread(rest, carried)
        return [
            *of_inputs,
            *[g if want else None for g, want in zip(of_inits, needed[m:], strict=True)],
        ]


def _changing(body: Computation, m: int, n: int) -> list[bool]:
    """Which carried values the body does not hand on as they are."""
    return [p is not r for p, r in zip(body.parameters[m:], body.results[n:], strict=True)]


def _first(x: Any, dimension: int) -> Any:
    """With the dimension in front."""
    return permuted(x, (dimension, *[d for d in range(x.spec.rank) if d != dimension]))


def _last_to(x: Any, dimension: int) -> Any:
    """With the dimension in front moved back to its place."""
    order = list(range(1, x.spec.rank))
    order.insert(dimension, 0)
    return permuted(x, order)


def _forward_moved(
    op: Op, operands: Sequence[Any], params: Any, kept: Sequence[bool]
) -> tuple[Sequence[Any], Any]:
    """As `forward`, along dimension 0."""
    body, carries, dimension = params["body"], params["carries"], params["dimension"]
    m = len(operands) - carries
    n = len(body.results) - carries
    order = [*body.results[:n], *_chosen(body.parameters[m:], kept), *body.results[n:]]
    wide = Computation(body.parameters, body.instructions, order, body.name)
    moved = [_first(x, dimension) for x in operands[:m]]
    changed = {"body": wide, "dimension": 0, "is_associative": None}
    found = bind(op, *moved, *operands[m:], **{**params, **changed})
    extra = sum(kept)
    outs = [_last_to(y, dimension) for y in found[:n]]
    return [*outs, *found[n + extra :]], list(found[n : n + extra])


# --- batching -------------------------------------------------------------------------------------


def batch_scan(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """A scan of the vectorised body; carried values that no row changes stay as they are."""
    body, carries = params["body"], params["carries"]
    m = len(args) - carries
    n = len(body.results) - carries
    full = [
        a if b else broadcast_leading(a, size)
        for a, b in zip(args[:m], is_batched[:m], strict=True)
    ]
    carried = list(is_batched[m:])
    while True:
        wide, found = batch_computation(
            body, [True] * m + carried, size, out_batched=[True] * n + carried
        )
        if found[n:] == carried:
            break
        carried = [a or b for a, b in zip(carried, found[n:], strict=True)]
    inits = [
        broadcast_leading(a, size) if want and not has else a
        for a, want, has in zip(args[m:], carried, is_batched[m:], strict=True)
    ]
    outs = bind(op, *full, *inits, **{**params, "body": wide, "dimension": params["dimension"] + 1})
    last = [o if b else broadcast_leading(o, size) for o, b in zip(outs[n:], carried, strict=True)]
    return (*outs[:n], *last)


# --- text -----------------------------------------------------------------------------------------

_IS_ASSOCIATIVE: Final = Optional(BOOL)


def write_scan(writer: Writer, instruction: Any) -> None:
    """The numbers of inputs and outputs stand in segment sizes."""
    params = instruction.params
    carries = params["carries"]
    if instruction.operands[0].spec.shape[params["dimension"]] == 0:  # XLA slices before it looks
        first = len(instruction.operands) - carries
        last = len(instruction.results) - carries
        for value in instruction.results[:last]:
            kind = value.spec.mlir
            text = f'"stablehlo.constant"() <{{value = dense<> : {kind}}}> : () -> {kind}'
            writer.names[value] = writer.raw(text)
        for value, operand in zip(
            instruction.results[last:], instruction.operands[first:], strict=True
        ):
            writer.names[value] = writer.names[operand]
        return
    attributes = [f"dimension = {I64.print(params['dimension'])}"]
    if params["is_reverse"]:
        attributes.append("is_reverse = true")
    associative = _IS_ASSOCIATIVE.print(params["is_associative"])
    if associative is not None:
        attributes.append(f"is_associative = {associative}")
    for name, values in (("operand", instruction.operands), ("result", instruction.results)):
        attributes.append(f"{name}SegmentSizes = array<i32: {len(values) - carries}, {carries}>")
    region = writer.region(params["body"])
    writer.line("chlo.scan", instruction, ", ".join(attributes), [region])


def read_scan(reader: Reader, operation: Any) -> Any:
    """Read either dialect's; outer values that the body uses are carried along."""
    body, captured = reader.region(operation, 0, "scan")
    sizes = reader.text(operation, "operandSegmentSizes")
    carries = int(sizes.rstrip(">").split(",")[-1])
    associative = reader.attribute(operation, "is_associative")
    operands = reader.operands(operation)
    results = len(operation.results)
    found = _bind_with_captures(
        operands,
        carries,
        body,
        captured,
        dimension=I64.parse(reader.attribute(operation, "dimension")),
        is_reverse=BOOL.parse(reader.attribute(operation, "is_reverse")),
        is_associative=_IS_ASSOCIATIVE.parse(associative),
    )
    return found[:results]


def _bind_with_captures(
    operands: Sequence[Any], carries: int, body: Computation, captured: Sequence[Any], **params: Any
) -> tuple[Any, ...]:
    """Outer values are carried along unchanged."""
    if captured:
        specs = body.parameter_specs
        first = len(operands)
        body = rearranged(body, specs, range(len(specs)), range(first, len(specs)))
    found: tuple[Any, ...] = bind(
        scan_op, *operands, *captured, body=body, carries=carries + len(captured), **params
    )
    return found


scan_op: Op = register(Op(
    name="scan",
    section="Scan",
    infer=infer_scan,
    hlo=Hlo(
        "chlo.scan",
        decomposition=decompose_scan,
        write=write_scan,
        read=read_scan,
        is_portable=lambda params: False,  # CHLO goes into artifacts as composites, which have no regions
    ),
    kernel=kernel_scan,
    ad=ScanDerivatives(),
    batch=batch_scan,
))  # fmt: skip
register_reader("mhlo.scan", read_scan)


def scan(
    inputs: Any,
    inits: Any,
    to_apply: Any,
    scan_dimension: int = 0,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> tuple[Any, ...]:
    """A computation applied to one slice after the other, with values that are carried along.

    Parameters
    ----------
    inputs : array or sequence of m arrays
        Of one size along `scan_dimension`.
    inits : array or sequence of k arrays
        What is carried into the first step.
    to_apply : function or Computation
        From m slices and k carried values to n outputs and k carried values, as a flat sequence. A function may use
        outer tensors.
    scan_dimension : int
    is_reverse : bool
        Whether to begin with the last slice.
    is_associative : bool, optional
        A promise that the computation is associative.

    Returns
    -------
    tuple of Tensor
        The n outputs, each with `scan_dimension` added, and the k last carried values.

    Raises
    ------
    ConstraintError, ShapeError, DTypeError
        [X1] to [X5] If the inputs, the inits and the computation do not fit together.

    Notes
    -----
    Section Scan of the operation semantics. The derivative in reverse mode keeps what was carried into each step, and
    computes the steps again on the way back.

    Examples
    --------
    >>> from xlapy import ops
    >>> def step(x, total):
    ...     total = ops.add(total, x)
    ...     return total, total
    >>> ops.scan([1, 2, 3], 0, step)
    (Tensor([1, 3, 6], s32[3]), Tensor(6, s32[]))
    """
    xs = [lift(x) for x in (as_list(inputs) if _is_several(inputs) else [inputs])]
    carried = [lift(c, xs) for c in as_list(inits)]
    require(bool(xs), "X1", "there must be an input", 0)
    for x in xs:
        require_array(x.spec, "I1", "each input")
    axis = as_axis(scan_dimension, min(x.spec.rank for x in xs), "X2")
    specs = [*[without_dimension(x.spec, axis) for x in xs], *[c.spec for c in carried]]
    ((body, _),), captured = traced_with_captures([(to_apply, specs, "to_apply")])
    found = _bind_with_captures(
        [*xs, *carried],
        len(carried),
        body,
        captured,
        dimension=axis,
        is_reverse=bool(is_reverse),
        is_associative=None if is_associative is None else bool(is_associative),
    )
    return found[: len(found) - len(captured)]


def _is_several(inputs: Any) -> bool:
    """Whether a sequence is of arrays, rather than an array written out."""
    return isinstance(inputs, list | tuple) and any(
        isinstance(x, Tensor | np.ndarray) for x in inputs
    )
