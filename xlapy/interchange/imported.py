"""Programs read from text or bytes, as functions of tensors."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

from xlapy.backends.eager import common_placement, compile_checked, put
from xlapy.backends.registry import get_backend
from xlapy.errors import ArtifactError, DTypeError, UnsupportedOpError, XlapyError, shown
from xlapy.source import caller, hide_library_frames, locate
from xlapy.specs import Spec, TensorSpec, TokenSpec
from xlapy.tensor import Placed, Placement, Tensor
from xlapy.trace.builder import host_array, lift, scalar_array
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind, current_builder
from xlapy.trace.op import lookup
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.sizes import size_of
from xlapy.trace.stablehlo_reader import Reader, from_stablehlo_module, refines
from xlapy.trace.zeros import constant_of, zeros_of

__all__ = ["ImportedFunction", "from_stablehlo"]

# What portable artifacts start with: MLIR bytecode.
_BYTECODE = b"ML\xefR"


@final
class ImportedFunction:
    """A program as a function: call it, compile it into others, differentiate it, export it again.

    Attributes
    ----------
    computation : Computation
        An error for a program over arrays of any size with an operation that needs to know them; such a program is
        read anew for the sizes of the arguments, and runs nevertheless.
    """

    def __init__(
        self,
        computation: Computation | None,
        any_size: AnySizeProgram | None = None,
        backend: Any = None,
    ) -> None:
        self._computation = computation
        self._any_size = any_size
        self._backend = None if backend is None else get_backend(backend)
        self._programs: dict[Any, Any] = {}
        self._specs: tuple[Spec, ...]
        self._results: tuple[Spec, ...]
        if computation is not None:
            self.__name__ = computation.name
            self._specs, self._results = computation.parameter_specs, computation.result_specs
        else:
            assert any_size is not None
            self.__name__, self._specs, self._results = any_size.signature

    @property
    def computation(self) -> Computation:
        """The program, for transformations of one's own."""
        if self._computation is None:
            assert self._any_size is not None
            self._computation = self._any_size.of_declared_sizes()
        return self._computation

    @property
    def parameter_specs(self) -> tuple[Spec, ...]:
        """The specs of the arguments."""
        return self._specs

    @property
    def result_specs(self) -> tuple[Spec, ...]:
        """The specs of the results."""
        return self._results

    def __call__(self, *args: Any, backend: Any = None) -> Any:
        """Run the program.

        Parameters
        ----------
        *args : Tensor or array-like
            One for each parameter.
        backend : str or Backend, optional
            Where to run; by default the one that the program was read for, or else where the arguments lie.

        Returns
        -------
        Tensor or tuple of Tensor
        """
        try:
            return self._call(args, self._backend if backend is None else backend)
        except XlapyError as error:
            hide_library_frames(error)
            raise

    def _call(self, args: Sequence[Any], backend: Any) -> Any:
        specs = self._specs
        name = self.__name__
        if len(args) != len(specs):
            raise DTypeError(
                f"{name}: the program must get {len(specs)} arguments; got {len(args)} [X1]"
            )
        if current_builder() is not None:
            tensors = [
                x if type(x) is Tensor else lift(_as_spec(x, s))
                for x, s in zip(args, specs, strict=True)
            ]
            self._check(tensors)
            if self._any_size is not None:
                return self._any_size.of([t.spec for t in tensors])._call(tensors, backend)
            operands = [_up_to_bound(t, s) for t, s in zip(tensors, specs, strict=True)]
            outs = bind(lookup("call"), *operands, computation=self.computation)
            return outs[0] if len(outs) == 1 else outs
        placement = self._placement(args, backend)
        tensors = [self._tensor(x, s, placement) for x, s in zip(args, specs, strict=True)]
        self._check(tensors)
        if self._any_size is not None:
            return self._any_size.of([t.placed.spec for t in tensors])._call(tensors, backend)
        program = self._programs.get(placement)
        if program is None:
            program = self._programs[placement] = compile_checked(
                eliminate_dead(self.computation), placement
            )
        results = program.execute([t.payload for t in tensors])
        outs = tuple(Tensor(p, r) for p, r in zip(program.placed, results, strict=True))
        return outs[0] if len(outs) == 1 else outs

    def _placement(self, args: Sequence[Any], backend: Any) -> Placement:
        given = [x for x in args if type(x) is Tensor]
        if backend is None:
            return common_placement(given)
        chosen = get_backend(backend)
        for x in given:
            if type(x.placed) is Placed and x.placed.placement.backend is chosen:
                return x.placed.placement
        return chosen.placement

    def _tensor(self, x: Any, spec: Spec, placement: Placement) -> Tensor:
        if type(x) is Tensor:
            if type(x.placed) is Placed and x.placed.placement is placement:
                return x
            if type(x.spec) is TokenSpec:
                return Tensor(placement.of(x.spec), placement.backend.token())
            return put(x.numpy(), placement)
        return put(_as_spec(x, spec), placement)

    def _check(self, tensors: Sequence[Tensor]) -> None:
        for i, (t, spec) in enumerate(zip(tensors, self._specs, strict=True)):
            given = t.placed.spec
            fits = given == spec or (refines(given, spec) and _within_bounds(given, spec))
            if not fits:
                raise DTypeError(
                    f"{self.__name__}: argument {i} must be {spec}; got {t.placed.spec} [X1]"
                )

    def __repr__(self) -> str:
        if self._computation is None:
            ins, outs = ", ".join(map(str, self._specs)), ", ".join(map(str, self._results))
            return f"{self.__name__}({ins}) -> {outs}"
        return repr(self._computation)


