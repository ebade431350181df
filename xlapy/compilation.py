"""`compile`: a Python function recorded once for each signature of its arguments, and run as one program."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from xlapy import tree
from xlapy.backends.base import CompileOptions
from xlapy.backends.base import Executable as Program
from xlapy.backends.eager import clear_eager_cache, common_placement, compile_checked, put
from xlapy.backends.registry import get_backend
from xlapy.dispatch import NotPlainError, arrange, from_payloads, places
from xlapy.errors import (
    BackendError,
    DTypeError,
    TracingError,
    UnsupportedOpError,
    XlapyError,
)
from xlapy.methods import (
    BoundMethod,
    describe_object,
    require_unchanged,
    stand_in_for,
    static_key,
)
from xlapy.scalar_arguments import SCALARS, ScalarArguments, is_scalar
from xlapy.signatures import (
    INSTANCE,
    Entry,
    Signature,
    as_flags,
    as_names,
    bind_arguments,
    check_names,
    described,
    explained,
    host_scalar,
    leaf_paths,
    leaves_below,
    signature_of,
    spec_of_leaf,
    stand_in,
    unrepeated,
    with_leaves,
    without_static,
)
from xlapy.source import hide_library_frames
from xlapy.specs import TensorSpec, TupleSpec
from xlapy.stages import Executable, Lowered
from xlapy.staging import clear_staged
from xlapy.tensor import Placed, Placement, Tensor
from xlapy.trace.builder import XlaBuilder, lift, recording, require_function
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind, current_builder
from xlapy.trace.op import lookup
from xlapy.trace.simplify import eliminate_dead

__all__ = ["CompiledFunction", "Executable", "Lowered", "clear_caches", "compile"]

# Signatures that one function keeps programs for, before the oldest is dropped.
_LIMIT: Final = 1024
_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


@final
class CompiledFunction:
    """What `compile` makes of a function.

    Attributes
    ----------
    traces, compiles : int
        How many times the function was recorded, and how many programs were compiled.
    """

    # What each call reads is found faster in a slot than among the attributes.
    __slots__ = ("__dict__", "__weakref__", "_fast")

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        backend: Any = None,
        static_argnames: Sequence[str] = (),
        donate_argnames: Sequence[str] = (),
        in_shardings: Any = None,
        out_shardings: Any = None,
        options: Mapping[str, Any] | None = None,
        grid: Any = None,
    ) -> None:
        for what, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
            if given is not None:
                raise UnsupportedOpError(
                    f"compile: {what} must be None, for programs are not divided by shardings; got {given!r} [X5]\n"
                    "  xlapy.replicate runs one on several devices"
                )
        functools.update_wrapper(self, function)
        self._function = function
        self._backend = backend
        self._static = as_names(static_argnames, "static_argnames")
        self._donate = as_names(donate_argnames, "donate_argnames")
        #: where and how it runs on several devices at once: xlapy.replication
        self._grid = grid
        self._flags = as_flags(options)
        self._signature = signature_of(function)
        check_names(self._signature, self._static, self._donate)
        self._plain = not self._static and not self._donate and backend is None
        self._fast: dict[Any, Callable[[list[Any]], Any]] = {}
        self._entries: dict[Any, Entry] = {}
        self._history: list[dict[str, str]] = []
        self._lock = threading.RLock()
        #: the signatures that it is being recorded for now, by thread
        self._active: set[Any] = set()
        self._name = getattr(function, "__name__", "main")
        self.traces = 0
        self.compiles = 0
        _functions.add(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return BoundMethod(self, instance)

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledFunction:
        return self  # as of every function

    def __reduce__(self) -> Any:
        # As functions are: by name, or else made again of the function that it is of.
        found: Any = sys.modules.get(getattr(self, "__module__", None) or "")
        name = getattr(self, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        given = (self._backend, self._static, self._donate, dict(self._flags), self._grid)
        return _made_again, (self._function, *given)

    def __repr__(self) -> str:
        return f"<compiled {self._name}: {self.traces} traces, {self.compiles} compiles>"

    # --- calling ------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, recording and compiling it first where it is new."""
        if not kwargs and current_builder() is None:
            # The fast path: tensors, and containers of them, seen before.
            try:
                try:
                    if len(args) == 2:  # without a loop, which would take as long as all the rest
                        x, y = args
                        run = self._fast[x.placed, y.placed]
                        payloads = [x.payload, y.payload]
                    else:
                        run = self._fast[tuple([a.placed for a in args])]
                        payloads = [a.payload for a in args]
                except AttributeError:
                    payloads = []
                    key: list[Any] = []
                    arrange(args, payloads, key)
                    run = self._fast[tuple(key)]
            except (KeyError, TypeError, NotPlainError, RecursionError):
                pass
            else:
                return run(payloads)
        try:
            return self._call(args, kwargs)
        except XlapyError as error:
            hide_library_frames(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], instance: Any = None) -> Any:
        if instance is None and args and isinstance(args[0], type):  # classmethod, from Python 3.13
            return BoundMethod(self, args[0])(*args[1:], **kwargs)
        signature = self._sign(args, kwargs, instance)
        builder = current_builder()
        if builder is not None:
            if self._grid is not None:
                self._grid.refuse_within(builder.name, self._name)
            return self._call_traced(signature, builder, instance)
        backend = get_backend(self._backend) if self._backend is not None else None
        tensors, placement = self._concrete(signature, backend)
        key = (signature.key, placement, backend)
        entry = self._entries.get(key)
        if entry is None or entry.run is None:
            entry = self._prepare(signature, key, tensors, placement, instance)
        if entry.scalars:
            further = entry.scalars.values(
                signature.leaves, self._name, lambda: self._paths(signature)
            )
            tensors += [put(a, placement) for a in further]
        run = entry.run
        assert run is not None
        if entry.donated:
            entry.require_unshared(tensors, self._name, lambda: self._paths(signature))
        payloads = run([t.payload for t in tensors])
        if entry.donated:
            entry.consume(tensors, signature.leaves)
        executable = entry.executable
        assert executable is not None
        results = [Tensor(p, r) for p, r in zip(executable.placed, payloads, strict=True)]
        if self._plain and instance is None:
            self._remember(args, kwargs, entry)
        return tree.unflatten(entry.out_structure, results)

    def _prepare(
        self,
        signature: Signature,
        key: Any,
        tensors: list[Tensor],
        placement: Placement,
        instance: Any,
    ) -> Entry:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.run is not None:
                return entry
            if self._grid is not None:
                self._grid.devices(placement)
            entry = self._trace(signature, str(placement), instance)
            for t in entry.captured:
                if t.placed.placement is not placement:  # type: ignore[union-attr]
                    raise BackendError(
                        f"{self._name}: tensors that the function closes over must lie where its arguments do,"
                        f" {placement}; got {t.placed} [X1]"
                    )
            executable = self._compile(entry, placement)
            hidden = [t.payload for t in entry.captured]
            execute = executable.execute
            entry.executable = executable
            entry.run = (lambda payloads: execute([*payloads, *hidden])) if hidden else execute
            if len(self._entries) >= _LIMIT:
                self._entries.pop(next(iter(self._entries)))
                self._fast.clear()
            self._entries[key] = entry
            return entry

    def _compile(self, entry: Entry, placement: Placement) -> Program:
        computation = eliminate_dead(entry.computation)
        if self._grid is not None:
            executable: Program = self._grid.compile(
                computation, len(entry.captured), placement, self._name
            )
        else:
            options = CompileOptions(
                device=placement.device, donated=entry.donated, flags=self._flags
            )
            executable = compile_checked(computation, placement, options)
        self.compiles += 1
        return executable

    def _remember(self, args: tuple[Any, ...], kwargs: dict[str, Any], entry: Entry) -> None:
        """Let the next call of this form take the fast path."""
        if kwargs:
            return
        payloads: list[Any] = []
        key: list[Any] = []
        try:
            arrange(args, payloads, key)
        except NotPlainError:
            return
        order = places(args)
        executable = entry.executable
        run = entry.run
        assert executable is not None
        assert run is not None
        if entry.out_structure is tree.LEAF and not entry.captured:
            call: Callable[[list[Any]], Any] = executable.execute_single
        else:
            call = from_payloads(run, entry.out_structure, executable.placed)
        if order != list(range(len(order))):
            straight = call

            def call(payloads: list[Any]) -> Any:
                return straight([payloads[i] for i in order])

        self._fast[tuple(key)] = call

    # --- arguments ----------------------------------------------------------------------------------------------

    def _sign(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], instance: Any = None
    ) -> Signature:
        static: tuple[Any, ...] = ()
        if self._static:
            own = () if instance is None else (instance,)
            bound = bind_arguments(self._name, self._signature, (*own, *args), kwargs)
            if own:
                del bound.arguments[next(iter(bound.arguments))]
            given = {**kwargs, **bound.arguments}
            found = {n: given[n] for n in self._static if n in given}
            for name, value in found.items():
                try:
                    hash(value)
                except TypeError:
                    raise TracingError(
                        f"{self._name}: a static argument must be hashable; got {name}={value!r} [X1]"
                    ) from None
                if isinstance(value, Tensor):
                    raise TracingError(
                        f"{self._name}: a static argument must not be a tensor; got {name} [X1]"
                    )
            static = tuple((n, static_key(v), v) for n, v in found.items())
            args, kwargs = without_static(self._name, self._static, bound)
        leaves, structure = tree.flatten((args, kwargs))
        if instance is not None:
            more, description = describe_object(instance)
            leaves = [*more, *leaves]
            static = (*static, (INSTANCE, description, description))
        return Signature(leaves, structure, static)

    def _paths(self, signature: Signature) -> list[str]:
        """What each leaf is called: ``x``, ``params['w']``, ..."""
        return leaf_paths(signature, list(self._signature.parameters.values()))

    def _concrete(self, signature: Signature, backend: Any) -> tuple[list[Tensor], Placement]:
        """The leaves as tensors in one place."""
        leaves = signature.leaves
        given = [x for x in leaves if type(x) is Tensor]
        if backend is not None:
            placement = (
                given[0].placement if given and _all_on(given, backend) else backend.placement
            )
        else:
            placement = common_placement(given)
        tensors = []
        for i, x in enumerate(leaves):
            if type(x) is Tensor:
                if type(x.placed) is not Placed:
                    x._refuse("an argument outside its trace")
                if x.placement is not placement:
                    if backend is None:
                        common_placement([x, *given])
                    x = put(x.numpy(), placement)
                tensors.append(x)
            else:
                tensors.append(self._leaf_tensor(x, i, signature, placement))
        return tensors, placement

    def _leaf_tensor(self, x: Any, i: int, signature: Signature, placement: Placement) -> Tensor:
        if isinstance(x, TensorSpec):
            raise DTypeError(
                f"{self._name}: a call must have values; got the spec {x} for {self._paths(signature)[i]} [X1]"
            )
        try:
            return put(host_scalar(x) if type(x) in SCALARS else x, placement)
        except DTypeError as error:
            if hasattr(x, "dtype"):
                raise DTypeError(
                    f"{self._name}: {error.args[0]}\n  argument: {self._paths(signature)[i]}"
                ) from None
            raise DTypeError(
                f"{self._name}: an argument must be a tensor, an array, a number or a container of them; got"
                f" {type(x).__name__} for {self._paths(signature)[i]} [X1]\n"
                "  name it in static_argnames if the function's code depends on it"
            ) from None

    # --- tracing ------------------------------------------------------------------------------------------------

    def _trace(
        self,
        signature: Signature,
        place: str,
        instance: Any = None,
        parent: XlaBuilder | None = None,
    ) -> Entry:
        """Record the function for a signature and what asks for it: a device, a call in another function or `lower`."""
        builder = XlaBuilder(self._name, parent.scope if parent is not None else None)
        paths = self._paths(signature)
        arguments = []
        scalars = ScalarArguments()
        for i, x in enumerate(signature.leaves):
            spec = spec_of_leaf(x)
            if self._grid is not None:
                spec = self._grid.part(spec, paths[i], self._name)
            argument = builder.parameter(i, spec, paths[i])
            if is_scalar(x):
                scalars.declare(builder, i, x, argument)
                if (example := stand_in(x)) is not None:
                    builder.stand_ins[argument.payload] = example
            arguments.append(argument)
        mark = (builder.thread, *signature.key[:2], tuple([a.placed for a in arguments]))
        with unrepeated(self._active, mark, self._name), recording(builder):
            output = self._apply(signature, arguments, instance)
            leaves, out_structure = tree.flatten(output)
            results = [builder.value(self._result(x, i)) for i, x in enumerate(leaves)]
        self.traces += 1
        self._history.append(described(signature, paths, place))
        scalars.finish(builder, results)
        computation = builder.finish(results)
        donated = leaves_below(self._donate, paths)
        captured = [t for t, _ in builder.captured.values()]
        return Entry(computation, captured, out_structure, donated, scalars)

    def _apply(self, signature: Signature, arguments: list[Tensor], instance: Any) -> Any:
        static = {s[0]: s[2] for s in signature.static if s[0] is not INSTANCE}
        if instance is not None:
            count = len(arguments) - signature.structure.leaves
            dummy, before = stand_in_for(signature.static[-1][2], arguments[:count])
            args, kwargs = tree.unflatten(signature.structure, arguments[count:])
            output = self._function(dummy, *args, **kwargs, **static)
            require_unchanged(self._name, before)
            return output
        args, kwargs = tree.unflatten(signature.structure, arguments)
        return self._function(*args, **kwargs, **static)

    def _result(self, x: Any, position: int) -> Any:
        if type(x) is Tensor:
            if isinstance(x.spec, TupleSpec):
                raise DTypeError(
                    f"{self._name}: must return tensors, not HLO tuples; got {x.spec} [X1]"
                )
            return x
        try:
            return lift(x)
        except DTypeError:
            raise DTypeError(
                f"{self._name}: must return tensors, numbers or containers of them; got {type(x).__name__} [X1]"
            ) from None

    def _call_traced(self, signature: Signature, builder: XlaBuilder, instance: Any) -> Any:
        """A call inside another trace: kept as a call of the recorded computation."""
        leaves = [
            x if type(x) is Tensor else lift(host_scalar(x) if type(x) in SCALARS else x)
            for x in signature.leaves
        ]
        specs = tuple([x.placed.spec for x in leaves])
        key = ("traced", *signature.key, specs)
        entry = self._entries.get(key)
        if entry is None:
            traced = with_leaves(signature, leaves, signature.leaves)
            entry = self._trace(traced, f"a call in {builder.name!r}", instance, builder)
            # Values of the enclosing trace are good for this trace only.
            if all(type(t.placed) is Placed for t in entry.captured):
                self._entries[key] = entry
        if entry.scalars:
            further = entry.scalars.values(
                signature.leaves, self._name, lambda: self._paths(signature)
            )
            leaves += [lift(a) for a in further]
        outs = bind(lookup("call"), *leaves, *entry.captured, computation=entry.computation)
        return tree.unflatten(entry.out_structure, outs)

    # --- stages -------------------------------------------------------------------------------------------------

    def trace(self, *args: Any, **kwargs: Any) -> Computation:
        """The computation for these arguments, not run.

        Parameters
        ----------
        *args, **kwargs
            As for a call; a `TensorSpec` may stand for a tensor.

        Returns
        -------
        Computation
        """
        computation: Computation = self.lower(*args, **kwargs).computation
        return computation

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Record the function for these arguments, for looking at or compiling later.

        Parameters
        ----------
        *args, **kwargs
            As for a call; a `TensorSpec` may stand for a tensor.

        Returns
        -------
        Lowered
        """
        return self._lower(args, kwargs)

    def _lower(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], instance: Any = None
    ) -> Lowered:
        signature = self._sign(args, kwargs, instance)
        entry = self._trace(signature, "lower", instance)
        placement = next(
            (
                x.placed.placement
                for x in signature.leaves
                if type(x) is Tensor and type(x.placed) is Placed
            ),
            None,
        )
        if placement is None:
            placement = get_backend(self._backend).placement
        return Lowered(self, signature, entry, placement, self._grid, instance)

    def explain(self) -> str:
        """Why the function was recorded each time: what differed from the nearest earlier signature."""
        return explained(self._name, self._history)

    def clear_cache(self) -> None:
        """Forget every program of this function; the counters stay."""
        self._fast.clear()
        self._entries.clear()


def _made_again(
    f: Any, backend: Any, static: Any, donate: Any, options: Any, grid: Any
) -> CompiledFunction:
    return CompiledFunction(
        f,
        backend=backend,
        static_argnames=static,
        donate_argnames=donate,
        options=options,
        grid=grid,
    )


def _all_on(tensors: Sequence[Tensor], backend: Any) -> bool:
    first = tensors[0].placed
    return type(first) is Placed and first.placement.backend is backend


def compile(
    f: Callable[..., Any] | None = None,
    *,
    backend: Any = None,
    static_argnames: str | Sequence[str] = (),
    donate_argnames: str | Sequence[str] = (),
    in_shardings: Any = None,
    out_shardings: Any = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a function of tensors: record it once for each signature, then run the program.

    Parameters
    ----------
    f : callable, optional
        Of tensors in nested containers, returning the same. Without it, a decorator is returned.
    backend : str or Backend, optional
        Where to run; by default where the arguments lie.
    static_argnames : str or sequence of str
        Arguments whose values the code depends on; each new value is recorded anew. They must be hashable.
    donate_argnames : str or sequence of str
        Arguments whose memory the results may take; their tensors cannot be used afterwards.
    in_shardings, out_shardings : None
        Nothing else: a compiled program runs on one device, and any sharding is refused with an `UnsupportedOpError`.
        `xlapy.replicate` runs one on several.
    options : mapping, optional
        XLA's own flags, such as ``{"xla_cpu_enable_fast_math": True}``.

    Returns
    -------
    CompiledFunction

    Examples
    --------
    >>> import xlapy
    >>> @xlapy.compile
    ... def norm(x):
    ...     return xlapy.sqrt(xlapy.sum(x * x))
    >>> norm(xlapy.asarray([3.0, 4.0]))
    Tensor(5., f32[])
    >>> norm(xlapy.asarray([6.0, 8.0])), norm.traces
    (Tensor(10., f32[]), 1)
    """
    given: dict[str, Any] = {
        "backend": backend, "static_argnames": static_argnames, "donate_argnames": donate_argnames,
        "in_shardings": in_shardings, "out_shardings": out_shardings, "options": options,
    }  # fmt: skip
    if f is None:
        return functools.partial(compile, **given)
    if isinstance(f, staticmethod):
        return staticmethod(compile(f.__func__, **given))
    require_function(f, "compile: f")
    return CompiledFunction(f, **given)


def clear_caches() -> None:
    """Forget every compiled program in memory (what is on disk stays).

    Examples
    --------
    >>> import xlapy
    >>> double = xlapy.compile(lambda x: x + x)
    >>> y = double(xlapy.ones(2)), double(xlapy.ones(3))
    >>> xlapy.clear_caches()
    >>> double(xlapy.ones(2))  # recorded again
    Tensor([2., 2.], f32[2])
    """
    clear_eager_cache()
    clear_staged()
    for function in list(_functions):
        function.clear_cache()
