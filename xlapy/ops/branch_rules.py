"""Derivatives of calls and conditionals."""

from __future__ import annotations

import abc
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from xlapy.errors import NotDifferentiableError
from xlapy.specs import Spec, TensorSpec
from xlapy.trace.autodiff import has_tangent, jvp_computation
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation, Value
from xlapy.trace.mode import bind, current_builder, using
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.zeros import zeros_of

from .residuals import Backward, Split, scatter_back, varying_results, zeros_for

__all__ = ["CallRules", "CaseRules", "Fused", "call_ad", "case_ad", "tangent_flags"]

Params = Mapping[str, Any]


class Fused(abc.ABC):
    """What the kinds have in common: an instruction of theirs is always replaced by `forward` or `fused_jvp`."""

    kind: Final = "fused"
    __slots__ = ()

    def jvp(self, op: Op, operands: Any, tangents: Any, outs: Any, params: Params) -> Sequence[Any]:
        """The tangents, running the operation again; derivatives of computations use `fused_jvp` instead."""
        return self.fused_jvp(op, operands, tangents, params)[1]

    def vjp(
        self,
        op: Op,
        operands: Any,
        cotangents: Any,
        outs: Any,
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The cotangents, running the operation again; derivatives of computations use `forward` instead."""
        _, residuals = self.forward(op, operands, needed, params)
        return self.backward(op, operands, cotangents, residuals, params, needed)

    @abc.abstractmethod
    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Params
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """See `FusedAdKind`."""

    @abc.abstractmethod
    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Params
    ) -> tuple[Sequence[Any], Any]:
        """See `FusedAdKind`."""

    @abc.abstractmethod
    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """See `FusedAdKind`."""


def tangent_flags(tangents: Sequence[Any], operands: Sequence[Any]) -> list[bool]:
    """Which operands have a tangent that counts."""
    return [t is not None and has_tangent(x.spec) for t, x in zip(tangents, operands, strict=True)]


# --- Call ---------------------------------------------------------------------------------------------------------


@final
class CallRules(Fused):
    """Calls of derived computations, which are kept, so that what is called twice stays one function.

    Parameters
    ----------
    param : str
        The parameter that holds the computation.
    """

    __slots__ = ("param",)

    def __init__(self, param: str) -> None:
        self.param = param

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Params
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """One call gives the results and their tangents."""
        computation: Computation = params[self.param]
        flags = tangent_flags(tangents, operands)
        key = ("jvp", *flags)
        found = computation.cache.get(key)
        if found is None:
            found = computation.cache[key] = jvp_computation(computation, flags)
        derived, out_flags = found
        given = [t for t, f in zip(tangents, flags, strict=True) if f]
        outs = bind(lookup("call"), *operands, *given, computation=derived)
        count = len(computation.results)
        return outs[:count], scatter_back(out_flags, outs[count:])

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Params
    ) -> tuple[Sequence[Any], Any]:
        """A call that gives the results and what the way back needs beyond the operands."""
        computation: Computation = params[self.param]
        key = ("split", threading.get_ident(), *needed)
        found = computation.cache.get(key)
        if found is None:
            split = Split(computation, needed)
            back = split.backward(split.varying)
            kept = [v for v in back.residuals if v not in split.parameters]
            found = computation.cache[key] = (split, back, kept, split.forward(kept))
        split, back, kept, derived = found
        outs = bind(lookup("call"), *operands, computation=derived)
        count = len(computation.results)
        saved = dict(zip(split.parameters, operands, strict=True)) | dict(
            zip(kept, outs[count:], strict=True)
        )
        return outs[:count], (split, back, saved)

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """A call of the way back."""
        split, back, saved = residuals
        computation: Computation = params[self.param]
        back, given = narrowed(computation.cache, split, back, saved, cotangents)
        kept = [saved[v] for v in back.residuals]
        outs = bind(lookup("call"), *kept, *given, computation=back.computation)
        return scatter_back(needed, scatter_back(back.found, outs))


def narrowed(
    cache: dict[Any, Any],
    split: Split,
    back: Backward,
    saved: Mapping[Value, Any],
    cotangents: Sequence[Any],
) -> tuple[Backward, list[Any]]:
    """The way back from the cotangents that there are, and those; zeros only where it needs more than was kept."""
    flags = tuple([c is not None and v for c, v in zip(cotangents, split.varying, strict=True)])
    if flags != tuple(split.varying):
        key = ("back", split, flags)
        narrow = cache.get(key)
        if narrow is None:
            narrow = cache[key] = split.backward(flags)
        if all(v in saved for v in narrow.residuals):
            return narrow, [c for c, f in zip(cotangents, flags, strict=True) if f]
    return back, _given(cotangents, split.varying, split.outputs)


def _given(
    cotangents: Sequence[Any], varying: Sequence[bool], outputs: Sequence[Value]
) -> list[Any]:
    """The cotangents of the results that vary, zeros for those that have none."""
    return [
        zeros_of(o.spec) if c is None else c
        for c, v, o in zip(cotangents, varying, outputs, strict=True)
        if v
    ]


call_ad = CallRules


# --- Conditional --------------------------------------------------------------------------------------------------


@final
class _Branches:
    """The branches split in two, with one set of slots for what they keep: only one of them fills it."""

    __slots__ = ("backs", "forwards", "places", "slots", "splits", "varying")

    def __init__(self, branches: Sequence[Computation], needed: Sequence[bool]) -> None:
        self.splits = [Split(b, needed) for b in branches]
        self.varying = [any(flags) for flags in zip(*[s.varying for s in self.splits], strict=True)]
        self.backs = [s.backward(self.varying) for s in self.splits]
        self.slots: list[Spec] = []
        #: for each branch, from a kept value to its slot
        self.places: list[dict[Value, int]] = []
        for split, back in zip(self.splits, self.backs, strict=True):
            self.places.append(
                self._place([v for v in back.residuals if v not in split.parameters])
            )
        self.forwards = tuple(
            self._forward(split, places)
            for split, places in zip(self.splits, self.places, strict=True)
        )

    def _place(self, kept: Sequence[Value]) -> dict[Value, int]:
        free = list(range(len(self.slots)))
        places: dict[Value, int] = {}
        for value in kept:
            if type(value.spec) is not TensorSpec:
                raise NotDifferentiableError(
                    f"what a branch keeps for the way back must be arrays; got {value.spec} [X4]"
                )
            at = next((i for i in free if self.slots[i] == value.spec), None)
            if at is None:
                at = len(self.slots)
                self.slots.append(value.spec)
            else:
                free.remove(at)
            places[value] = at
        return places

    def _forward(self, split: Split, places: Mapping[Value, int]) -> Computation:
        """The branch, giving every slot; those that are not its own hold zeros."""
        made = split.forward(list(places))
        count = len(split.outputs)
        builder = XlaBuilder(made.name)
        arguments = [builder.parameter(i, s) for i, s in enumerate(made.parameter_specs)]
        with using(builder):
            outs = inline(made, arguments)
            filled: list[Any] = [None] * len(self.slots)
            for place, out in zip(places.values(), outs[count:], strict=True):
                filled[place] = out
            results = [*outs[:count], *zeros_for(filled, self.slots)]
            return builder.finish([builder.value(r) for r in results])


@final
class CaseRules(Fused):
    """A conditional of the branches' derivatives, with the same index."""

    __slots__ = ()

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Params
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Each branch with its tangents; all give the tangents that any of them has."""
        index, *rest = operands
        flags = tangent_flags(tangents[1:], rest)
        branches: tuple[Computation, ...] = params["branches"]
        varying = [any(f) for f in zip(*[varying_results(b, flags) for b in branches], strict=True)]
        derived = tuple(jvp_computation(b, flags, varying)[0] for b in branches)
        given = [t for t, f in zip(tangents[1:], flags, strict=True) if f]
        outs = bind(op, index, *rest, *given, branches=derived)
        count = len(varying)
        return outs[:count], scatter_back(varying, outs[count:])

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Params
    ) -> tuple[Sequence[Any], Any]:
        """The chosen branch, filling the slots for its way back."""
        split = _Branches(params["branches"], needed[1:])
        outs = bind(op, *operands, branches=split.forwards)
        count = len(split.varying)
        return outs[:count], (split, outs[count:])

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The chosen branch's way back; every branch gives the cotangents that any of them has."""
        split, slots = residuals
        index, *rest = operands
        given = _given(cotangents, split.varying, split.splits[0].outputs)
        found = [any(flags) for flags in zip(*[b.found for b in split.backs], strict=True)]
        wanted = [x.spec for x, n in zip(rest, needed[1:], strict=True) if n]
        arguments = [*rest, *slots, *given]
        outer = current_builder()
        branches = []
        for part, back, places in zip(split.splits, split.backs, split.places, strict=True):
            builder = XlaBuilder(back.computation.name, outer.scope if outer is not None else None)
            parameters = [builder.parameter(i, x.spec) for i, x in enumerate(arguments)]
            at = {v: i for i, v in enumerate(part.parameters)} | {
                v: len(rest) + p for v, p in places.items()
            }
            own = [parameters[at[v]] for v in back.residuals]
            cts = parameters[len(rest) + len(slots) :]
            with using(builder):
                outs = scatter_back(back.found, inline(back.computation, [*own, *cts]))
                kept = [o for o, f in zip(zeros_for(outs, wanted), found, strict=True) if f]
                branches.append(builder.finish([builder.value(k) for k in kept]))
        if not any(found):
            return [None] * len(operands)
        outs = bind(op, index, *arguments, branches=tuple(branches))
        return [None, *scatter_back(needed[1:], scatter_back(found, outs))]


case_ad = CaseRules()