#: programs of one for as many sizes are kept
_KEPT: Final = 64


@final
class AnySizeProgram:
    """A program over arrays of any size, which is read anew for each size."""

    def __init__(self, module: Any, entry: str) -> None:
        self._module = module
        self._entry = entry
        self._lock = threading.Lock()
        self._known: dict[tuple[Spec, ...], ImportedFunction] = {}

    @property
    def signature(self) -> tuple[str, tuple[Spec, ...], tuple[Spec, ...]]:
        """The name of the function, and the declared specs of its parameters and results."""
        reader = Reader(self._module)
        name = reader.entry_name(self._entry)
        parameters, results = reader.signature(name)
        return name, tuple(parameters), tuple(results)

    def of_declared_sizes(self) -> Computation:
        """The program as it stands."""
        with self._lock:
            return from_stablehlo_module(self._module, self._entry)

    def of(self, specs: Sequence[Spec]) -> ImportedFunction:
        """The program for arguments of some specs."""
        key = tuple(specs)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                if len(self._known) >= _KEPT:
                    del self._known[next(iter(self._known))]
                try:
                    computation = from_stablehlo_module(self._module, self._entry, key)
                except XlapyError as error:
                    # It names the program's line, and has come of the arguments of this call.
                    message = str(error.args[0]).replace("\n  at ", "\n  of the program: ")
                    error.args = (f"{message}\n  at {locate(caller())}",)
                    error.annotated = True
                    raise
                found = self._known[key] = ImportedFunction(computation)
            return found


def _within_bounds(given: Any, spec: Any) -> bool:
    return all(given.shape[d] <= spec.shape[d] for d in spec.dynamic)


def _up_to_bound(x: Tensor, spec: Any) -> Tensor:
    """An array whose size is known, or has a lower bound, as one that varies up to the bound of a parameter."""
    for d in getattr(spec, "dynamic", ()):
        known, bound = x.shape[d], spec.shape[d]
        if d in x.spec.dynamic and known == bound:
            continue
        size = size_of(x, d)
        if known < bound:
            high = tuple([bound - known if i == d else 0 for i in range(x.ndim)])
            none = (0,) * x.ndim
            zero = zeros_of(TensorSpec((), x.dtype))
            x = bind(
                lookup("pad"), x, zero,
                edge_padding_low=none, edge_padding_high=high, interior_padding=none,
            )  # fmt: skip
        length = size if type(size) is Tensor else constant_of(TensorSpec((), "s32"), size)
        x = bind(lookup("set_dimension_size"), x, length, dimension=d, varies=True)
    return x


