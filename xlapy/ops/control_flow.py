"""Call, CompositeCall, While and Conditional: operations that run computations.

In StableHLO text the regions of ``while``, ``if`` and ``case`` may use outer values. A computation here is closed, so
on the way in such values become operands: what a loop hands through unchanged, and what every branch is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import ConstraintError, DTypeError
from xlapy.specs import Spec, TensorSpec, require, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.codecs import I32, STRING, Optional, quote
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register, register_reader
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .branch_rules import call_ad, case_ad
from .control_batching import batch_call, batch_case, batch_while
from .loop_rules import while_ad
from .regions import (
    Captures,
    as_list,
    listed,
    rearranged,
    require_computation,
    traced_with_captures,
)

__all__ = [
    "case_op",
    "call",
    "call_op",
    "composite_call",
    "composite_call_op",
    "conditional",
    "while_",
    "while_op",
]

Array = np.ndarray[Any, Any]
Run = Callable[..., tuple[Any, ...]]


# --- Call ---------------------------------------------------------------------------------------------------------


def infer_call(*specs: Spec, computation: Computation) -> tuple[Spec, ...]:
    """C1: the operands are what the computation takes."""
    require_computation(computation, specs, "I1", "C1", "computation")
    return computation.result_specs


def write_call(writer: Writer, instruction: Any) -> None:
    """A function of the module, and a call of it."""
    symbol = writer.symbol(instruction.params["computation"])
    writer.line("func.call", instruction, f"callee = @{symbol}")


def read_call(reader: Reader, operation: Any) -> Any:
    """A call of a function of the module."""
    name = reader.text(operation, "callee").lstrip("@").strip('"')
    return bind(call_op, *reader.operands(operation), computation=reader.function(name))


def kernel_call(*arrays: Array, computation: Run, out: Any) -> tuple[Any, ...]:
    """Results = computation(operands)."""
    return computation(*arrays)


call_op = register(Op(
    name="call",
    section="Call",
    infer=infer_call,
    hlo=Hlo("func.call", write=write_call, read=read_call),
    kernel=kernel_call,
    ad=call_ad("computation"),
    batch=batch_call("computation"),
))  # fmt: skip


def _bare(outs: tuple[Any, ...], computation: Computation) -> Any:
    """One tensor for one result, as the operation semantics have it."""
    return outs[0] if len(computation.results) == 1 else outs


def call(computation: Any, *operands: Any) -> Any:
    """Run a computation on operands.

    Under a trace the computation stays one function of the program, however often it is called.

    Parameters
    ----------
    computation : Computation or callable
        A function is traced; outer tensors that it uses become further operands.
    *operands : Tensor
        Any number of them, of the types of the computation's parameters.

    Returns
    -------
    Tensor or tuple of Tensor
        What the computation gives.

    Raises
    ------
    DTypeError
        [C1] If the operands are not what the computation takes.

    Notes
    -----
    Section Call of the operation semantics. Derivatives and vectorised forms are calls again.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.call(lambda x, y: ops.add(x, y), 1.0, 2.0)
    Tensor(3., f32[])
    """
    if type(computation) is Computation:
        return _bare(bind(call_op, *operands, computation=computation), computation)
    tensors = [lift(x) for x in operands]
    ((found, used),), outside = traced_with_captures(
        [(computation, [t.spec for t in tensors], "computation")]
    )
    return _bare(bind(call_op, *tensors, *[outside[i] for i in used], computation=found), found)


# --- CompositeCall ------------------------------------------------------------------------------------------------


def infer_composite_call(
    *specs: Spec, decomposition: Computation, name: str, composite_attributes: str, version: int
) -> tuple[Spec, ...]:
    """C1 to C4."""
    ok = type(name) is str and all(part.isidentifier() for part in name.split(".")) and "." in name
    require(ok, "C1", "name must be of the form namespace.name", name)
    require_computation(decomposition, specs, "C2", "C3", "decomposition")
    require(
        type(version) is int and -(2**31) <= version < 2**31,
        "I5",
        "version must be an integer of 32 bits",
        version,
    )
    text = composite_attributes
    require(
        type(text) is str and text.startswith("{") and text.endswith("}") and is_balanced(text),
        "I3", "composite_attributes must be the text of a dictionary, such as '{n = 1 : i32}'", text,
    )  # fmt: skip
    return decomposition.result_specs


_PAIRS: Final = {")": "(", "]": "[", "}": "{", ">": "<"}


def is_balanced(text: str) -> bool:
    """Whether brackets match and the dictionary ends with the text, so that it cannot run into what follows."""
    pending: list[str] = []
    quoted = escaped = False
    for i, char in enumerate(text):
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "([{<":
            pending.append(char)
        elif char == ">" and text[i - 1] == "-":  # the arrow of a function's type
            continue
        elif char in _PAIRS:
            if not pending or pending.pop() != _PAIRS[char]:
                return False
            if not pending and i != len(text) - 1:
                return False
    return not pending and not quoted


def write_composite_call(writer: Writer, instruction: Any) -> None:
    """The decomposition is a function of the module."""
    params = instruction.params
    symbol = writer.symbol(params["decomposition"])
    attributes = [f"name = {quote(params['name'])}", f"decomposition = @{symbol}"]
    if params["composite_attributes"] != "{}":
        attributes.append(f"composite_attributes = {params['composite_attributes']}")
    if params["version"]:
        attributes.append(f"version = {params['version']} : i32")
    writer.line("stablehlo.composite", instruction, ", ".join(attributes))


def read_composite_call(reader: Reader, operation: Any) -> Any:
    """The decomposition is a function of the module."""
    function = reader.text(operation, "decomposition").lstrip("@").strip('"')
    return bind(
        composite_call_op,
        *reader.operands(operation),
        decomposition=reader.function(function),
        name=STRING.parse(reader.attribute(operation, "name")),
        composite_attributes=reader.text(operation, "composite_attributes", "{}"),
        version=Optional(I32, 0).parse(reader.attribute(operation, "version")),
    )


def kernel_composite_call(
    *arrays: Array, decomposition: Run, name: str, composite_attributes: str, version: int, out: Any
) -> tuple[Any, ...]:
    """Results = decomposition(operands)."""
    return decomposition(*arrays)


composite_call_op = register(Op(
    name="composite_call",
    section="CompositeCall",
    infer=infer_composite_call,
    hlo=Hlo("stablehlo.composite", write=write_composite_call, read=read_composite_call),
    kernel=kernel_composite_call,
    ad=call_ad("decomposition"),
    batch=batch_call("decomposition"),
))  # fmt: skip


def attribute_text(value: Any) -> str:
    """A Python value as the text of an MLIR attribute: integers are i64 and floats f32, unless numpy says otherwise."""
    from xlapy.dtypes import as_dtype
    from xlapy.trace.stablehlo import constant_text

    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"0x{np.float32(value).view(np.uint32):08X} : f32"
    if isinstance(value, np.ndarray):
        return f"{constant_text(value)} : {TensorSpec(value.shape, value.dtype).mlir}"
    if isinstance(value, np.integer):
        return f"{int(value)} : {as_dtype(value.dtype).mlir}"
    if isinstance(value, np.floating):
        raw = int.from_bytes(value.tobytes(), "little")
        return f"0x{raw:0{2 * value.itemsize}X} : {as_dtype(value.dtype).mlir}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(attribute_text, value))}]"
    if isinstance(value, Mapping):
        return dictionary_text(value)
    raise DTypeError(
        f"an attribute must be a bool, number, string, array, or a list or dictionary of them; got {value!r} [X1]"
    )


def dictionary_text(values: Mapping[str, Any]) -> str:
    """The text of an MLIR dictionary, its keys in order."""
    entries = []
    for key in sorted(values):
        if not isinstance(key, str) or not key:
            raise ConstraintError(f"keys must be names; got {key!r} [X1]")
        entries.append(
            f"{key if key.isidentifier() else quote(key)} = {attribute_text(values[key])}"
        )
    return f"{{{', '.join(entries)}}}"


def composite_call(
    computation: Any,
    *operands: Any,
    name: str,
    attributes: str | Mapping[str, Any] | None = None,
    version: int = 0,
) -> Any:
    """An operation of another dialect together with what it is made of.

    A compiler that knows `name` may replace it by its own; every other one runs the computation.

    Parameters
    ----------
    computation : Computation or callable
        The decomposition. Of outer tensors it may use only concrete ones, which become constants.
    *operands : Tensor
    name : str
        With its namespace: ``"my_compiler.gelu"``.
    attributes : str or mapping, optional
        The text of an MLIR dictionary, ``"{n = 1 : i32}"``, or Python values: an int is an i64, a float an f32,
        numpy scalars and arrays keep their type.
    version : int
        Of the composite's semantics.

    Returns
    -------
    Tensor or tuple of Tensor

    Raises
    ------
    ConstraintError
        [C1] If the name has no namespace.
    DTypeError
        [C3] If the operands are not what the computation takes.

    Notes
    -----
    Section CompositeCall of the operation semantics. A derivative or a vectorised form is no longer the operation
    of that name, so it is a plain call.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.composite_call(lambda x: ops.mul(x, x), 3.0, name="sample.square", attributes={"n": 2})
    Tensor(9., f32[])
    """
    tensors = [lift(x) for x in operands]
    found = as_computation(computation, [t.spec for t in tensors], name=name.rsplit(".", 1)[-1])
    text = attributes if isinstance(attributes, str) else dictionary_text(attributes or {})
    outs = bind(
        composite_call_op,
        *tensors,
        decomposition=found,
        name=name,
        composite_attributes=text,
        version=version,
    )
    return _bare(outs, found)


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
    while cond(*state)[0]:
        state = body(*state)
    return state


def read_while(reader: Reader, operation: Any) -> Any:
    """Outer values that the regions use are handed through the loop."""
    operands = reader.operands(operation)
    count = len(operands)
    captures = Captures(operands)
    cond, cond_captured = reader.region(operation, 0, "cond")
    body, body_captured = reader.region(operation, 1, "body")
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
        require(len(branches) == 2, "C1", "a pred must choose between two branches", len(branches))
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
    return _bare(bind(case_op, index, *captures.tensors, branches=branches), branches[0])
