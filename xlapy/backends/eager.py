"""Running an operation outside every trace: a program of one instruction, compiled once for its operands' specs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from xlapy import tree
from xlapy.backends.base import Backend, CompileOptions, Executable
from xlapy.backends.exact_functions import with_exact_functions
from xlapy.backends.region_limits import refused_within, replacement
from xlapy.backends.registry import current_backend
from xlapy.backends.subnormals import with_subnormals
from xlapy.errors import BackendError, TracingError, UnsupportedOpError, XlapyError
from xlapy.source import caller
from xlapy.specs import TensorSpec
from xlapy.tensor import Placed, Placement, Tensor
from xlapy.trace.builder import XlaBuilder, host_array, lift
from xlapy.trace.computation import Computation, subcomputations
from xlapy.trace.mode import annotate, set_eager
from xlapy.trace.op import Op
from xlapy.trace.process_grid import settled
from xlapy.trace.simplify import expand
from xlapy.trace.verify import verify

__all__ = [
    "block_until_ready",
    "clear_eager_cache",
    "common_placement",
    "compile_checked",
    "put",
]

#: how many shapes of arrays a place remembers
_PUTTERS: Final = 4096

#: (op, Placed of each operand, parameters) -> what makes the tensor, or a tuple of them, of the operands' payloads
_programs: dict[Any, Callable[[Sequence[Any]], Any]] = {}
_LIMIT = 4096


def clear_eager_cache() -> None:
    """Forget every program compiled for eager execution."""
    _programs.clear()


def execute(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run one operation on concrete tensors."""
    try:
        key = (
            (op, *[x.placed for x in operands], *params.items())
            if params
            else (op, *[x.placed for x in operands])
        )
        run = _programs[key]
    except (AttributeError, KeyError, TypeError):
        return _execute_first(op, operands, params)
    return run([x.payload for x in operands])


