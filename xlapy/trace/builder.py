"""Recording: `XlaBuilder`, the only maker of instructions, and `trace`, which runs a function under one."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, final

from xlapy.dtypes import DType, python_scalar
from xlapy.errors import DTypeError, TracingError, XlapyError
from xlapy.source import Source, caller
from xlapy.specs import Spec, TensorSpec, parse_spec, require, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.computation import Computation, Instruction, Scope, Value
from xlapy.trace.host_arrays import host_array, scalar_array
from xlapy.trace.mode import _current, annotate, bind, current_builder, using
from xlapy.trace.op import Op, lookup
from xlapy.trace.scalars import ScalarUse

__all__ = [
    "Traced", "XlaBuilder", "as_computation", "host_array", "lift", "recording", "scalar_array", "trace",
]  # fmt: skip


@final
class XlaBuilder:
    """Builds a computation instruction by instruction.

    Operations called on its values are recorded here. ``@xlapy.compile`` and the transformations use the same class.

    Parameters
    ----------
    name : str
        The name of the computation.

    Examples
    --------
    >>> import xlapy
    >>> b = xlapy.XlaBuilder("axpy")
    >>> x = b.parameter(0, "f32[8]", "x")
    >>> y = b.parameter(1, "f32[8]", "y")
    >>> axpy = b.build(xlapy.ops.add(xlapy.ops.mul(x, x), y))
    >>> len(axpy.instructions)
    2

    Inside ``with b:`` operations without traced operands, such as ``xlapy.ops.iota``, are recorded as well.
    """

    __slots__ = (
        "_constants", "_sources", "_tokens", "arguments", "batched", "capture_constants", "captured", "derived",
        "instructions", "parameter_names", "parameters", "scalars", "scope", "stand_ins", "thread", "weak",
    )  # fmt: skip

    def __init__(self, name: str = "main", parent: Scope | None = None) -> None:
        require_dtype(type(name) is str, "X1", "name must be a text", name)
        self.scope = Scope(name, parent, self)
        self.parameters: dict[int, Value] = {}
        self.parameter_names: dict[int, str] = {}
        #: the tensors that are handed to the function that is traced, and to those that it differentiates
        self.arguments: list[Tensor] = []
        self.instructions: list[Instruction] = []
        #: tensors of outside that the program uses: id of the payload -> (tensor, hidden parameter)
        self.captured: dict[int, tuple[Tensor, Value]] = {}
        #: bake concrete tensors of outside in as constants (for bodies that can not take further parameters)
        self.capture_constants = False
        #: parameters that stand for Python scalars, and so take the element type of what they meet
        self.weak: set[Value] = set() if parent is None else parent.builder.weak
        #: for some of them a value of the same sign and width, by which to check that they fit
        self.stand_ins: dict[Value, Any] = {}
        #: those that are given anew in each call or follow from such ones, and what is asked of them
        self.scalars: dict[Value, ScalarUse] = {}
        #: those that follow, by how
        self.derived: dict[Any, ScalarUse] = {}
        #: what has the length of the axis that an operation is vectorised along, if that is not known
        self.batched: Tensor | None = None
        self.thread = threading.get_ident()
        # id of the array -> (where its constant was recorded, the constant's value, the array)
        self._constants: dict[int, tuple[int, Value, Any]] = {}
        # What a rule records apart is for the line of the instruction that it is asked about.
        self._sources: list[Source] = [] if parent is None else parent.builder._sources[-1:]
        self._tokens: list[Any] = []

    # --- the explicit interface ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the computation."""
        return self.scope.name

    def parameter(self, number: int, spec: str | Spec, name: str = "") -> Tensor:
        """Declare a parameter.

        Parameters
        ----------
        number : int
            Its position, from 0.
        spec : str or spec
            Such as ``"f32[8]"``.
        name : str

        Returns
        -------
        Tensor
            A traced one.

        Raises
        ------
        ConstraintError
            If the number is taken or negative.
        """
        parsed = parse_spec(spec)
        try:
            require(
                type(number) is int and number >= 0,
                "X1",
                "parameter_number must be a position from 0",
                number,
            )
            require(
                number not in self.parameters,
                "X1",
                "each parameter_number must be declared once",
                number,
            )
            self._check_open()
        except XlapyError as error:
            raise annotate(error, "parameter", [parsed]) from None
        value = Value(parsed, self.scope)
        self.parameters[number] = value
        self.parameter_names[number] = name
        argument = Tensor(parsed, value)
        self.arguments.append(argument)
        return argument

    def build(self, *roots: Any) -> Computation:
        """Finish: the computation whose results are the roots.

        Parameters
        ----------
        *roots : Tensor
            Values of this builder; without any, the results of the last instruction.

        Returns
        -------
        Computation

        Raises
        ------
        TracingError
            If the builder was built already, or a root belongs to another one.
        """
        self._check_open()
        for root in roots:
            if isinstance(root, list | tuple | dict):
                what = "a root must be a tensor; hand over several one by one, or as ops.tuple"
                require_dtype(False, "X1", what, type(root).__name__)
        if roots:
            results = [self.value(r) for r in roots]
        else:
            require(
                bool(self.instructions),
                "X1",
                "there must be an instruction for build() without a root",
                0,
            )
            results = list(self.instructions[-1].results)
        if sorted(self.parameters) != list(range(len(self.parameters))):
            require(
                False,
                "X1",
                "parameter numbers must be 0, 1, 2, ... without a gap",
                sorted(self.parameters),
            )
        return self.finish(results)

    def finish(self, results: Sequence[Value]) -> Computation:
        """Close the trace over values; hidden parameters follow the declared ones."""
        self.scope.open = False
        order = sorted(self.parameters)
        hidden = [v for _, v in self.captured.values()]
        return Computation(
            [self.parameters[n] for n in order] + hidden,
            self.instructions,
            results,
            self.scope.name,
            [self.parameter_names[n] for n in order] + [""] * len(hidden),
        )

    def __enter__(self) -> XlaBuilder:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._tokens:
            raise TracingError(
                f"a builder must be entered before it is left; got {self.name!r} [X1]"
            )
        _current.reset(self._tokens.pop())

    def _check_open(self) -> None:
        if not self.scope.open:
            raise TracingError(f"a builder must not be used after build(); got {self.name!r} [X1]")

    # --- recording ----------------------------------------------------------------------------------------------

    def record(self, op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Append an instruction and give its results as traced tensors: the hot path of tracing."""
        scope = self.scope
        values: list[Value] = []
        for x in operands:
            if type(x) is Tensor:
                value = x.payload
                if type(value) is not Value or value.scope is not scope:
                    value = self.value(x)
            else:
                try:
                    value = self.value(lift(x, operands))
                except XlapyError as error:
                    raise annotate(error, op.name, None, self.source()) from None
            values.append(value)
        if not scope.open:
            self._check_open()
        try:
            specs = op.infer(*[v.spec for v in values], **params)
        except XlapyError as error:
            raise annotate(error, op.name, [v.spec for v in values], self.source()) from None
        source = self._sources[-1] if self._sources else caller(3)
        if type(specs) is tuple:
            results = tuple([Value(s, scope) for s in specs])
            self.instructions.append(Instruction(op, tuple(values), params, results, source))
            return tuple([Tensor(v.spec, v) for v in results])
        result = Value(specs, scope)
        self.instructions.append(Instruction(op, tuple(values), params, (result,), source))
        return Tensor(specs, result)

    def value(self, x: Any) -> Value:
        """The value of this trace that an operand stands for; outer and concrete tensors become hidden parameters."""
        if type(x) is not Tensor:
            x = lift(x, ())
        value = x.payload
        if type(value) is Value:
            scope = value.scope
            if scope is self.scope:
                if threading.get_ident() != self.thread:
                    raise self._error(
                        "a traced tensor must stay in the thread of its trace", value.spec
                    )
                return value
            if scope is None or not scope.open:
                name = scope.name if scope is not None else "?"
                raise self._error(
                    f"a tensor must not be used after the trace of {name!r} that made it has ended",
                    value.spec,
                )
            if not self.is_nested_in(scope):
                raise self._error(
                    f"a traced tensor must be used within its trace, {scope.name!r}, not in {self.name!r}",
                    value.spec,
                )
        elif self.capture_constants:
            return self._constant(x)
        found = self.captured.get(id(value))
        if found is None:
            # The entry keeps x, and so its payload's id, alive.
            kept = Tensor(x.placed, value)
            found = self.captured[id(value)] = (kept, Value(x.placed.spec, self.scope))
        return found[1]

    def weak_source(self, x: Tensor, dtype: DType) -> Tensor:
        """What to convert when a weak tensor takes an element type: a more exact parameter where there can be one."""
        use = self.scalars.get(x.payload)
        return x if use is None else use.at(dtype)

    def shared_constant(self, array: Any) -> Tensor:
        """A constant of an array, the one recorded before if there is one: for what composed functions make up."""
        known = self._constants.get(id(array))
        if known is not None:
            position, value, _ = known
            # Transformations take instructions out and put them back elsewhere.
            found = self.instructions[position : position + 1]
            if found and found[0].results == (value,):
                return Tensor(value.spec, value)
        made: Tensor = self.record(lookup("constant"), (), {"value": array})
        self._constants[id(array)] = (len(self.instructions) - 1, made.payload, array)
        return made

    def _constant(self, x: Tensor) -> Value:
        with using(self):
            made: Tensor = (
                self.record(lookup("constant"), (), {"value": x.numpy()})
                if type(x.spec) is TensorSpec
                else self.record(lookup("create_token"), (), {})
            )
        value: Value = made.payload
        return value

    def is_nested_in(self, scope: Scope) -> bool:
        """Whether this trace lies within another one."""
        step = self.scope.parent
        while step is not None:
            if step is scope:
                return True
            step = step.parent
        return False

    def _error(self, message: str, got: Any) -> TracingError:
        return TracingError(f"{message}; got {got} [X1]")

    def source(self) -> Source:
        """The user's line that instructions are recorded for now."""
        return self._sources[-1] if self._sources else caller(3)

    @contextmanager
    def at_source(self, source: Source, *, exactly: bool = False) -> Iterator[None]:
        """Record for another line than the calling one; None leaves that which holds, unless it is taken `exactly`."""
        if source is None and not exactly:
            yield
            return
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.pop()


@contextmanager
def recording(builder: XlaBuilder) -> Iterator[None]:
    """Record operations in a builder within the block, after which its tensors are good for nothing more."""
    try:
        with using(builder):
            yield
    except RecursionError:
        if builder.scope.depth <= _FEW:
            raise  # it is the function that calls itself
        raise TracingError(
            "computations must not lie deeper in each other than Python can call; got"
            f" {builder.scope.depth} [X1]\n  sys.setrecursionlimit gives them more room"
        ) from None
    finally:
        builder.scope.open = False


# So many computations do not fill Python's stack.
_FEW: Final = 10


# Calling them runs nothing.
_GENERATOR: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def require_function(f: Any, what: str) -> None:
    """Refuse what cannot be recorded when it is given, not when it is called."""
    if not callable(f):
        raise DTypeError(f"{what} must be a function; got {type(f).__name__} [X1]")
    code = getattr(f, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:
        raise DTypeError(
            f"{what} must be an ordinary function, no generator or coroutine; got {code.co_qualname} [X1]"
        )


def lift(x: Any, operands: Sequence[Any] = ()) -> Tensor:
    """An operand that is no tensor as a constant: Python scalars take the type of the first tensor operand."""
    if isinstance(x, Tensor):
        return x
    like = next((o for o in operands if type(o) is Tensor and type(o.spec) is TensorSpec), None)
    number = python_scalar(x)
    if number is not None:
        array = scalar_array(number, None if like is None else like.dtype)
    else:
        array = host_array(x)
    constant = lookup("constant")
    if like is not None and type(like.payload) is Value and current_builder() is None:
        # An explicit builder that was not entered: its values say where the constant belongs.
        scope = like.payload.scope
        if scope is not None and scope.open:
            made: Tensor = scope.builder.record(constant, (), {"value": array})
            return made
    result: Tensor = bind(constant, value=array)
    return result


@final
class Traced:
    """What `trace` found: a computation and the outside tensors that follow its declared parameters.

    Attributes
    ----------
    computation : Computation
    captured : list of Tensor
        Operands for the hidden parameters, in order.
    output : any
        What the function returned, whatever it was (the tensors in it are of the ended trace).
    """

    __slots__ = ("captured", "computation", "output")

    def __init__(self, computation: Computation, captured: list[Tensor], output: Any) -> None:
        self.computation = computation
        self.captured = captured
        self.output = output


def trace(
    function: Callable[..., Any],
    specs: Sequence[Spec],
    *,
    name: str | None = None,
    names: Sequence[str] = (),
    roots: Callable[[Any], Sequence[Any]] | None = None,
) -> Traced:
    """Run a function on traced arguments and keep what it recorded.

    Parameters
    ----------
    function : callable
        Of as many tensors as there are specs.
    specs : sequence of specs
    name : str, optional
        The computation's; by default the function's.
    names : sequence of str
        The parameters'.
    roots : callable, optional
        From what the function returned to the sequence of results; by default one tensor or a flat sequence.

    Returns
    -------
    Traced
    """
    outer = current_builder()
    builder = XlaBuilder(
        name if name else getattr(function, "__name__", "main"),
        outer.scope if outer is not None else None,
    )
    arguments = [builder.parameter(i, s, names[i] if names else "") for i, s in enumerate(specs)]
    with recording(builder):
        output = function(*arguments)
        found = (roots or _flat)(output)
        results = [builder.value(r) for r in found]
    return Traced(builder.finish(results), [t for t, _ in builder.captured.values()], output)


def _flat(output: Any) -> Sequence[Any]:
    return output if isinstance(output, list | tuple) else (output,)


_bodies: dict[Any, Computation] = {}


def as_computation(
    body: Any,
    specs: Sequence[Spec],
    *,
    name: str = "body",
    what: str = "computation",
    shared: bool = False,
) -> Computation:
    """A closed computation from a `Computation` or a Python function, for an operation's parameter.

    Concrete tensors that the function closes over are baked in; traced ones are refused, for HLO has no place for
    them. (Control flow takes them as further operands instead.)

    Parameters
    ----------
    body : Computation or callable
    specs : sequence of specs
        Of the body's parameters.
    name : str
    what : str
        The argument's name, for messages.
    shared : bool
        Whether it is kept for other places, and so has no line but that of the instruction that holds it.

    Returns
    -------
    Computation
    """
    if type(body) is Computation:
        if body.parameter_specs != tuple(specs):
            require(
                False, "X1", f"{what} must take {', '.join(map(str, specs))}",
                ", ".join(map(str, body.parameter_specs)), DTypeError,
            )  # fmt: skip
        return body
    if not callable(body):
        raise DTypeError(
            f"{what} must be a function or a Computation; got {type(body).__name__} [X1]"
        )
    # The public operations are the same function each time: their bodies are traced once.
    key = None
    if getattr(body, "__module__", "").startswith("xlapy.ops") and "<" not in body.__qualname__:
        key = (body, *specs)
        if key in _bodies:
            return _bodies[key]
    outer = current_builder()
    builder = XlaBuilder(name, outer.scope if outer is not None else None)
    builder.capture_constants = True
    arguments = [builder.parameter(i, s) for i, s in enumerate(specs)]
    if shared or key is not None:
        builder._sources.append(None)
    with recording(builder):
        output = body(*arguments)
        results = [builder.value(r) for r in _flat(output)]
    if builder.captured:
        inner = next(iter(builder.captured.values()))[0]
        require(
            False,
            "X1",
            f"{what} must not use traced values of the enclosing function",
            inner.spec,
            TracingError,
        )
    computation = builder.finish(results)
    if key is not None:
        _bodies[key] = computation
    return computation
