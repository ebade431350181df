"""The parts that operation records are made of: kinds of derivative, batching rules, families.

Conventions of the derivatives: tangents and cotangents have the spec of what they belong to; None is a symbolic
zero; a cotangent c of a complex value pairs with a tangent t as ``real(sum(c * t))``, without conjugation, so an
operation that is linear over the complex numbers is transposed as over the reals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from xlapy.errors import NotDifferentiableError, UnsupportedOpError
from xlapy.trace.autodiff import has_tangent, vjp_computation
from xlapy.trace.batching import broadcast_leading
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.sizes import constant_like, zeros_like
from xlapy.trace.zeros import zeros_of

__all__ = [
    "Bilinear",
    "ByBody",
    "Elementwise",
    "Linear",
    "NotDifferentiable",
    "Rules",
    "Zero",
    "batch_elementwise",
    "body_name",
    "broadcast_leading",
    "by_body",
    "bilinear",
    "constant_like",
    "elementwise",
    "linear",
    "not_differentiable",
    "unsupported",
    "vjp_through",
    "zero",
    "zeros_like",
    "zeros_of",
]

Params = Mapping[str, Any]


# --- kinds of derivative ------------------------------------------------------------------------------------------


def _add_all(terms: list[Any]) -> Any:
    if not terms:
        return None
    total = terms[0]
    add = lookup("add")
    for term in terms[1:]:
        total = bind(add, total, term)
    return total


@final
class Elementwise:
    """Each result element depends on the operand elements in the same place.

    Parameters
    ----------
    *pull : callable or None
        For each operand ``pull(g, *operands, out)``: g times the partial derivative; None where it is zero.
    """

    kind: Final = "elementwise"
    __slots__ = ("pull",)

    def __init__(self, *pull: Callable[..., Any] | None) -> None:
        self.pull = pull

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The sum over operands of tangent times partial derivative."""
        terms = [
            pull(t, *operands, outs[0])
            for pull, t in zip(self.pull, tangents, strict=True)
            if t is not None and pull is not None
        ]
        return (_add_all(terms),)

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """Cotangent times partial derivative, for each operand."""
        g = cotangents[0]
        return [
            pull(g, *operands, outs[0]) if pull is not None and n else None
            for pull, n in zip(self.pull, needed, strict=True)
        ]


elementwise = Elementwise


@final
class Linear:
    """The operation is linear in some operands, taken together.

    Parameters
    ----------
    transpose : callable
        ``transpose(cotangent, *operands, **params)``: the cotangent of the operand of `wrt`, or a tuple of
        them where `wrt` names several. For an operation of several results `cotangent` is a tuple with None
        for zeros. Of the operands in `wrt` only the specs may be used.
    wrt : int or sequence of int or None
        Which operands; None for all.
    """

    kind: Final = "linear"
    __slots__ = ("transpose", "wrt")

    def __init__(
        self, transpose: Callable[..., Any], wrt: int | tuple[int, ...] | None = 0
    ) -> None:
        self.transpose = transpose
        self.wrt = wrt

    def _positions(self, count: int) -> tuple[int, ...]:
        if self.wrt is None:
            return tuple(range(count))
        return (self.wrt,) if isinstance(self.wrt, int) else self.wrt

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The operation itself, on the tangents."""
        positions = self._positions(len(operands))
        arguments = list(operands)
        for i, t in enumerate(tangents):
            if i in positions:
                arguments[i] = zeros_like(operands[i]) if t is None else t
            elif t is not None:
                _refuse_operand(op, i)
        out = bind(op, *arguments, **params)
        return out if type(out) is tuple else (out,)

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The transpose, on the cotangents."""
        positions = self._positions(len(operands))
        for i, n in enumerate(needed):
            if n and i not in positions:
                _refuse_operand(op, i)
        ct = cotangents[0] if len(outs) == 1 else tuple(cotangents)
        found = self.transpose(ct, *operands, **params)
        if len(positions) == 1 and type(found) is not tuple:
            found = (found,)
        result: list[Any] = [None] * len(operands)
        for i, c in zip(positions, found, strict=True):
            result[i] = c
        return result


linear = Linear


def _refuse_operand(op: Op, position: int) -> None:
    raise NotDifferentiableError(
        f"{op.name}: a derivative must be with respect to operands that have one; got operand {position} [X4]"
    )


@final
class Bilinear:
    """The operation is linear in each of its first two operands.

    Parameters
    ----------
    left, right : callable
        ``left(cotangent, x, y, **params)``: the cotangent of x, and likewise of y.
    """

    kind: Final = "bilinear"
    __slots__ = ("left", "right")

    def __init__(self, left: Callable[..., Any], right: Callable[..., Any]) -> None:
        self.left = left
        self.right = right

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The product rule."""
        x, y, *rest = operands
        terms = []
        if tangents[0] is not None:
            terms.append(bind(op, tangents[0], y, *rest, **params))
        if tangents[1] is not None:
            terms.append(bind(op, x, tangents[1], *rest, **params))
        return (_add_all(terms),)

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """Each side's transpose."""
        g = cotangents[0]
        result: list[Any] = [None] * len(operands)
        if needed[0]:
            result[0] = self.left(g, *operands, **params)
        if needed[1]:
            result[1] = self.right(g, *operands, **params)
        return result


