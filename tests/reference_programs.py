"""What of a case StableHLO's reference interpreter can run, and in which form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import xlapy
from xlapy.errors import UnsupportedOpError
from xlapy.trace.computation import Computation, Instruction
from xlapy.trace.simplify import expand
from xlapy.trace.stablehlo import to_stablehlo

#: The operations that the interpreter has no code for. Where ours is a composition of others, that runs instead.
LACKS: Mapping[str, str] = {
    "stablehlo.batch_norm_grad": "the interpreter lacks it, and no pass decomposes it",
    "stablehlo.cholesky": "the interpreter lacks it, and no pass decomposes it",
    "stablehlo.custom_call": "what a custom call does is not in the program",
    "stablehlo.infeed": "the interpreter has no host that feeds it",
    "stablehlo.outfeed": "the interpreter has no host that it feeds",
    "stablehlo.real_dynamic_slice": "the interpreter lacks it",
    "stablehlo.recv": "the interpreter has no other end for it",
    "stablehlo.rng": "no two runs draw the same",
    "stablehlo.rng_bit_generator": "the interpreter lacks it",
    "stablehlo.send": "the interpreter has no other end for it",
    "stablehlo.set_dimension_size": "the interpreter lacks it",
}
#: The operations of which no case can be compared, each with the reason; a test holds the list against the cases.
INCOMPARABLE: Mapping[str, str] = {
    "cholesky": LACKS["stablehlo.cholesky"],
    "custom_call": LACKS["stablehlo.custom_call"],
    "infeed": LACKS["stablehlo.infeed"],
    "outfeed": LACKS["stablehlo.outfeed"],
    "python_callback": "a Python function has no form in text",
    "ragged_all_to_all": LACKS["stablehlo.custom_call"],
    "recv": LACKS["stablehlo.recv"],
    "rng_bit_generator": LACKS["stablehlo.rng_bit_generator"],
    "rng_normal": LACKS["stablehlo.rng"],
    "rng_uniform": LACKS["stablehlo.rng"],
    "send": LACKS["stablehlo.send"],
    "set_dimension_size": LACKS["stablehlo.set_dimension_size"],
}
#: From what the operations' names begin with to the passes that leave only operations which the interpreter knows.
PASSES: Mapping[str, str] = {
    "chlo.": "func.func(chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops)",
    "stablehlo.batch_norm_": (
        "stablehlo-legalize-to-hlo,func.func(mhlo-test-unfuse-batch-norm),hlo-legalize-to-stablehlo"
    ),
}
#: What the interpreter runs only among devices, even if there is one.
COMMUNICATING = frozenset({
    "stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.collective_broadcast",
    "stablehlo.collective_permute", "stablehlo.partition_id", "stablehlo.reduce_scatter", "stablehlo.replica_id",
})  # fmt: skip
_OPERATION = re.compile(r'"((?:stablehlo|chlo|mhlo)\.\w+)"\(')


class IncomparableError(Exception):
    """A program that is not one of operations that the reference interpreter knows."""


@dataclass(frozen=True)
class ReferenceProgram:
    """A program that the reference interpreter knows once passes have run on it.

    Attributes
    ----------
    text : str
    passes : str
    communicates : bool
        Whether it has to run among devices.
    """

    text: str
    passes: str
    communicates: bool


def reference_program(computation: Computation) -> ReferenceProgram:
    """A computation in the form that the reference interpreter knows.

    Raises
    ------
    IncomparableError
        With the reason.
    """
    try:
        portable = xlapy.export(computation).computation
        text = to_stablehlo(expand(portable, _decomposition), locations=False)
    except UnsupportedOpError as error:
        raise IncomparableError(str(error)) from None
    names = sorted(set(_OPERATION.findall(text)))
    for name in names:
        if name in LACKS or name.startswith("mhlo."):
            raise IncomparableError(f"{name}: {LACKS.get(name, 'no StableHLO')}")
    passes = [p for n, p in PASSES.items() if any(name.startswith(n) for name in names)]
    return ReferenceProgram(text, ",".join(passes), not COMMUNICATING.isdisjoint(names))


def _decomposition(instruction: Instruction) -> Callable[..., Any] | None:
    hlo = instruction.op.hlo
    return hlo.decomposition if hlo.name in LACKS else None
