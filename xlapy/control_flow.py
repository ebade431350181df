"""Control flow in Python syntax: `cond`, `while_loop`, `fori_loop`.

The functions given may use tensors of the enclosing function: these become further operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy import tree
from xlapy.differentiation import _in_one_program, _tensor
from xlapy.errors import DTypeError
from xlapy.numpy.promotion import at_dtype, is_weak
from xlapy.source import hide_library_frames
from xlapy.specs import TensorSpec
from xlapy.tensor import Tensor
from xlapy.trace.builder import Traced, lift, require_function, trace
from xlapy.trace.computation import Computation, Value
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

__all__ = ["cond", "fori_loop", "while_loop"]


def _widened(
    traced: Traced, count: int, before: Sequence[Tensor], after: Sequence[Tensor], passed: bool
) -> Computation:
    """The computation with parameters for other functions' captured tensors around its own.

    With `passed` it hands all captured ones on as results.
    """
    inner = traced.computation
    front = [Value(t.placed.spec) for t in before]
    back = [Value(t.placed.spec) for t in after]
    extra = [*front, *inner.parameters[count:], *back]
    results = [*inner.results, *(extra if passed else ())]
    return Computation([*inner.parameters[:count], *extra], inner.instructions, results, inner.name)


def _traced(
    function: Callable[..., Any], structure: tree.TreeDef, specs: Sequence[Any], name: str
) -> tuple[Traced, tree.TreeDef]:
    require_function(function, name)
    found: list[tree.TreeDef] = []

    def of_leaves(*leaves: Any) -> Any:
        outs, out_structure = tree.flatten(function(*tree.unflatten(structure, leaves)))
        found.append(out_structure)
        return [x if type(x) is Tensor else lift(x) for x in outs]

    return trace(of_leaves, specs, name=name), found[0]


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """Repeat `body` as long as `cond` holds.

    Parameters
    ----------
    cond : callable
        From the state to a truth value, ``pred[]``.
    body : callable
        From the state to the next one, of the same containers and specs.
    init : container of tensors
        The first state.

    Returns
    -------
    container
        The last state.

    Raises
    ------
    DTypeError
        If `cond` gives no truth value, or `body` changes the containers or specs.

    Examples
    --------
    >>> import xlapy
    >>> xlapy.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 3.0)
    Tensor(192., f32[])
    """

    def recorded(state: Any) -> Any:
        leaves, structure = tree.flatten(state)
        tensors = [_tensor(x) for x in leaves]
        specs = [t.placed.spec for t in tensors]
        single = tree.flatten((0,))[1]
        whole = tree.TreeDef(single.kind, single.data, (structure,))
        test, test_structure = _traced(cond, whole, specs, "cond")
        step, step_structure = _traced(body, whole, specs, "body")
        found = test.computation.result_specs
        if test_structure is not tree.LEAF or found != (TensorSpec((), "pred"),):
            raise DTypeError(f"while_loop: cond must give a truth value, pred[]; got {found} [C1]")
        given = list(step.computation.result_specs)
        if step_structure != structure or given != specs:
            raise DTypeError(
                f"while_loop: body must keep the state's containers and specs, {structure} of"
                f" {specs}; got {step_structure} of {given} [C2]"
            )
        count = len(specs)
        outs = bind(
            lookup("while"),
            *tensors,
            *test.captured,
            *step.captured,
            cond=_widened(test, count, (), step.captured, passed=False),
            body=_widened(step, count, test.captured, (), passed=True),
        )
        return tree.unflatten(structure, outs[:count])

    return _run(recorded, (init,), "while_loop")


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """Call ``state = body(i, state)`` for i from `lower` up to below `upper`.

    Parameters
    ----------
    lower, upper : int or integer scalar tensor
    body : callable
    init : container of tensors

    Returns
    -------
    container
        The last state.

    Examples
    --------
    >>> import xlapy
    >>> xlapy.fori_loop(0, 5, lambda i, total: total + i, 0)
    Tensor(10, s32[])
    """

    def recorded(first: Any, last: Any, state: Any) -> Any:
        start, stop = _bounds(first, last)
        for what, x in (("lower", start), ("upper", stop)):
            spec = x.placed.spec
            if type(spec) is not TensorSpec or spec.rank or not spec.dtype.integer:
                raise DTypeError(f"fori_loop: {what} must be an integer scalar; got {spec} [X1]")
        if start.dtype is not stop.dtype:
            raise DTypeError(
                f"fori_loop: lower and upper must be of one integer type; got {start.dtype} and"
                f" {stop.dtype} [X1]"
            )
        require_function(body, "body")
        one = _tensor(1)
        if start.dtype is not one.dtype:
            one = bind(lookup("convert_element_type"), one, dtype=start.dtype)

        def holds(pair: Any) -> Any:
            kind = "UNSIGNED" if start.dtype.kind == "uint" else "SIGNED"
            return bind(
                lookup("compare"), pair[0], stop, comparison_direction="LT", compare_type=kind
            )

        def step(pair: Any) -> Any:
            return (bind(lookup("add"), pair[0], one), body(*pair))

        return while_loop(holds, step, (start, state))[1]

    return _run(recorded, (lower, upper, init), "fori_loop")


def _bounds(first: Any, last: Any) -> tuple[Tensor, Tensor]:
    """The bounds as tensors; a Python integer takes the type of the other one."""
    for x, other in ((first, last), (last, first)):
        if _adapts(other) and not _adapts(x):
            t = _tensor(x)
            if type(t.placed.spec) is TensorSpec and t.dtype.integer:
                adapted = at_dtype(other, t.dtype)
                return (t, adapted) if x is first else (adapted, t)
    return _tensor(first), _tensor(last)


def _adapts(x: Any) -> bool:
    """Whether it is a Python integer, or stands for one."""
    return type(x) is int or (type(x) is Tensor and is_weak(x) and x.dtype.integer)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """Run one of two functions.

    Parameters
    ----------
    pred : bool or Tensor
        ``pred[]``.
    true_fn, false_fn : callable
        Of the operands; both give the same containers and specs.
    *operands : containers of tensors

    Returns
    -------
    container

    Raises
    ------
    DTypeError
        If `pred` is no truth value or the functions' results differ.

    Examples
    --------
    >>> import xlapy
    >>> xlapy.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 2.0)
    Tensor(3., f32[])
    """

    def recorded(choice: Any, *inner: Any) -> Any:
        index = _tensor(choice)
        if index.placed.spec != TensorSpec((), "pred"):
            raise DTypeError(
                f"cond: pred must be a truth value, pred[]; got {index.placed.spec} [I1]"
            )
        leaves, structure = tree.flatten(tuple(inner))
        tensors = [_tensor(x) for x in leaves]
        specs = [t.placed.spec for t in tensors]
        yes, yes_structure = _traced(true_fn, structure, specs, "true_fn")
        no, no_structure = _traced(false_fn, structure, specs, "false_fn")
        first, second = yes.computation.result_specs, no.computation.result_specs
        if yes_structure != no_structure or first != second:
            raise DTypeError(
                f"cond: both functions must give the same containers and specs; got {yes_structure}"
                f" of {first} and {no_structure} of {second} [C3]"
            )
        count = len(specs)
        outs = bind(
            lookup("case"),
            index,
            *tensors,
            *yes.captured,
            *no.captured,
            branches=(
                _widened(yes, count, (), no.captured, passed=False),
                _widened(no, count, yes.captured, (), passed=False),
            ),
        )
        return tree.unflatten(yes_structure, outs)

    return _run(recorded, (pred, *operands), "cond")


def _run(function: Callable[..., Any], args: tuple[Any, ...], name: str) -> Any:
    try:
        return _in_one_program(function, args, name)
    except Exception as error:
        hide_library_frames(error)
        raise