bilinear = Bilinear


@final
class Zero:
    """The results do not vary with the operands, or are no real numbers: every derivative is zero."""

    kind: Final = "zero"
    __slots__ = ()

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """Zeros."""
        return [None] * len(outs)

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """Zeros."""
        return [None] * len(operands)


zero: Final = Zero()


@final
class NotDifferentiable:
    """There is a derivative that no rule gives, or none at all: asking for it is an error that says why."""

    kind: Final = "none"
    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def _refuse(self, op: Op) -> NotDifferentiableError:
        return NotDifferentiableError(
            f"{op.name}: must have a derivative; got none: {self.why} [X4]"
        )

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """Raises."""
        raise self._refuse(op)

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """Raises."""
        raise self._refuse(op)


not_differentiable = NotDifferentiable


@final
class Rules:
    """Rules of the operation's own.

    Parameters
    ----------
    jvp : callable
        ``jvp(operands, tangents, outs, **params)`` gives the sequence of the results' tangents.
    vjp : callable
        ``vjp(operands, cotangents, outs, **params)`` gives the sequence of the operands' cotangents.
    """

    kind: Final = "rules"
    __slots__ = ("_jvp", "_vjp")

    def __init__(
        self, jvp: Callable[..., Sequence[Any]], vjp: Callable[..., Sequence[Any]]
    ) -> None:
        self._jvp = jvp
        self._vjp = vjp

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The operation's rule."""
        return self._jvp(operands, tangents, outs, **params)

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The operation's rule."""
        return self._vjp(operands, cotangents, outs, **params)


@final
class ByBody:
    """The derivative depends on what the computation in a parameter does.

    Parameters
    ----------
    region : str
        The parameter that holds it.
    generic : AdKind, optional
        For every other computation.
    **kinds : AdKind
        For bodies that are one operation: ``add=``, ``mul=``, ``max=``, ``min=``, ...; see `body_name`.
    """

    kind: Final = "by body"
    __slots__ = ("generic", "kinds", "region")

    def __init__(self, region: str = "body", generic: Any = None, **kinds: Any) -> None:
        self.region = region
        self.kinds = kinds
        self.generic = generic

    def _find(self, op: Op, params: Params) -> Any:
        name = body_name(params[self.region])
        found = self.kinds.get(name, self.generic) if name else self.generic
        if found is None:
            raise NotDifferentiableError(
                f"{op.name}: {self.region} must, for a derivative, be one of {', '.join(self.kinds)};"
                f" got {name or 'a larger computation'} [X4]"
            )
        return found

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
    ) -> Sequence[Any]:
        """The rule for the body at hand."""
        found: Sequence[Any] = self._find(op, params).jvp(op, operands, tangents, outs, params)
        return found

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The rule for the body at hand."""
        found: Sequence[Any] = self._find(op, params).vjp(
            op, operands, cotangents, outs, params, needed
        )
        return found


by_body = ByBody


def body_name(body: Computation) -> str | None:
    """The operation that a two-parameter scalar computation consists of: ``"add"``, ``"max"``, ...

    ``"second"`` is the body that gives its second parameter (what a scatter that replaces has), ``"first"`` its
    first; None is anything else.
    """
    if len(body.parameters) != 2 or len(body.results) != 1:
        return None
    result = body.results[0]
    if result is body.parameters[1]:
        return "second"
    if result is body.parameters[0]:
        return "first"
    if len(body.instructions) == 1 and body.instructions[0].results == body.results:
        instruction = body.instructions[0]
        operands = instruction.operands
        commutes = instruction.op.name in ("add", "mul", "max", "min", "and", "or", "xor")
        if operands == body.parameters or (commutes and operands == body.parameters[::-1]):
            return instruction.op.name
    return None


# --- through a composition ------------------------------------------------------------------------------------------


def vjp_through(
    forward: Computation,
    operands: Sequence[Any],
    cotangents: Sequence[Any],
    needed: Sequence[bool],
) -> list[Any]:
    """The cotangents of operands by the way back through a computation that gives the same results."""
    given = [
        c is not None and has_tangent(s)
        for c, s in zip(cotangents, forward.result_specs, strict=True)
    ]
    back = eliminate_dead(vjp_computation(forward, needed, given))
    used = [c for c, g in zip(cotangents, given, strict=True) if g]
    found = iter(inline(back, [*operands, *used]))
    return [next(found) if n else None for n in needed]


# --- batching -----------------------------------------------------------------------------------------------------


def batch_elementwise(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """The operation on all operands, those without the new axis repeated along it."""
    full = [a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)]
    return bind(op, *full, **params)


def unsupported(why: str) -> Callable[..., Any]:
    """A batching rule that raises, saying why there is none."""

    def refuse(
        op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
    ) -> Any:
        raise UnsupportedOpError(f"{op.name}: must have a rule for vmap; got none: {why} [X5]")

    return refuse
