"""Programs written for other frameworks: StableHLO text and portable artifacts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

from xlapy import tree
from xlapy.backends.exact_functions import composition
from xlapy.compilation import CompiledFunction
from xlapy.errors import ArtifactError, UnsupportedOpError, XlapyError, shown
from xlapy.interchange.imported import ImportedFunction, from_stablehlo
from xlapy.source import hide_library_frames
from xlapy.specs import TokenSpec, parse_spec
from xlapy.tensor import Placed, Tensor
from xlapy.trace.builder import as_computation, require_function
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.simplify import eliminate_dead, expand
from xlapy.trace.stablehlo import to_stablehlo
from xlapy.trace.verify import verify

__all__ = ["Artifact", "export"]


@final
class Artifact:
    """A program ready to be handed to another framework.

    Attributes
    ----------
    computation : Computation
    version : str or None
        The StableHLO version that `serialize` writes for; None for the newest.
    platforms : tuple of str
        What the program is meant to run on.
    """

    def __init__(
        self, computation: Computation, version: str | None, platforms: tuple[str, ...]
    ) -> None:
        self.computation = computation
        self.version = version
        self.platforms = platforms
        self._bytes: bytes | None = None
        self._text: str | None = None

    @property
    def stablehlo_text(self) -> str:
        """The program as text, with the source lines as locations."""
        if self._text is None:
            self._text = to_stablehlo(self.computation)
        return self._text

    def serialize(self) -> bytes:
        """The program as a portable artifact.

        Returns
        -------
        bytes

        Raises
        ------
        ArtifactError
            If the version is out of range, or an operation does not exist in it.
        """
        if self._bytes is None:
            from xlapy import _jaxlib

            text = self.stablehlo_text
            if _jaxlib.has_composites(self.version):
                named = expand(self.computation, _composite_form, repeated=False)
                if named is not self.computation:
                    text = to_stablehlo(named)
            self._bytes = _jaxlib.serialize_artifact(_jaxlib.parse(text), self.version)
        return self._bytes

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the portable artifact to a file: all of it, or nothing.

        A name that ends in ``.mlir`` gets the text instead.

        Parameters
        ----------
        path : path

        Returns
        -------
        Path
        """
        try:
            target = Path(os.fsdecode(path))
        except TypeError:
            raise ArtifactError(f"path must be a path; got {shown(path)} [X6]") from None
        data = self.stablehlo_text.encode() if target.suffix == ".mlir" else self.serialize()
        import tempfile  # takes long to import, and few programs write artifacts

        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ArtifactError(
                f"a file must be possible in the directory; got {shown(str(target))}: {reason} [X6]"
            ) from None
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).chmod(0o644)
            os.replace(name, target)
        except OSError as error:
            Path(name).unlink(missing_ok=True)
            raise ArtifactError(
                f"the file must be writable; got {shown(str(target))}: {error.strerror} [X6]"
            ) from None
        return target

    def load(self) -> ImportedFunction:
        """The program read back, as another framework would."""
        return from_stablehlo(self.serialize())

    def __repr__(self) -> str:
        ins = ", ".join(map(str, self.computation.parameter_specs))
        outs = ", ".join(map(str, self.computation.result_specs))
        return f"Artifact({self.computation.name}: {ins} -> {outs})"


def export(
    f: Callable[..., Any],
    *specs: Any,
    version: str | None = None,
    platforms: Sequence[str] = ("cpu",),
) -> Artifact:
    """Record a function as a StableHLO program for other frameworks.

    Tensors that the function closes over, such as weights, are written into the program.

    Parameters
    ----------
    f : callable
        A function of tensors, a compiled function, or an imported program.
    *specs : TensorSpec, str such as ``"f32[8,4]"``, or example arguments
        In containers as f takes them; none for an imported program. A size may be left open, ``"f32[?,4]"``: the
        program then takes arrays of any. What needs to know the size is refused.
    version : str, optional
        The StableHLO version that a reader has, such as ``"1.4.0"``; by default the newest.
    platforms : sequence of str
        What the program is meant to run on.

    Returns
    -------
    Artifact

    Raises
    ------
    ArtifactError
        If the version is malformed or out of range, or lacks an operation; nothing is written then.
    UnsupportedOpError
        If an operation cannot be written in StableHLO.

    Notes
    -----
    The program is what `f` computes. StableHLO has no word for `stop_gradient`: a program that is read back has the
    derivative of all its operations. Export ``value_and_grad(f)`` to hand on a derivative of your own making.

    Examples
    --------
    >>> import xlapy
    >>> artifact = xlapy.export(lambda x, y: x @ y, "f32[2,3]", "f32[3,4]")
    >>> artifact
    Artifact(<lambda>: f32[2,3], f32[3,4] -> f32[2,4])
    >>> reloaded = xlapy.from_stablehlo(artifact.serialize())
    >>> any_rows = xlapy.export(lambda x: xlapy.softmax(x + 1.0), "f32[?,4]")
    >>> xlapy.from_stablehlo(any_rows.serialize())(xlapy.zeros((2, 4)))
    Tensor([[0.25, 0.25, 0.25, 0.25],
            [0.25, 0.25, 0.25, 0.25]], f32[2,4])
    """
    try:
        if version is not None:
            _check_version(version)
        if isinstance(platforms, str):
            platforms = (platforms,)
        if not isinstance(platforms, Sequence) or not all(isinstance(p, str) for p in platforms):
            raise ArtifactError(f"platforms must be names; got {shown(platforms)} [X6]")
        computation = _computation(f, specs)
        found = expand(computation, _portable_form)
        found = eliminate_dead(expand(found, _exact_form, repeated=False))
        verify(found)
        artifact = Artifact(found, version, tuple(platforms))
        # What cannot be written is an error now, not when it is saved.
        if version is None:
            _ = artifact.stablehlo_text
        else:
            artifact.serialize()
        return artifact
    except XlapyError as error:
        hide_library_frames(error)
        raise


