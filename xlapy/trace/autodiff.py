"""Derivatives of what a builder has recorded, in both modes.

A function is recorded into the current builder; the derivative's operations are then recorded into the same
builder. Nothing is traced twice, and transformations nest because the instructions of an inner one are instructions
like any others. Which rule applies is each operation's own business (`AdKind`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from xlapy.errors import NotDifferentiableError, XlapyError
from xlapy.specs import Spec, TensorSpec, TokenSpec, TupleSpec
from xlapy.tensor import Tensor
from xlapy.trace.builder import XlaBuilder, recording
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import annotate, bind, current_builder
from xlapy.trace.op import lookup
from xlapy.trace.replay import inline
from xlapy.trace.sizes import zeros_like

__all__ = [
    "Linearized",
    "add_cotangents",
    "has_tangent",
    "jvp_computation",
    "linearize",
    "push_forward",
    "vjp_computation",
]


def has_tangent(spec: Spec) -> bool:
    """Whether values of a spec vary continuously."""
    if type(spec) is TensorSpec:
        return spec.dtype.inexact
    return type(spec) is TupleSpec and any(map(has_tangent, spec.elements))


def add_cotangents(a: Any, b: Any) -> Any:
    """The sum of two cotangents, None being zero; tuples element by element."""
    if a is None:
        return b
    if b is None:
        return a
    spec = a.placed.spec
    if type(spec) is TupleSpec:
        get = lookup("get_tuple_element")
        parts = [
            add_cotangents(bind(get, a, index=i), bind(get, b, index=i))
            if has_tangent(e)
            else bind(get, a, index=i)
            for i, e in enumerate(spec.elements)
        ]
        return bind(lookup("tuple"), *parts)
    return bind(lookup("add"), a, b)


def _tensors(values: Sequence[Value]) -> list[Tensor]:
    return [Tensor(v.spec, v) for v in values]


def _rename(
    instructions: list[Instruction],
    start: int,
    new: Sequence[Any],
    old: Sequence[Value],
    builder: XlaBuilder,
) -> None:
    """Let the results `new` of the instructions from `start` on be known as the values `old`."""
    names: dict[Value, Value] = {}
    fresh = {v for i in instructions[start:] for v in i.results}
    for tensor, value in zip(new, old, strict=True):
        found = builder.value(tensor)
        if found not in fresh or found in names:  # an operand handed through, or one result twice
            found = builder.value(bind(lookup("copy"), Tensor(found.spec, found)))
        names[found] = value
    for instruction in instructions[start:]:
        instruction.operands = tuple([names.get(v, v) for v in instruction.operands])
        instruction.results = tuple([names.get(v, v) for v in instruction.results])


# --- forward mode -------------------------------------------------------------------------------------------------


def push_forward(builder: XlaBuilder, start: int, tangents: dict[Value, Any]) -> None:
    """Record the tangents of the instructions from position `start` on.

    Parameters
    ----------
    builder : XlaBuilder
    start : int
    tangents : dict
        From values to tensors; the results' tangents are added to it.
    """
    recorded = builder.instructions[start:]
    del builder.instructions[start:]
    for instruction in recorded:
        operands = instruction.operands
        active = False
        for v in operands:
            if v in tangents:
                active = True
                break
        if not active:
            builder.instructions.append(instruction)
            continue
        ad: Any = instruction.op.ad
        given = [tangents.get(v) for v in operands]
        with builder.at_source(instruction.source):
            try:
                if hasattr(ad, "forward"):
                    before = len(builder.instructions)
                    outs, out_tangents = ad.fused_jvp(
                        instruction.op, _tensors(operands), given, instruction.params
                    )
                    _rename(builder.instructions, before, outs, instruction.results, builder)
                else:
                    builder.instructions.append(instruction)
                    out_tangents = ad.jvp(
                        instruction.op,
                        _tensors(operands),
                        given,
                        _tensors(instruction.results),
                        instruction.params,
                    )
            except XlapyError as error:
                raise annotate(error, "", [v.spec for v in operands], instruction.source) from None
        for value, tangent in zip(instruction.results, out_tangents, strict=True):
            if tangent is not None and has_tangent(value.spec):
                tangents[value] = tangent


# --- reverse mode -------------------------------------------------------------------------------------------------


@final
class Linearized:
    """A recorded function, ready to be gone through backwards, any number of times.

    Attributes
    ----------
    inputs, outputs : list of Value
    steps : list of (Instruction, needed, residuals)
        What depends on the inputs, in order.
    """

    __slots__ = ("inputs", "outputs", "steps")

    def __init__(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        steps: list[tuple[Instruction, list[bool], Any]],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.steps = steps

    def pull_back(self, cotangents: Sequence[Any]) -> list[Any]:
        """Record the way back in the current builder.

        Parameters
        ----------
        cotangents : sequence of Tensor or None
            One for each output.

        Returns
        -------
        list of Tensor or None
            One for each input.
        """
        builder = current_builder()
        assert builder is not None
        sums: dict[Value, Any] = {}
        for value, ct in zip(self.outputs, cotangents, strict=True):
            if ct is not None and has_tangent(value.spec):
                sums[value] = add_cotangents(sums.get(value), ct)
        sources = builder._sources
        for instruction, needed, residuals in reversed(self.steps):
            cts = [sums.pop(v, None) for v in instruction.results]
            for ct in cts:
                if ct is not None:
                    break
            else:
                continue
            operands = instruction.operands
            ad: Any = instruction.op.ad
            source = instruction.source
            if source is not None:
                sources.append(source)
            try:
                if residuals is not None:
                    found = ad.backward(
                        instruction.op,
                        _tensors(operands),
                        cts,
                        residuals,
                        instruction.params,
                        needed,
                    )
                else:
                    found = ad.vjp(
                        instruction.op,
                        _tensors(operands),
                        cts,
                        _tensors(instruction.results),
                        instruction.params,
                        needed,
                    )
                for value, want, ct in zip(operands, needed, found, strict=True):
                    if want and ct is not None:
                        before = sums.get(value)
                        sums[value] = ct if before is None else add_cotangents(before, ct)
            except XlapyError as error:
                raise annotate(error, "", [v.spec for v in operands], source) from None
            finally:
                if source is not None:
                    sources.pop()
        return [sums.get(v) for v in self.inputs]


def linearize(
    builder: XlaBuilder, start: int, inputs: Sequence[Value], outputs: Sequence[Value]
) -> Linearized:
    """Prepare the instructions from position `start` on for going back from the outputs to the inputs.

    Control flow among them is replaced by forms that keep what the way back needs.
    """
    active = set(inputs)
    steps: list[tuple[Instruction, list[bool], Any]] = []
    recorded = builder.instructions[start:]
    fused = False
    for instruction in recorded:
        if hasattr(instruction.op.ad, "forward"):
            fused = True
            break
    if fused:
        del builder.instructions[start:]
    for instruction in recorded:
        needed = [v in active for v in instruction.operands]
        ad: Any = instruction.op.ad
        residuals = None
        if True not in needed or ad.kind == "zero":
            if fused:
                builder.instructions.append(instruction)
            continue
        varying = [v for v in instruction.results if has_tangent(v.spec)]
        if fused:
            if hasattr(ad, "forward") and varying:
                before = len(builder.instructions)
                with builder.at_source(instruction.source):
                    try:
                        outs, residuals = ad.forward(
                            instruction.op,
                            _tensors(instruction.operands),
                            needed,
                            instruction.params,
                        )
                    except XlapyError as error:
                        specs = [v.spec for v in instruction.operands]
                        raise annotate(error, "", specs, instruction.source) from None
                    _rename(builder.instructions, before, outs, instruction.results, builder)
            else:
                builder.instructions.append(instruction)
        if ad.kind == "none" and any(type(v.spec) is TokenSpec for v in instruction.results):
            # What is sent away may come back by another way, which nothing here sees: a zero would be silently wrong.
            operands = _tensors(instruction.operands)
            try:
                ad.vjp(instruction.op, operands, [], [], instruction.params, needed)
            except XlapyError as error:
                specs = [v.spec for v in instruction.operands]
                raise annotate(error, "", specs, instruction.source) from None
        if varying:
            active.update(varying)
            steps.append((instruction, needed, residuals))
    return Linearized(inputs, outputs, steps)


# --- derivatives of computations, for operations that hold them ---------------------------------------------------


def _derive(
    name: str, specs: Sequence[Spec], body: Callable[[XlaBuilder, list[Tensor]], Sequence[Any]]
) -> Computation:
    """A closed computation recorded by `body`."""
    outer = current_builder()
    builder = XlaBuilder(name, outer.scope if outer is not None else None)
    arguments = [builder.parameter(i, s) for i, s in enumerate(specs)]
    with recording(builder):
        results = [builder.value(r) for r in body(builder, arguments)]
    if builder.captured:
        raise NotDifferentiableError(
            f"the derivative of {name!r} must be closed; got {len(builder.captured)} outside values in it [X4]"
        )
    return builder.finish(results)


def jvp_computation(
    computation: Computation, is_active: Sequence[bool], out_active: Sequence[bool] | None = None
) -> tuple[Computation, list[bool]]:
    """The computation together with its tangents.

    Parameters
    ----------
    computation : Computation
    is_active : sequence of bool
        Which parameters have a tangent.
    out_active : sequence of bool, optional
        Which results must have one (zeros are made); by default those that vary.

    Returns
    -------
    computation : Computation
        From the parameters and then the active ones' tangents to the results and then the active ones' tangents.
    out_active : list of bool
    """
    from_specs = computation.parameter_specs
    specs = [*from_specs, *[s for s, a in zip(from_specs, is_active, strict=True) if a]]
    count = len(from_specs)
    found: list[bool] = list(out_active) if out_active is not None else []

    def body(builder: XlaBuilder, arguments: list[Tensor]) -> Sequence[Any]:
        given = iter(arguments[count:])
        tangents: dict[Value, Any] = {
            x.payload: next(given) for x, a in zip(arguments[:count], is_active, strict=True) if a
        }
        outs = inline(computation, arguments[:count])
        push_forward(builder, 0, tangents)
        out_tangents = [tangents.get(o.payload) for o in outs]
        if out_active is None:
            found.extend(t is not None for t in out_tangents)
        kept = [_or_zeros(t, o) for t, o, a in zip(out_tangents, outs, found, strict=True) if a]
        return [*outs, *kept]

    return _derive(f"jvp_{computation.name}", specs, body), found


def _or_zeros(ct: Any, like: Any) -> Any:
    return zeros_like(like) if ct is None else ct


def vjp_computation(
    computation: Computation, needed: Sequence[bool], given: Sequence[bool] | None = None
) -> Computation:
    """The way back through a computation, running forward first.

    Parameters
    ----------
    computation : Computation
    needed : sequence of bool
        Which parameters' cotangents are wanted.
    given : sequence of bool, optional
        Which results come with a cotangent; by default all that vary.

    Returns
    -------
    Computation
        From the parameters and then the given cotangents to the wanted cotangents (zeros are made).
    """
    if given is None:
        given = [has_tangent(s) for s in computation.result_specs]
    from_specs = computation.parameter_specs
    specs = [*from_specs, *[s for s, g in zip(computation.result_specs, given, strict=True) if g]]
    count = len(from_specs)

    def body(builder: XlaBuilder, arguments: list[Tensor]) -> Sequence[Any]:
        outs = inline(computation, arguments[:count])
        inputs = [x.payload for x, n in zip(arguments[:count], needed, strict=True) if n]
        linear = linearize(builder, 0, inputs, [builder.value(o) for o in outs])
        cts = iter(arguments[count:])
        found = linear.pull_back([next(cts) if g else None for g in given])
        wanted = [x for x, n in zip(arguments[:count], needed, strict=True) if n]
        return [_or_zeros(c, x) for c, x in zip(found, wanted, strict=True)]

    return _derive(f"vjp_{computation.name}", specs, body)