def _execute_first(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    if op.name == "constant" and not operands:
        return put(params["value"])
    for x in operands:
        # Explicit builders record without being entered: their values say where they belong.
        if type(x) is Tensor and type(x.placed) is not Placed:
            scope = x.payload.scope
            if scope is None or not scope.open:
                x._refuse("it cannot be used")
            builder: XlaBuilder = scope.builder
            builder.value(x)  # in its own thread only
            return builder.record(op, operands, params)
    try:
        tensors = [lift(x, operands) for x in operands]
    except XlapyError as error:
        raise annotate(error, op.name, None) from None
    specs = [t.spec for t in tensors]
    try:
        placement = common_placement(tensors)
        if not tensors:
            # Without operands to tell the backend, the program is kept under the one in use.
            kept = _programs.get((op, placement, *params.items()))
            if kept is not None:
                return kept(())
    except XlapyError as error:
        raise annotate(error, op.name, specs) from None
    builder = XlaBuilder(op.name)
    arguments = [builder.parameter(i, s) for i, s in enumerate(specs)]
    outs = builder.record(op, arguments, params)
    several = type(outs) is tuple
    computation = builder.finish([builder.value(o) for o in (outs if several else (outs,))])
    try:
        executable = compile_checked(computation, placement)
    except XlapyError as error:
        raise annotate(error, op.name, specs) from None
    run = _tupled(executable) if several else executable.execute_single
    where: list[Any] = [t.placed for t in tensors] or [placement]
    # Parameters that cannot be keys, such as arrays, are compiled each time.
    with contextlib.suppress(TypeError):
        _programs[op, *where, *params.items()] = run
        if len(_programs) > _LIMIT:
            _programs.pop(next(iter(_programs)))
    return run([t.payload for t in tensors])


def _tupled(executable: Executable) -> Callable[[Sequence[Any]], tuple[Tensor, ...]]:
    """A program as a function that gives a tuple of tensors."""
    execute, placed = executable.execute, executable.placed

    def run(payloads: Sequence[Any]) -> tuple[Tensor, ...]:
        return tuple([Tensor(p, r) for p, r in zip(placed, execute(payloads), strict=True)])

    return run


def common_placement(tensors: Sequence[Tensor]) -> Placement:
    """Where an operation on tensors runs: where they all lie; without any, on the current backend.

    Raises
    ------
    BackendError
        If they lie in different places: data never moves silently.
    """
    placement: Placement | None = None
    for t in tensors:
        placed = t.placed
        if type(placed) is not Placed:
            raise TracingError(f"a traced tensor must be used within its trace; got {placed} [X1]")
        if placement is None:
            placement = placed.placement
        elif placed.placement is not placement:
            raise BackendError(
                f"operands must lie on one device; got {placement} and {placed.placement} [X1]\n"
                "  move one with x.to(...)"
            )
    return placement if placement is not None else current_backend().placement


def check_supported(computation: Computation, backend: Backend) -> None:
    """Refuse what the backend lacks, before anything is compiled."""
    capabilities = backend.capabilities
    regions = capabilities.scalar_regions
    if not capabilities.missing_ops and not capabilities.missing_dtypes and not regions:
        return
    pending = [computation]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for value in current.parameters:
            _check_dtype(value.spec, capabilities.missing_dtypes, backend, None)
        for instruction in current.instructions:
            instead = capabilities.missing_ops.get(instruction.op.name)
            if instead is not None:
                error: XlapyError = UnsupportedOpError(
                    f"operations must run on {backend.name}; got {instruction.op.name} [X5]\n  {instead}"
                )
                raise annotate(
                    error, "", [v.spec for v in instruction.operands], instruction.source
                )
            within = refused_within(instruction, regions)
            if within is not None:
                error = UnsupportedOpError(
                    f"{instruction.op.name}: on {backend.name} its computations must be plain arithmetic on scalars;"
                    f" got {within} in one: use the interpreter [X5]"
                )
                raise annotate(
                    error, "", [v.spec for v in instruction.operands], instruction.source
                )
            for value in instruction.results:
                _check_dtype(value.spec, capabilities.missing_dtypes, backend, instruction)
            pending.extend(subcomputations(instruction.params))


def _check_dtype(spec: Any, missing: frozenset[str], backend: Backend, instruction: Any) -> None:
    if type(spec) is TensorSpec and spec.dtype.name in missing:
        error: XlapyError = UnsupportedOpError(
            f"element types must run on {backend.name}; got {spec.dtype} [X5]\n  convert it, or use the interpreter"
        )
        if instruction is not None:
            raise annotate(
                error,
                instruction.op.name,
                [v.spec for v in instruction.operands],
                instruction.source,
            )
        raise error


def compile_checked(
    computation: Computation, placement: Placement, options: CompileOptions | None = None
) -> Executable:
    """Verify a computation, refuse what does not fit its devices or what its backend lacks, and compile it.

    Everything that reaches a backend comes through here, for a compiler may abort the process on a program that is
    not well formed.
    """
    options = options or CompileOptions(device=placement.device)
    verify(computation)
    computation = settled(computation, options.num_replicas, options.num_partitions)
    backend: Backend = placement.backend
    capabilities = backend.capabilities
    if capabilities.missing_ops or capabilities.scalar_regions:
        # What a backend lacks is composed of what it has, where the operation says how.
        computation = expand(computation, lambda i: replacement(i, capabilities))
    if not capabilities.exact_functions:
        computation = with_exact_functions(computation)
    if capabilities.flushes_subnormals:
        computation = with_subnormals(computation)
    check_supported(computation, backend)
    return backend.compile(computation, options)


def put(x: Any, placement: Placement | None = None, dtype: Any = None) -> Tensor:
    """A concrete tensor holding a copy of an array-like."""
    where = placement if placement is not None else current_backend().placement
    if type(x) is np.ndarray and dtype is None and x.flags.c_contiguous:
        known = where.putters.get((x.shape, x.dtype))
        if known is not None:
            return Tensor(known[0], known[1](x))
    array = x if type(x) is np.ndarray else host_array(x)
    array = host_array(array if dtype is None else array.astype(dtype.numpy))
    spec = TensorSpec(array.shape, array.dtype)
    backend: Backend = where.backend
    try:
        copy = backend.putter(spec, where.device)
        payload = copy(array)
    except XlapyError as error:
        raise annotate(error, "", [spec], caller(2)) from None
    placed = where.of(spec)
    if len(where.putters) < _PUTTERS:
        where.putters[array.shape, array.dtype] = placed, copy
    return Tensor(placed, payload)


def block_until_ready(container: Any) -> Any:
    """Wait until every tensor in a container has been computed; errors of the computations are raised here.

    Parameters
    ----------
    container : container of tensors
        Traced tensors, and leaves that are no tensors, are passed over.

    Returns
    -------
    container
        The same object.

    Examples
    --------
    >>> import xlapy
    >>> xlapy.block_until_ready({"x": xlapy.ones(2)})
    {'x': Tensor([1., 1.], f32[2])}
    """
    payloads: dict[Any, list[Any]] = {}
    for leaf in tree.flatten(container)[0]:
        if type(leaf) is Tensor:
            placed = leaf.placed
            if type(placed) is Placed:
                payloads.setdefault(placed.placement.backend, []).append(leaf.payload)
    for backend, given in payloads.items():
        backend.block_until_ready(*given)
    return container


set_eager(execute)
