"""The backend that compiles with XLA, on any platform that has a PJRT client."""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np

from xlapy import _jaxlib
from xlapy.backends.base import Backend, Capabilities, CompileOptions, Executable
from xlapy.backends.channels import with_own_channels
from xlapy.backends.constant_traps import without_traps
from xlapy.backends.meetings import calls_python, may_fail, require_meetings
from xlapy.backends.region_limits import FEWEST_BITS, REDUCTIONS, SCALAR_REGIONS
from xlapy.errors import BackendError, UnsupportedOpError
from xlapy.memory import require_memory
from xlapy.specs import Spec, TensorSpec, TokenSpec
from xlapy.tensor import Placed, Placement, Tensor
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.op import lookup
from xlapy.trace.stablehlo import HostCallbacks, to_stablehlo

__all__ = ["MISSING_DTYPES", "MISSING_OPS", "Pjrt"]

_Run: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
_Devices: TypeAlias = tuple[Any, ...]
_log = logging.getLogger(__name__)

_HOST_IO: Final = "pass the data as arguments and results, or use the interpreter"

#: What XLA does not run, by platform (`"*"` is every one), each with what to use instead. Most of
#: it is an error when compiled; infeed and outfeed wait for ever, and ragged_all_to_all kills the
#: process.
MISSING_OPS: Final[dict[str, dict[str, str]]] = {
    "*": {
        # jaxlib gives no other end of these transfers
        **dict.fromkeys(("infeed", "outfeed", "send", "send_done", "recv", "recv_done"), _HOST_IO),
        # the variance is the difference of two large numbers there, and may be negative; narrow
        # floats are summed as they are
        **dict.fromkeys(
            ("batch_norm_training", "batch_norm_grad"),
            "take mean and variance of the array themselves",
        ),
        # HLO has none of these; with bounds they are composed of what it has
        **dict.fromkeys(
            (
                "dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota",
                "dynamic_pad", "real_dynamic_slice",
            ),
            "bound the sizes, or use the interpreter",
        ),
    },
    "cpu": {
        "collective_broadcast": "use collective_permute or all_gather",
        "ragged_dot": "use dot_general on each group, or the interpreter",
        "ragged_all_to_all": "use all_to_all, or the interpreter",
    },
}  # fmt: skip

#: element types that XLA >= 0.11 aborts the process on
MISSING_DTYPES: Final = frozenset({"f6e2m3fn", "f6e3m2fn"})

#: how many loaded executables a client keeps for programs that come again
_KEPT: Final = 256