def _check_version(version: Any) -> None:
    """Refuse what is no version, or one that is not written; jaxlib takes later ones for its own."""
    from xlapy import _jaxlib

    first, last = _jaxlib.minimum_version(), _jaxlib.current_version()
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version) if isinstance(version, str) else None
    if match is None or not _numbers(first) <= _numbers(version) <= _numbers(last):
        raise ArtifactError(
            f"version must be one of StableHLO from {first} to {last}; got {shown(version)} [X6]"
        )


def _numbers(version: str) -> list[int]:
    return [int(n) for n in version.split(".")]


def _portable_form(instruction: Instruction) -> Callable[..., Any] | None:
    """How an operation outside StableHLO and CHLO is written in them."""
    op, hlo = instruction.op, instruction.op.hlo
    if hlo.is_portable is not None:
        portable = hlo.is_portable(instruction.params)
    else:
        portable = bool(hlo.name or hlo.write) and not hlo.name.startswith("mhlo.")
    if portable:
        return None
    if hlo.decomposition is None:
        raise UnsupportedOpError(f"operations must have a form in StableHLO; got {op.name} [X6]")
    return hlo.decomposition


def _exact_form(instruction: Instruction) -> Callable[..., Any] | None:
    """How a function of CHLO is written, which portable artifacts hold as what it is composed of."""
    return composition(instruction) if instruction.op.hlo.name.startswith("chlo.") else None


#: functions of CHLO that jaxlib writes as what they are made of, without their name
_UNNAMED = frozenset({"bessel_i1e", "digamma", "erf_inv", "erfc", "lgamma", "next_after"})


def _composite_form(instruction: Instruction) -> Callable[..., Any] | None:
    """Such a function as a composite of its name, as jaxlib writes the others, which tells readers the derivative."""
    op = instruction.op
    if op.name not in _UNNAMED:
        return None

    def named(*operands: Any) -> Any:
        return bind(
            lookup("composite_call"),
            *operands,
            decomposition=as_computation(
                lambda *xs: bind(op, *xs), [x.spec for x in operands], name=op.name
            ),
            name=op.hlo.name,
            composite_attributes="{}",
            version=1,
        )

    return named


def _computation(f: Callable[..., Any] | Computation, specs: Sequence[Any]) -> Computation:
    if isinstance(f, ImportedFunction) or type(f) is Computation:
        if specs:
            raise ArtifactError(
                f"a program must not be given specs besides its own; got {specs} [X6]"
            )
        return f.computation if isinstance(f, ImportedFunction) else f
    if not callable(f):
        raise ArtifactError(f"export: f must be a function; got {type(f).__name__} [X6]")
    require_function(f, "export: f")
    compiled = f if isinstance(f, CompiledFunction) else CompiledFunction(f)
    arguments = tree.map(_spec, specs)
    lowered = compiled.lower(*arguments)
    entry = lowered._entry
    return entry.scalars.within(_bake(lowered.computation, entry.captured))  # type: ignore[no-any-return]


def _spec(x: Any) -> Any:
    return parse_spec(x) if isinstance(x, str) else x


def _bake(computation: Computation, captured: Sequence[Tensor]) -> Computation:
    """The captured tensors as constants: an artifact stands alone."""
    if not captured:
        return computation
    count = len(computation.parameters) - len(captured)
    constant, create_token = lookup("constant"), lookup("create_token")
    head: list[Instruction] = []
    hidden: Sequence[Value] = computation.parameters[count:]
    for value, tensor in zip(hidden, captured, strict=True):
        assert type(tensor.placed) is Placed
        if type(value.spec) is TokenSpec:
            head.append(Instruction(create_token, (), {}, (value,)))
        else:
            head.append(Instruction(constant, (), {"value": tensor.numpy()}, (value,)))
    return Computation(
        computation.parameters[:count],
        [*head, *computation.instructions],
        computation.results,
        computation.name,
        computation.parameter_names[:count],
    )
