"""HLO programs, from before and after XLA's optimisation, as functions of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xlapy.interchange.imported import ImportedFunction, read_program
from xlapy.trace.stablehlo_reader import from_stablehlo_module

__all__ = ["from_hlo"]


def from_hlo(program: str | bytes | Path, *, backend: Any = None) -> ImportedFunction:
    """Read an HLO program.

    Parameters
    ----------
    program : str or bytes or path
        HLO text, as ``f.lower(x).hlo_text`` and ``Executable.optimized_hlo_text`` give it and XLA dumps it with
        ``--xla_dump_to``; a serialised ``HloModuleProto``; or the path of a file with either.
    backend : str or Backend, optional
        Where to run, unless a call says otherwise; by default where the arguments lie.

    Returns
    -------
    ImportedFunction
        A callable that takes ``backend=`` as well, runs on any backend, works inside compiled functions, and can be
        differentiated and vectorised. Layouts are dropped, as they say only where elements lie in memory.

    Raises
    ------
    ArtifactError
        If it is no valid HLO; with the line that is wrong.
    UnsupportedOpError
        If it holds an operation or a type that is not known here, or a bitcast whose meaning depends on tiles.

    Notes
    -----
    XLA's own reader, which ends the process on some malformed programs, runs in another one. That is started for the
    first program, in about 0.2 s, and waits for others some minutes.

    A program over several devices runs by `xlapy.replicate`.

    Examples
    --------
    >>> double = from_hlo('''
    ... HloModule double
    ... fused {
    ...   p = f32[2] parameter(0)
    ...   ROOT y = f32[2] add(p, p)
    ... }
    ... ENTRY main {
    ...   x = f32[2] parameter(0)
    ...   ROOT y = f32[2] fusion(x), kind=kLoop, calls=fused
    ... }''')
    >>> from xlapy import ops
    >>> double(ops.constant([1.0, 2.0]))
    Tensor([2., 4.], f32[2])
    """
    from xlapy import _jaxlib

    module = _jaxlib.from_hlo(read_program(program))
    return ImportedFunction(from_stablehlo_module(module), backend=backend)