def _as_spec(x: Any, spec: Spec) -> Any:
    """Python numbers, and lists of them, take the parameter's element type where it holds them."""
    if isinstance(x, bool | int | float | complex) and type(spec) is TensorSpec:
        return scalar_array(x, spec.dtype)
    return host_array(x)


def from_stablehlo(
    program: str | bytes | Path, entry: str = "main", *, backend: Any = None
) -> ImportedFunction:
    """Read a StableHLO program.

    Parameters
    ----------
    program : str or bytes or path
        The text of a module, a portable artifact, or the path of a file with either.
    entry : str
        The function to call.
    backend : str or Backend, optional
        Where to run, unless a call says otherwise; by default where the arguments lie.

    Returns
    -------
    ImportedFunction
        A callable that takes ``backend=`` as well, runs on any backend, works inside compiled functions, and can be
        differentiated and vectorised.

    Raises
    ------
    ArtifactError
        If it is no well-formed program; with the parser's line.
    UnsupportedOpError
        If it holds an operation or a type that is not known here.

    Notes
    -----
    MLIR's own readers, which end the process on some malformed programs, run in another one. That is started for the
    first program, in about 0.2 s, and waits for others some minutes.

    Examples
    --------
    >>> import xlapy
    >>> double = xlapy.from_stablehlo('''
    ... func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    ...   %y = stablehlo.add %x, %x : tensor<2xf32>
    ...   return %y : tensor<2xf32>
    ... }''')
    >>> double(xlapy.asarray([1.0, 2.0]))
    Tensor([2., 4.], f32[2])
    """
    from xlapy import _jaxlib

    given = read_program(program)
    if isinstance(given, bytes) and not given.startswith(_BYTECODE):
        raise ArtifactError(
            f"a program must be text or a portable artifact; got bytes that begin with {shown(given[:4])} [X6]"
        )
    if isinstance(given, str) and "!quant." in given:
        from xlapy.interchange.quantized import read_quantized, spelled_as_floats

        quantized = read_quantized(_jaxlib.read(spelled_as_floats(given)), entry)
        return ImportedFunction(quantized, backend=backend)
    module = _jaxlib.read(given)
    reader = Reader(module)
    if not reader.is_any_size(reader.entry_name(entry)):
        return ImportedFunction(from_stablehlo_module(module, entry), backend=backend)
    any_size = AnySizeProgram(module, entry)
    try:
        return ImportedFunction(any_size.of_declared_sizes(), any_size, backend)
    except UnsupportedOpError:
        raise
    except XlapyError:  # which an operation gives that needs to know sizes
        return ImportedFunction(None, any_size, backend)


def read_program(program: str | bytes | bytearray | Path) -> str | bytes:
    """The text or bytes of a program, read from a file if it is a path; bytes that are text become text."""
    data: Any = program
    if isinstance(program, Path) or (
        isinstance(program, str) and program and "\n" not in program and "{" not in program
    ):
        try:
            data = Path(program).read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ArtifactError(
                f"a program must be text, bytes or a readable file; got {shown(str(program))}: {why} [X6]"
            ) from None
    if not isinstance(data, str | bytes | bytearray):
        raise ArtifactError(
            f"a program must be text, bytes or a path; got {type(program).__name__} [X6]"
        )
    if not data.strip():
        raise ArtifactError(f"a program must not be empty; got {shown(program)} [X6]")
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError as error:
            line = data.count("\n", 0, error.start) + 1
            raise ArtifactError(
                f"a program's text must be Unicode; got {shown(data[error.start])} in line {line} [X6]"
            ) from None
        return data
    return _text_of(bytes(data))


#: characters of no text
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")


def _text_of(data: bytes) -> str | bytes:
    """Bytes as text, if they are text."""
    if data.startswith(_BYTECODE):
        return data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return data if _CONTROL.search(text) else text