@final
class _Program(Executable):
    """An executable of XLA's."""

    def __init__(
        self,
        executable: Any,
        execute: _Run,
        placed: tuple[Placed, ...],
        execute_single: Callable[[Sequence[Any]], Tensor] | None = None,
    ) -> None:
        self.placed = placed
        self._executable = executable
        self._run = execute
        # The leanest callable there is, without the method in between.
        self.execute = execute  # type: ignore[method-assign, assignment]
        if execute_single is not None:
            self.execute_single = execute_single  # type: ignore[method-assign, assignment]

    def execute(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """Run on one device, or on all of them with a payload for each."""
        return self._run(payloads)

    @property
    def optimized_hlo_text(self) -> str:
        """The HLO that XLA runs."""
        return _jaxlib.hlo_text(self._executable)

    def cost_analysis(self) -> dict[str, Any]:
        """XLA's estimates, such as ``flops`` and ``bytes accessed``."""
        return _jaxlib.cost_analysis(self._executable)

    def memory_analysis(self) -> dict[str, int]:
        """The bytes that arguments, results, temporaries and code take."""
        return _jaxlib.memory_stats(self._executable)


@final
class Pjrt(Backend):
    """Compiles computations with XLA and runs them on the devices of one platform.

    Parameters
    ----------
    platform : str
        ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, ``"metal"``, the name of another installed
        PJRT plugin, or the path to a plugin's library.
    num_devices : int, optional
        How many devices the CPU pretends to have, at most 1024; default ``XLAPY_NUM_CPU_DEVICES``, else 1.
    plugin_options : dict, optional
        Options of the plugin. Unless ``{"preallocate": True}`` is among them, GPU memory is
        allocated as it is needed.

    Attributes
    ----------
    compiles : int
        How many programs XLA compiled; those loaded from disk do not count.
    loads : int
        How many programs were loaded from disk.

    Raises
    ------
    BackendError
        If there is no such platform, or its plugin is missing or of another version.

    Notes
    -----
    XLA makes the CPU take subnormal numbers, those below 1.2e-38 in f32 and 2.2e-308 in f64, for zeros, as operands
    and as results. ceil, floor, sign, conversions to truth values and comparisons look at the bits and see them all
    the same, except where a comparison is all that a sort's comparator does, or within a select_and_scatter.
    """

    def __init__(
        self,
        platform: str = "cpu",
        *,
        num_devices: int | None = None,
        plugin_options: dict[str, Any] | None = None,
    ) -> None:
        self.name = f"pjrt:{platform}"
        if platform == "cpu":
            self._client = _jaxlib.cpu_client(num_devices)
            self._identity = ""
        else:
            self._identity = _jaxlib.plugin_identity(platform)
            self._client = _jaxlib.plugin_client(platform, plugin_options)
        self._devices = tuple(_jaxlib.devices(self._client))
        if not self._devices:
            raise BackendError(f"a backend must have a device; got none for {self.name} [X1]")
        self._default = self._devices[0]
        self.placement = Placement(self)
        self.compiles = 0
        self.loads = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], tuple[Any, _Run]] = OrderedDict()
        kind = _jaxlib.platform(self._client)[0]
        self._capabilities = Capabilities(
            {**MISSING_OPS["*"], **MISSING_OPS.get(kind, {})},
            MISSING_DTYPES,
            SCALAR_REGIONS,
            REDUCTIONS.get(kind, REDUCTIONS["*"]),
            FEWEST_BITS.get(kind, {}),
            # XLA before 0.11 finds no layouts for their results.
            joint_reductions=False,
            mixed_precision=False,
            # They abort the process as they are compiled.
            associative_scans=kind != "cpu",
            varying_sizes=False,
            exact_functions=False,
            overwrites_inputs=kind == "cpu",
            flushes_subnormals=kind == "cpu",
        )
        self._is_cpu = kind == "cpu"

    def __repr__(self) -> str:
        return f"Pjrt({self.name.removeprefix('pjrt:')!r})"

    @property
    def devices(self) -> Sequence[Any]:
        """The devices that this process can use; the first one is the default."""
        return self._devices

    @property
    def capabilities(self) -> Capabilities:
        """What XLA does not run here."""
        return self._capabilities

    def placement_of(self, device: Any = None, sharding: Any = None) -> Placement:
        """The one `Placement` of a device or sharding."""
        # Named or not, the default device is one place.
        return super().placement_of(None if device is self._default else device, sharding)

    # --- data -------------------------------------------------------------------------------------

    def put(self, array: np.ndarray[Any, Any], spec: TensorSpec, device: Any = None) -> Any:
        """A buffer holding a copy of the array."""
        return _jaxlib.put(array, self._default if device is None else device)

    def putter(self, spec: TensorSpec, device: Any = None) -> Callable[[np.ndarray[Any, Any]], Any]:
        """What copies arrays of one shape and element type to a device."""
        where = self._default if device is None else device
        return _jaxlib.putter(spec.shape, spec.dtype.numpy, where)

    def get(self, payload: Any) -> np.ndarray[Any, Any]:
        """The values, read-only and without a copy where the device's memory can be read."""
        if payload is None:
            raise BackendError("what is read must be an array; got a token [X1]")
        return _jaxlib.get(payload)

    def block_until_ready(self, *payloads: Any) -> None:
        """Wait for the computations of buffers; their errors are raised here."""
        _jaxlib.block_until_ready([p for p in payloads if p is not None])

    def delete(self, payload: Any) -> None:
        """Free a buffer now."""
        if payload is not None:
            _jaxlib.delete(payload)

    def copy(self, payload: Any, device: Any) -> Any:
        """A copy of a buffer on another device of this backend."""
        return None if payload is None else _jaxlib.copy_to(payload, device)

    def group(self, count: int, first: Any = None) -> Sequence[Any]:
        """The devices of a program over several: the first ones from `first` on."""
        try:
            return super().group(count, first)
        except BackendError as error:
            if not self._is_cpu:
                raise
            raise BackendError(
                f"{error.args[0]}\n  set XLAPY_NUM_CPU_DEVICES before the backend is opened, or register"
                " Pjrt('cpu', num_devices=...)"
            ) from None

    # --- programs ---------------------------------------------------------------------------------

    def compile(self, computation: Computation, options: CompileOptions) -> Executable:
        """Compile a verified computation, or load it if it was compiled before.

        Raises
        ------
        UnsupportedOpError
            For arguments and results of varying size, tuples, and collectives that a device might not come to.
        BackendError
            If there are not enough devices, and what XLA says against the program or an option.
        """
        computation = without_traps(computation)
        for what, specs in (
            ("an argument", computation.parameter_specs), ("a result", computation.result_specs)
        ):  # fmt: skip
            for spec in specs:
                _check_passable(what, spec, self.name)
        count = options.num_replicas * options.num_partitions
        if count > 1:
            devices = tuple(self.group(count, options.device))
            require_meetings(computation, options.num_replicas, options.num_partitions)
        else:
            devices = (self._default if options.device is None else options.device,)
        computation = with_own_channels(computation)
        entry, donated = _without_tokens(computation, options.donated)
        if self._is_cpu:
            for instruction in entry.instructions:
                if (
                    instruction.op.name == "iota"
                ):  # XLA of jaxlib 0.12 dies of huge ones as it compiles
                    require_memory("an array", [instruction.results[0].spec])
        executable, run = self._load_or_compile(entry, donated, options, devices)
        beside = len(self._devices) > 1  # there may be programs over several
        if beside and may_fail(entry):
            _jaxlib.doubt_arguments(self._client)
        calls = calls_python(entry)
        donates = beside and count == 1 and bool(donated) and not calls
        if donates:
            run = _jaxlib.giving_away(run)
        placement = self.placement_of(devices[0])
        placed = tuple(placement.of(s) for s in computation.result_specs)
        if self._is_cpu:
            try:
                require_memory("the results of a program", entry.result_specs, count)
            except BackendError as error:
                # XLA's process would end when it finds no memory for a result.
                return _Program(executable, _refusing(error), placed)
        if entry is not computation:
            return _Program(executable, _with_tokens(run, computation, count), placed)
        if calls or count > 1 or len(placed) != 1:
            return _Program(executable, run, placed)
        (result,) = _signatures(entry.result_specs)
        where = _jaxlib.placement(devices)
        single = _jaxlib.make_wrapping_runner(executable, result, where, Tensor, placed[0])
        if donates:
            single = _jaxlib.giving_away(single)
        return _Program(executable, run, placed, single)

    def _load_or_compile(
        self,
        computation: Computation,
        donated: frozenset[int],
        options: CompileOptions,
        devices: _Devices,
    ) -> tuple[Any, _Run]:
        """The executable and what runs it, from memory, from disk, or new."""
        # With what it needs of the standard library it takes long to import, and not every process compiles.
        from xlapy.backends.executable_cache import cache_key, default_cache

        attributes = dict.fromkeys(sorted(donated), "jax.buffer_donor = true")
        # The key leaves out where the operations come from: a program that moved is the same.
        callbacks = HostCallbacks(f"xla_ffi_python_{'cpu' if self._is_cpu else 'gpu'}_callback")
        text = to_stablehlo(
            computation, locations=False, parameter_attributes=attributes, callbacks=callbacks
        )
        if self._is_cpu and '"lapack_' in text:
            _jaxlib.register_lapack()
        if callbacks.functions:
            # Its text does not say which functions it calls, so it is not kept.
            return self._compile_with_callbacks(computation, text, callbacks, options, devices)
        key = cache_key(self._key_parts(text, options, devices))
        kept = key, tuple(d.id for d in devices)
        with self._lock:
            found = self._kept.get(kept)
            if found is not None:
                self._kept.move_to_end(kept)
                return found
        cache = default_cache()
        executable = None
        data = cache.load(key)
        if data is not None:
            try:
                executable = _jaxlib.deserialize(self._client, data, devices, **_grid(options))
                self.loads += 1
            except BackendError as error:
                # Some hosts refuse every executable that was kept (openxla/xla#44565).
                _log.info("a cached executable does not load and is built again: %s", error)
                cache.discard(key)
        if executable is None:
            text = to_stablehlo(computation, locations=True, parameter_attributes=attributes)
            executable = _jaxlib.compile(self._client, text, devices, **_grid(options))
            self.compiles += 1
            if cache.directory is not None:
                try:
                    cache.store(key, _jaxlib.serialize(executable))
                except BackendError as error:
                    _log.debug("an executable of %s is not cached: %s", self.name, error)
        run = _runner(executable, computation, devices)
        with self._lock:
            self._kept[kept] = executable, run
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return executable, run

    def _compile_with_callbacks(
        self,
        computation: Computation,
        text: str,
        callbacks: HostCallbacks,
        options: CompileOptions,
        devices: _Devices,
    ) -> tuple[Any, _Run]:
        """A program that calls Python functions, with those of its own."""
        functions = [(f, _signatures(specs)) for f, specs in callbacks.functions]
        guarded = _jaxlib.GuardedCallbacks(functions) if len(devices) > 1 else None
        made = (
            [_jaxlib.make_callback(*f) for f in functions] if guarded is None else guarded.functions
        )
        executable = _jaxlib.compile(
            self._client, text, devices, host_callbacks=made, **_grid(options)
        )
        self.compiles += 1
        if guarded is not None:
            return executable, _runner(executable, computation, devices, guarded)
        results = _signatures(computation.result_specs)
        where = _jaxlib.placement(devices)
        return executable, _jaxlib.make_calling_runner(executable, results, where)

    def _key_parts(self, text: str, options: CompileOptions, devices: _Devices) -> list[str]:
        from xlapy.backends.executable_cache import host_fingerprint

        return [
            _jaxlib.version,
            self.name,
            self._identity,
            *_jaxlib.platform(self._client),
            devices[0].device_kind,
            host_fingerprint() if self._is_cpu else "",
            # XLA reads these when it compiles, beside the options it is given.
            os.environ.get("XLA_FLAGS", ""),
            os.environ.get("LIBTPU_INIT_ARGS", ""),
            repr(sorted(options.flags)),
            # A program of one device is loaded on any of them.
            repr((options.num_replicas, options.num_partitions, [d.id for d in devices]))
            if len(devices) > 1
            else "",
            text,
        ]

    def clear(self) -> None:
        """Let go of the executables kept in memory; those on disk stay."""
        with self._lock:
            self._kept.clear()


