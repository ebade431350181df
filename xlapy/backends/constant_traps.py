"""What XLA does to a program while it compiles it: operations whose operands it finds to be constant it computes.

It does so by other code than at run time, before and after its own passes, and that code divides integers by zero,
which ends the process, leaves the sign out of leading zeros, forgets that an order is total, and more. What depends
on constants alone is so computed here, by the kernels of the operations, and no integer is divided by what may be zero.
Where it is too large to be put into the program, XLA is kept from finding it to be constant. So it is from sizes: of an
array cut to its whole size it makes an array that does not vary, where computations that it is passed to expect one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

import numpy as np

from xlapy.backends.evaluator import evaluator
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.op import lookup
from xlapy.trace.process_grid import is_communicating
from xlapy.trace.simplify import fold_constants, has_side_effect

__all__ = ["without_traps"]

_EACH_TIME: Final = frozenset({
    "custom_call", "optimization_barrier", "partition_id", "replica_id", "rng_get_and_update_state", "rng_normal",
    "rng_uniform",
})  # fmt: skip
_DIVISIONS: Final = frozenset({"div", "rem"})
#: operations that XLA computes wrong of constants, beside those that `fold_constants` computes
_WRONG: Final = frozenset({
    "bitcast", "clamp", "convolution", "reduce", "reduce_window", "scatter", "select_and_scatter",
})  # fmt: skip
_LIMIT: Final = 1 << 10
_BYTE: Final = 8


def without_traps(computation: Computation) -> Computation:
    """The program, giving the same, with nothing in it that XLA would compute wrong before it runs.

    Parameters
    ----------
    computation : Computation

    Returns
    -------
    Computation
        The same object if there was nothing to change.
    """
    return _without_traps(computation, {})


def _without_traps(computation: Computation, done: dict[Computation, Computation]) -> Computation:
    found = done.get(computation)
    if found is not None:
        return found
    folded = fold_constants(computation)
    constant = lookup("constant")
    known: dict[Value, Any] = {}
    #: all numbers that are in an array, for those that hold constants several times as well
    repeated: dict[Value, Any] = {}
    #: what depends on constants alone
    fixed: set[Value] = set()
    names: dict[Value, Value] = {}
    made: list[Instruction] = []
    changed = folded is not computation
    for instruction in folded.instructions:
        if instruction.op is constant:
            (value,) = instruction.results
            known[value] = repeated[value] = instruction.params["value"]
        elif instruction.op.name == "broadcast_in_dim" and instruction.operands[0] in repeated:
            repeated[instruction.results[0]] = repeated[instruction.operands[0]]
        params = _params(instruction.params, done)
        if params is not instruction.params or any(v in names for v in instruction.operands):
            operands = tuple([names.get(v, v) for v in instruction.operands])
            instruction = instruction.with_operands(operands, params)
            changed = True
        if instruction.op.name in _WRONG and all(v in known for v in instruction.operands):
            arrays = _computed(instruction, known)
            if arrays is not None:
                for value, array in zip(instruction.results, arrays, strict=True):
                    known[value] = repeated[value] = array
                    fixed.add(value)
                    made.append(
                        Instruction(constant, (), {"value": array}, (value,), instruction.source)
                    )
                changed = True
                continue
        if instruction.op.name == "set_dimension_size" and instruction.params["varies"]:
            instruction = _hidden(instruction, made, 1)
            if instruction.operands[0] in fixed:
                # For arrays of varying size there are no barriers.
                instruction = _hidden(instruction, made, 0)
            changed = True
        elif _may_be_negative_power(instruction, fixed, repeated):
            # Of x to the power of -1 it makes 1 / x, and of constants to negative powers 0.
            instruction = _hidden(instruction, made, 1)
            changed = True
        elif _depends_on_constants(instruction, fixed):
            if _is_trap(instruction):
                instruction = _hidden(instruction, made, 0)
                changed = True
            else:
                fixed.update(instruction.results)
        if instruction.op.name in _DIVISIONS and _may_divide_by_zero(instruction, known):
            result = instruction.results[0]
            names[result] = _guarded(instruction, made)
            changed = True
            if result in fixed:
                fixed.add(names[result])
        else:
            made.append(instruction)
    if changed:
        results = [names.get(v, v) for v in folded.results]
        folded = Computation(
            computation.parameters, made, results, computation.name, computation.parameter_names
        )
    done[computation] = folded
    return folded


def _depends_on_constants(instruction: Instruction, fixed: Set[Value]) -> bool:
    """Whether XLA may find its results to be constant."""
    return all(v in fixed for v in instruction.operands) and not (
        instruction.op.name in _EACH_TIME
        or is_communicating(instruction.op.kernel)
        or has_side_effect(instruction)
    )


def _may_be_negative_power(
    instruction: Instruction, fixed: Set[Value], numbers: Mapping[Value, Any]
) -> bool:
    """Whether an integer is raised to what XLA may find to be a negative constant."""
    if instruction.op.name != "pow":
        return False
    exponent = instruction.operands[1]
    if type(exponent.spec) is not TensorSpec or exponent.spec.dtype.kind != "int":
        return False
    found = numbers.get(exponent)
    return exponent in fixed and (found is None or bool(np.any(found < 0)))


def _is_trap(instruction: Instruction) -> bool:
    name = instruction.op.name
    if name == "compare":
        return bool(instruction.params.get("compare_type") == "TOTALORDER")
    specs = [v.spec for v in (*instruction.operands[:1], *instruction.results)]
    dtypes = [s.dtype for s in specs if type(s) is TensorSpec]
    if name in ("bitcast_convert_type", "population_count"):
        return min(d.bits for d in dtypes) < _BYTE
    if name == "clamp":
        return not dtypes[0].integer
    return name == "clz" or name in _WRONG


def _hidden(instruction: Instruction, made: list[Instruction], position: int) -> Instruction:
    """The instruction with an operand behind a barrier."""
    operands = list(instruction.operands)
    given = operands[position]
    operands[position] = value = Value(given.spec, instruction.results[0].scope)
    made.append(
        Instruction(lookup("optimization_barrier"), (given,), {}, (value,), instruction.source)
    )
    return instruction.with_operands(tuple(operands))


def _computed(instruction: Instruction, known: Mapping[Value, Any]) -> list[Any] | None:
    """The results of an operation on constants; None if they would be large."""
    specs: list[Any] = [v.spec for v in instruction.results]
    if not all(s.is_static and s.size <= _LIMIT for s in specs):
        return None
    operands = list(dict.fromkeys(instruction.operands))
    run = evaluator(Computation(operands, [instruction], instruction.results))
    with np.errstate(all="ignore"):
        found = run(*[known[v] for v in operands])
    return [np.asarray(a, s.dtype.numpy) for a, s in zip(found, specs, strict=True)]


def _params(params: Mapping[str, Any], done: dict[Computation, Computation]) -> Mapping[str, Any]:
    changed: dict[str, Any] = {}
    for key, value in params.items():
        if type(value) is Computation:
            new: Any = _without_traps(value, done)
            if new is not value:
                changed[key] = new
        elif type(value) is tuple and value and type(value[0]) is Computation:
            news = tuple([_without_traps(v, done) for v in value])
            if any(a is not b for a, b in zip(news, value, strict=True)):
                changed[key] = news
    return {**params, **changed} if changed else params


def _may_divide_by_zero(instruction: Instruction, known: Mapping[Value, Any]) -> bool:
    spec = instruction.results[0].spec
    if type(spec) is not TensorSpec or not spec.dtype.integer:
        return False
    divisor = known.get(instruction.operands[1])
    return divisor is None or not np.all(divisor)


def _guarded(instruction: Instruction, made: list[Instruction]) -> Value:
    """Record ``select(y == 0, what x / 0 is, x / select(y == 0, 1, y))`` and give the result."""
    x, y = instruction.operands
    spec: Any = y.spec
    dtype = spec.dtype
    scope = instruction.results[0].scope
    source = instruction.source

    def record(name: str, operands: Sequence[Value], result: TensorSpec, **params: Any) -> Value:
        value = Value(result, scope)
        made.append(Instruction(lookup(name), tuple(operands), params, (value,), source))
        return value

    def filled(number: int) -> Value:
        array = np.broadcast_to(np.asarray(number).astype(dtype.numpy), spec.shape)
        full = record("constant", (), spec.with_shape(spec.shape), value=array)
        for d in spec.dynamic:
            size = record("get_dimension_size", (y,), TensorSpec((), "s32"), dimension=d)
            so_far = [*full.spec.dynamic, d]  # type: ignore[union-attr]
            full = record(
                "set_dimension_size", (full, size), spec.with_shape(spec.shape, so_far), dimension=d, varies=True
            )  # fmt: skip
        return full

    is_zero = record(
        "compare", (y, filled(0)), spec.with_dtype("pred"), comparison_direction="EQ",
        compare_type="SIGNED" if dtype.kind == "int" else "UNSIGNED",
    )  # fmt: skip
    safe = record("select", (is_zero, filled(1), y), spec)
    quotient = record(instruction.op.name, (x, safe), spec)
    # All bits 1, or the number itself as the rest: as at run time.
    by_zero = filled(-1) if instruction.op.name == "div" else x
    return record("select", (is_zero, by_zero, quotient), spec)
