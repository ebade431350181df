"""Programs compiled, run, kept and looked into."""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from jaxlib import _hlo, _jax
from jaxlib import xla_client as xc

from xlapy._jaxlib.arrays import aval, buffers_stay, check_alive
from xlapy._jaxlib.callbacks import remember, require_time
from xlapy._jaxlib.types import (
    Array,
    Buffer,
    Client,
    Device,
    Executable,
    Module,
    Placement,
    Signature,
    fail,
    listed,
)
from xlapy.errors import BackendError

_Found = TypeVar("_Found")

# XLA's partitioner divides a program of several partitions, and lets them share its arguments. Without
# it a program is what each partition runs, as StableHLO has it.
_DISABLED = "xla_disable_hlo_passes"
_PARTITIONER = ("spmd-partitioner", "spmd-partitioning")


def _compile_options(
    options: Mapping[str, Any],
    num_replicas: int,
    num_partitions: int,
    divide: bool,
    assignment: Any,
) -> Any:
    made = xc.CompileOptions()
    if num_partitions > 1 and not divide:
        disabled = (str(options[_DISABLED]),) if options.get(_DISABLED) else ()
        options = {**options, _DISABLED: ",".join((*disabled, *_PARTITIONER))}
    made.env_option_overrides = list(options.items())
    # Always given: from the list of devices alone XLA takes the first device of the client.
    made.device_assignment = xc.DeviceAssignment.create(assignment)
    if num_replicas * num_partitions > 1:
        build = made.executable_build_options
        made.num_replicas = build.num_replicas = num_replicas
        made.num_partitions = build.num_partitions = num_partitions
        build.use_spmd_partitioning = num_partitions > 1
        build.use_shardy_partitioner = num_partitions > 1
    return made


def _prepare(
    client: Client,
    devices: Sequence[Device] | None,
    options: Mapping[str, Any],
    num_replicas: int,
    num_partitions: int,
    divide: bool,
) -> tuple[Any, Any]:
    count = num_replicas * num_partitions
    if devices is None:
        devices = client.local_devices()[:count]
    if len(devices) != count:
        raise BackendError(
            f"{num_replicas} replicas of {num_partitions} partitions must have one device each; "
            f"got {len(devices)} devices [X1]"
        )
    ids = np.array([d.id for d in devices], np.int32).reshape(num_replicas, num_partitions)
    made = _compile_options(options, num_replicas, num_partitions, divide, ids)
    return xc.DeviceList(tuple(devices)), made


def compile(
    client: Client,
    program: str | bytes | Module,
    devices: Sequence[Device] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    divide: bool = True,
    host_callbacks: Sequence[Callable[..., tuple[Array, ...]]] = (),
) -> Executable:
    """Compile a StableHLO program and load it on devices.

    Releases the GIL, and is safe from several threads. The program must have been verified: XLA
    aborts the process on some malformed ones.

    Parameters
    ----------
    client : Client
    program : str or bytes or Module
        Text, a portable artifact, or what `parse` gave.
    devices : sequence of Device, optional
        One for each replica and partition, partitions varying fastest; default the first ones of
        the client.
    options : mapping, optional
        XLA's own flags, such as ``{"xla_cpu_enable_fast_math": True}``.
    num_replicas, num_partitions : int
    divide : bool
        Whether XLA divides the program among the partitions, by its shardings; otherwise it is what each of
        them runs, with arguments and results of its own.
    host_callbacks : sequence of callable
        Called by ``custom_call @xla_ffi_python_cpu_callback`` with ``backend_config = {index = i :
        ui64}``; see `make_callback`.

    Returns
    -------
    Executable

    Raises
    ------
    BackendError
        What XLA says against the program or an option.
    """
    on, made = _prepare(client, devices, options or {}, num_replicas, num_partitions, divide)
    try:
        if host_callbacks:
            if isinstance(program, (str, bytes)):
                from xlapy._jaxlib.programs import parse

                program = parse(program)
            return client.compile_and_load(program, on, made, host_callbacks=list(host_callbacks))
        return client.compile_and_load(program, on, made)
    except (RuntimeError, ValueError) as error:
        fail(error, "a program must be one that XLA compiles")


def signature(executable: Executable) -> tuple[list[Signature], list[Signature]]:
    """The parameters and results of a compiled program, per device, without tokens."""
    module = executable.hlo_modules()[0]
    program = xc.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape()
    shape = program.result_shape()
    results = shape.tuple_shapes() if shape.is_tuple() else [shape]
    return _arrays_of(program.parameter_shapes()), _arrays_of(results)


def _arrays_of(shapes: Sequence[Any]) -> list[Signature]:
    return [(tuple(s.dimensions()), s.numpy_dtype()) for s in shapes if not s.is_token()]


def make_runner(
    executable: Executable, results: Sequence[Signature], where: Placement | Sequence[Placement]
) -> Callable[[Sequence[Buffer]], list[Buffer]]:
    """The function that runs a compiled program: a list of buffers to a list of buffers.

    It returns before the computation is done. The number, specs and devices of the buffers are the
    caller's to check.

    Parameters
    ----------
    executable : Executable
    results : sequence of Signature
        The specs of the results, whole ones where they are sharded.
    where : Placement or sequence of Placement
        Of each result, or of all of them.

    Raises
    ------
    BackendError
        If the results are not what was compiled: they would be read as garbage.
    """
    places: list[Placement] = [where] * len(results)
    if isinstance(where, (list, tuple)):
        places = list(where)
    check_results(
        executable, [(p.shard_shape(s), d) for p, (s, d) in zip(places, results, strict=True)]
    )
    handlers = [_handler(s, d, p) for (s, d), p in zip(results, places)]
    execute = executable.execute_sharded

    def run(buffers: Sequence[Buffer]) -> list[Buffer]:
        try:
            return execute(buffers).consume_with_handlers(handlers)
        except Exception as error:
            _explain(error, buffers)

    return run