def _signatures(specs: Sequence[Spec]) -> list[Any]:
    return [(s.shape, s.dtype.numpy) for s in specs if type(s) is TensorSpec]


def _grid(options: CompileOptions) -> dict[str, Any]:
    """What `_jaxlib` is told of the options: the program is written for one device of the grid."""
    return {
        "options": dict(options.flags),
        "num_replicas": options.num_replicas,
        "num_partitions": options.num_partitions,
        "divide": False,
    }


def _runner(
    executable: Any, computation: Computation, devices: _Devices, callbacks: Any = None
) -> _Run:
    results = _signatures(computation.result_specs)
    if len(devices) > 1:
        return _jaxlib.make_group_runner(executable, results, devices, callbacks)
    return _jaxlib.make_runner(executable, results, _jaxlib.placement(devices))


def _refusing(error: BackendError) -> _Run:
    """What runs a program that may be compiled and looked at, but not run."""
    message, label = error.args[0], error.label

    def run(payloads: Sequence[Any]) -> Sequence[Any]:
        refused = BackendError(message)
        refused.label = label
        raise refused

    return run


def _check_passable(what: str, spec: Spec, name: str) -> None:
    if type(spec) is TensorSpec:
        if not spec.is_static:
            # A buffer has the size of the bound, and nothing says how much of it counts.
            raise UnsupportedOpError(
                f"{what} of a compiled program must have a known shape on {name}; got {spec}: pass "
                f"the whole array and its size (get_dimension_size) [X5]"
            )
    elif type(spec) is not TokenSpec:
        raise UnsupportedOpError(
            f"{what} of a compiled program must be an array or a token; got {spec} [X5]"
        )


