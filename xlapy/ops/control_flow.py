"""While and Conditional.

In StableHLO text the regions of ``while``, ``if`` and ``case`` may use outer values. A computation here is closed, so
on the way in such values become operands: what a loop hands through unchanged, and what every branch is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.errors import ConstraintError
from xlapy.specs import Spec, TensorSpec, require, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register, register_reader
from xlapy.trace.process_grid import current_process
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .branch_rules import case_ad
from .control_batching import batch_case, batch_while
from .loop_rules import while_ad
from .regions import (
    Captures,
    as_list,
    bare,
    listed,
    rearranged,
    require_computation,
    traced_with_captures,
)

__all__ = [
    "case_op",
    "conditional",
    "while_",
    "while_op",
]

Array = np.ndarray[Any, Any]
Run = Callable[..., tuple[Any, ...]]


# --- While --------------------------------------------------------------------------------------------------------


def infer_while(*specs: Spec, cond: Computation, body: Computation) -> tuple[Spec, ...]:
    """C1 to C3."""
    require_computation(cond, specs, "I2", "C1", "cond")
    require_computation(body, specs, "I3", "C2", "body")
    require_dtype(
        cond.result_specs == (TensorSpec((), "pred"),),
        "C1",
        "cond must give one pred[]",
        listed(cond.result_specs),
    )
    require_dtype(
        body.result_specs == tuple(specs), "C2", f"body must give what it takes, {listed(specs)}",
        listed(body.result_specs),
    )  # fmt: skip
    return tuple(specs)


def kernel_while(*state: Any, cond: Run, body: Run, out: Any) -> tuple[Any, ...]:
    """While cond(*state), state = body(*state)."""
    process = current_process()
    while cond(*state)[0]:
        process.check_running()
        state = body(*state)
    return state


def _handed_on(operation: Any) -> list[bool]:
    """Which of its arguments the body of a loop gives back as they are."""
    block = operation.regions[1].blocks[0]
    last = block.operations[len(block.operations) - 1].operation
    return [a == r for a, r in zip(block.arguments, last.operands, strict=False)]


def read_while(reader: Reader, operation: Any) -> Any:
    """Outer values that the regions use are handed through the loop."""
    operands = reader.operands(operation)
    count = len(operands)
    captures = Captures(operands)
    same = _handed_on(operation)
    cond, cond_captured = reader.region(operation, 0, "cond", operands, same)
    body, body_captured = reader.region(operation, 1, "body", operands, same)
    # An operand may change from round to round, so a captured value needs a place of its own.
    cond_taken = [*range(count), *captures.positions(cond_captured, count)]
    body_taken = [*range(count), *captures.positions(body_captured, count)]
    specs = [t.spec for t in captures.tensors]
    outs = bind(
        while_op,
        *captures.tensors,
        cond=rearranged(cond, specs, cond_taken),
        body=rearranged(body, specs, body_taken, range(count, len(specs))),
    )
    return outs[:count]


while_op = register(Op(
    name="while",
    section="While",
    infer=infer_while,
    hlo=Hlo("stablehlo.while", regions=("cond", "body"), read=read_while),
    kernel=kernel_while,
    ad=while_ad,
    batch=batch_while,
))  # fmt: skip


def while_(condition: Any, body: Any, init: Any) -> Any:
    """Run a body again and again, as long as a condition holds.

    Parameters
    ----------
    condition : Computation or callable
        From the state to ``pred[]``.
    body : Computation or callable
        From the state to the state of the next round, of the same types.
    init : Tensor or sequence of Tensor
        The state before the first round. The functions take as many arguments as it has entries. Outer tensors that
        they use are handed through the loop.

    Returns
    -------
    Tensor or tuple of Tensor
        The first state for which the condition does not hold; of the form of `init`.

    Raises
    ------
    DTypeError
        [C1] If the condition does not give one ``pred[]``; [C2] if the body does not give what it takes.

    Notes
    -----
    Section While of the operation semantics. It has derivatives in both modes, whether or not the number of rounds is
    known before the program runs. In reverse mode a loop that counts to a constant keeps what the way back needs of
    each round. Any other one counts its rounds, keeps a fixed number of its states and runs again from the nearest of
    them: at most one time more up to about a thousand rounds, more often beyond.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.while_(lambda i, x: ops.lt(i, 3), lambda i, x: (ops.add(i, 1), ops.mul(x, x)), (0, 2.0))
    (Tensor(3, s32[]), Tensor(256., f32[]))
    """
    several = isinstance(init, list | tuple)
    state = [lift(x) for x in as_list(init)]
    count = len(state)
    specs = [t.spec for t in state]
    ((cond, cond_used), (step, body_used)), outside = traced_with_captures(
        [(condition, specs, "condition"), (body, specs, "body")]
    )
    operands = [*state, *outside]
    all_specs = [t.spec for t in operands]
    outs = bind(
        while_op,
        *operands,
        cond=rearranged(cond, all_specs, [*range(count), *[count + i for i in cond_used]]),
        body=rearranged(
            step,
            all_specs,
            [*range(count), *[count + i for i in body_used]],
            range(count, len(operands)),
        ),
    )
    return outs[:count] if several else outs[0]


# --- Conditional --------------------------------------------------------------------------------------------------


def infer_case(*specs: Spec, branches: tuple[Computation, ...]) -> tuple[Spec, ...]:
    """C1 to C4 of case; a pred index makes it an if, whose branches are that for true and that for false."""
    require_dtype(bool(specs), "I1", "there must be an index", specs)
    index: Any = specs[0]
    rest = specs[1:]
    require_dtype(
        type(index) is TensorSpec and index.rank == 0 and index.dtype.name in ("s32", "pred"),
        "I1", "the index must be s32[] or pred[]", index,
    )  # fmt: skip
    require_dtype(
        type(branches) is tuple,
        "I2",
        "branches must be a tuple of Computations",
        type(branches).__name__,
    )
    require(len(branches) > 0, "C1", "there must be a branch", branches)
    if index.dtype.kind == "bool":
        require(len(branches) == 2, "X1", "a pred must choose between two branches", len(branches))
    for i, branch in enumerate(branches):
        require_computation(branch, rest, "I2", "C2", f"branch {i}")
    for i, branch in enumerate(branches[1:], 1):
        require_dtype(
            branch.result_specs == branches[0].result_specs, "C3",
            f"branch {i} must give what branch 0 gives, {listed(branches[0].result_specs)}",
            listed(branch.result_specs),
        )  # fmt: skip
    return branches[0].result_specs


def kernel_case(
    index: Array, *arrays: Array, branches: tuple[Run, ...], out: Any
) -> tuple[Any, ...]:
    """branches[index](*operands); the last one for an index out of range; for a pred the first one if it is true."""
    if index.dtype == np.bool_:
        return branches[0 if index else 1](*arrays)
    chosen = int(index)
    return branches[chosen if 0 <= chosen < len(branches) else -1](*arrays)


def write_case(writer: Writer, instruction: Any) -> None:
    """The regions take no arguments: they use the operands by name."""
    index, *rest = instruction.operands
    names = [writer.names[v] for v in rest]
    regions = [writer.region(branch, names) for branch in instruction.params["branches"]]
    mlir_name = "stablehlo.if" if index.spec.dtype.kind == "bool" else "stablehlo.case"
    writer.line(mlir_name, instruction, regions=regions, operands=[index])


def read_case(reader: Reader, operation: Any) -> Any:
    """Outer values that the regions use are given to every branch."""
    captures = Captures()
    found = []
    for i in range(len(operation.regions)):
        branch, captured = reader.region(operation, i, f"branch{i}")
        found.append((branch, captures.positions(captured)))
    specs = [t.spec for t in captures.tensors]
    branches = tuple(rearranged(branch, specs, taken) for branch, taken in found)
    return bind(case_op, *reader.operands(operation), *captures.tensors, branches=branches)


case_op = register(Op(
    name="case",
    section="Conditional",
    infer=infer_case,
    hlo=Hlo("stablehlo.case", write=write_case, read=read_case),
    kernel=kernel_case,
    ad=case_ad,
    batch=batch_case,
))  # fmt: skip
# What is written for a pred index.
register_reader("stablehlo.if", read_case)


def conditional(*arguments: Any, **named: Any) -> Any:
    """Run one of several computations.

    ``conditional(predicate, true_operand, true_computation, false_operand, false_computation)`` and
    ``conditional(branch_index, branch_computations, branch_operands)``.

    Parameters
    ----------
    predicate : Tensor
        ``pred[]``.
    true_operand, false_operand : Tensor or sequence of Tensor
        What the computation takes; a sequence for one of several parameters, or of none.
    true_computation, false_computation : Computation or callable
        Their results must be of the same types. Outer tensors that a function uses are handed in.
    branch_index : Tensor
        ``s32[]``. Below 0 and from the number of branches on, the last branch runs.
    branch_computations : sequence of Computation or callable
    branch_operands : sequence
        For each branch a tensor or a sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        What the chosen computation gives. Only that one runs.

    Raises
    ------
    DTypeError
        [I1] If the predicate or index is of another type; [C3] if the branches give different types.

    Notes
    -----
    Section Conditional of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.conditional(ops.constant(True), 2.0, lambda x: ops.mul(x, 10.0), 3.0, ops.neg)
    Tensor(20., f32[])
    >>> ops.conditional(ops.constant(7), [ops.neg, lambda x: x], [1.0, 2.0])
    Tensor(2., f32[])
    """
    predicated = (
        "predicate",
        "true_operand",
        "true_computation",
        "false_operand",
        "false_computation",
    )
    indexed = ("branch_index", "branch_computations", "branch_operands")
    names = indexed if len(arguments) + len(named) == 3 else predicated
    given = dict(zip(names, arguments, strict=False))
    wanted = set(names)
    if (
        len(arguments) + len(named) != len(names)
        or set(given) & set(named)
        or (set(given) | set(named)) != wanted
    ):
        raise ConstraintError(
            f"the arguments must be {', '.join(predicated)}, or {', '.join(indexed)}; got {len(arguments)} by position"
            f" and {', '.join(named) or 'none'} by name [X1]"
        )
    given |= named
    if names is predicated:
        index = given["predicate"]
        functions = [given["true_computation"], given["false_computation"]]
        operands = [given["true_operand"], given["false_operand"]]
        whats = ["true_computation", "false_computation"]
    else:
        index = given["branch_index"]
        functions, operands = (
            as_list(given["branch_computations"]),
            as_list(given["branch_operands"]),
        )
        require(len(functions) > 0, "C1", "there must be a branch", functions)
        require(
            len(operands) == len(functions), "X1", f"there must be operands for each of the {len(functions)} branches",
            len(operands),
        )  # fmt: skip
        whats = [f"branch_computations[{i}]" for i in range(len(functions))]
    index = lift(index)
    wanted_type = "pred" if names is predicated else "s32"
    require_dtype(
        index.spec is TensorSpec((), wanted_type),
        "I1",
        f"the {names[0]} must be {wanted_type}[]",
        index.spec,
    )
    return _run_case(index, functions, operands, whats)


def _run_case(
    index: Tensor, functions: Sequence[Any], operands: Sequence[Any], whats: Sequence[str]
) -> Any:
    """Each branch is given its own operands, of all that there are."""
    captures = Captures()
    own = [[lift(x) for x in as_list(o)] for o in operands]
    positions = [captures.positions(tensors) for tensors in own]
    traced, outside = traced_with_captures(
        [
            (f, [t.spec for t in tensors], what)
            for f, tensors, what in zip(functions, own, whats, strict=True)
        ]
    )
    taken = [
        [*at, *captures.positions([outside[i] for i in used])]
        for at, (_, used) in zip(positions, traced, strict=True)
    ]
    specs = [t.spec for t in captures.tensors]
    branches = tuple(rearranged(c, specs, at) for (c, _), at in zip(traced, taken, strict=True))
    return bare(bind(case_op, index, *captures.tensors, branches=branches), branches[0])