def make_calling_runner(
    executable: Executable, results: Sequence[Signature], where: Placement
) -> Callable[[Sequence[Buffer]], list[Buffer]]:
    """What `make_runner` gives, for a program that calls Python functions."""
    check_results(executable, results)
    handlers = [_handler(s, d, where) for s, d in results]

    def run(buffers: Sequence[Buffer]) -> list[Buffer]:
        require_time()
        try:
            done = executable.execute_sharded(buffers, with_tokens=True)
            remember(done.consume_token())
            return done.consume_with_handlers(handlers)
        except Exception as error:
            _explain(error, buffers)

    return run


def make_wrapping_runner(
    executable: Executable, result: Signature, where: Placement, wrapper: type, placed: object
) -> Callable[[Sequence[Buffer]], Any]:
    """What runs a program of one result and wraps that, without a function in between that takes it from a list.

    Parameters
    ----------
    executable : Executable
        What `make_runner` has checked.
    result : Signature
    where : Placement
    wrapper : type
        Of objects with the attributes ``placed`` and ``payload``.
    placed : object
        The one of every result.
    """
    handlers = [_handler(*result, where)]
    execute = executable.execute_sharded
    new = object.__new__

    def run(buffers: Sequence[Buffer]) -> Any:
        # The class would call its __init__ from C, which takes longer.
        made: Any = new(wrapper)
        made.placed = placed
        try:
            made.payload = execute(buffers).consume_with_handlers(handlers)[0]
        except Exception as error:
            _explain(error, buffers)
        return made

    return run


def giving_away(run: Callable[[Sequence[Buffer]], _Found]) -> Callable[[Sequence[Buffer]], _Found]:
    """What runs a program that is given its arguments, beside programs over several devices.

    Parameters
    ----------
    run : callable
        Of a program that calls no Python functions: `make_runner`'s or `make_wrapping_runner`'s.
    """

    def run_alone(buffers: Sequence[Buffer]) -> _Found:
        with buffers_stay:
            return run(buffers)

    return run_alone


def check_results(executable: Executable, expected: Sequence[Signature]) -> None:
    """Refuse results, per device, that are not what was compiled: they would be read as garbage."""
    _, compiled = signature(executable)
    if compiled != list(expected):
        raise BackendError(
            f"a program's results must be what was compiled, {listed(compiled)}; got "
            f"{listed(expected)} [X1]"
        )


# 0.10.2 checks each result against attributes of jax's own avals unless told not to; later versions
# never do.
_SKIP: dict[str, Any] = (
    {"_skip_checks": True} if "_skip_checks" in (_jax.array_result_handler.__doc__ or "") else {}
)


def _handler(shape: tuple[int, ...], dtype: np.dtype[Any], where: Placement) -> Any:
    return _jax.array_result_handler(aval(shape, dtype), where, committed=True, **_SKIP)


def _explain(error: Exception, buffers: Sequence[Buffer]) -> NoReturn:
    if isinstance(error, (xc.XlaRuntimeError, ValueError)):
        check_alive(*buffers)
        fail(error, "a computation must run to its end")
    raise error


# --- keeping and looking in -----------------------------------------------------------


def serialize(executable: Executable) -> bytes:
    """The compiled program as bytes, for the same jaxlib, platform and processor only.

    Nothing in them says so: jaxlib loads those of another version, and broken ones.
    """
    try:
        return executable.serialize()
    except RuntimeError as error:
        fail(error, "an executable that is kept must have a form as bytes")


def deserialize(
    client: Client,
    data: bytes,
    devices: Sequence[Device] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    divide: bool = True,
    host_callbacks: Sequence[Callable[..., tuple[Array, ...]]] = (),
) -> Executable:
    """Load what `serialize` gave; the parameters are those of `compile`."""
    on, made = _prepare(client, devices, options or {}, num_replicas, num_partitions, divide)
    try:
        if host_callbacks:
            return client.deserialize_executable(data, on, made, list(host_callbacks))
        return client.deserialize_executable(data, on, made)
    except (RuntimeError, ValueError) as error:
        fail(error, "the bytes must be of an executable of this jaxlib")


def hlo_text(executable: Executable) -> str:
    """The optimised HLO of a compiled program."""
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return "\n\n".join(module.to_string(options) for module in executable.hlo_modules())


def cost_analysis(executable: Executable) -> dict[str, Any]:
    """XLA's estimate of the work, such as ``flops``; empty where a platform has none."""
    try:
        found = executable.cost_analysis()
    except RuntimeError:
        return {}
    return dict(found[0] if isinstance(found, list) else found)


def memory_stats(executable: Executable) -> dict[str, int]:
    """Sizes in bytes: ``argument``, ``output``, ``temp``, ``alias``, ``generated_code``, ..."""
    stats = executable.get_compiled_memory_stats()
    names = [n for n in dir(stats) if not n.startswith("_") and n.endswith("_in_bytes")]
    return {n.removesuffix("_in_bytes").removesuffix("_size"): getattr(stats, n) for n in names}


def fingerprint(executable: Executable) -> bytes:
    """A hash of the compiled program that XLA makes; empty where a platform has none."""
    return bytes(executable.fingerprint or b"")