def _is_token(value: Value) -> bool:
    return type(value.spec) is TokenSpec


def _without_tokens(
    computation: Computation, donated: frozenset[int]
) -> tuple[Computation, frozenset[int]]:
    """The computation with no token passed in or out: tokens hold no data."""
    tokens = [v for v in computation.parameters if _is_token(v)]
    if not tokens and not any(map(_is_token, computation.results)):
        return computation, donated
    create = lookup("create_token") if tokens else None
    made = [Instruction(create, (), {}, (v,)) for v in tokens] if create is not None else []
    kept = [i for i, v in enumerate(computation.parameters) if not _is_token(v)]
    entry = Computation(
        [computation.parameters[i] for i in kept],
        [*made, *computation.instructions],
        [v for v in computation.results if not _is_token(v)],
        computation.name,
        [computation.parameter_names[i] for i in kept],
    )
    return entry, frozenset(new for new, old in enumerate(kept) if old in donated)


def _with_tokens(run: _Run, computation: Computation, count: int) -> _Run:
    token_payload = None if count == 1 else [None] * count
    arrays = [i for i, v in enumerate(computation.parameters) if not _is_token(v)]
    tokens = [_is_token(v) for v in computation.results]

    def execute(payloads: Sequence[Any]) -> Sequence[Any]:
        found = iter(run([payloads[i] for i in arrays]))
        return [token_payload if token else next(found) for token in tokens]

    return execute
