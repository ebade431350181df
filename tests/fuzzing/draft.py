"""A program while it is drawn.

Operations are recorded and evaluated at once, so that what follows can depend on values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import TensorSpec
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation, Value
from xlapy.trace.mode import bind, current_builder
from xlapy.trace.op import registry

from .evaluation import evaluate
from .values import ANY_TYPES, DTYPES, MOODS, RANKS, SIZES, Array, Rng, draw, draw_shape, weighted

ANY = frozenset(("bool", "int", "uint", "float", "complex"))
REAL = frozenset(("int", "uint", "float"))
INEXACT = frozenset(("float", "complex"))


class Unfit(Exception):
    """An operation that cannot be drawn here; another one is."""


class Draft:
    """What a program consists of so far.

    Attributes
    ----------
    rng : numpy.random.Generator
    mood : str
        How values are drawn; see `fuzzing.values.MOODS`.
    dtypes, sizes : sequence
        What this program's arrays are made of: few, so that they meet.
    pool : list of Tensor
        What operations can take.
    known : dict
        The array of each value.
    scalars : bool
        Whether only operations on scalars may be drawn, as in the computation of a reduction.
    palette : Palette
        Which operations it has.
    depth, deepest : int
        How many computations this one lies in, and in how many one may lie.
    """

    def __init__(self, rng: Rng, builder: XlaBuilder, dtypes: Sequence[str] = ()) -> None:
        self.rng = rng
        self.builder = builder
        self.mood = weighted(rng, MOODS)
        self.table: dict[str, float] = {n: DTYPES[n] for n in dtypes} or DTYPES
        if not dtypes and rng.random() < ANY_TYPES:
            self.table = dict.fromkeys(DTYPES, 1)
        names = [weighted(rng, self.table) for _ in range(int(rng.integers(1, 5)))]
        self.dtypes = [as_dtype(n) for n in dict.fromkeys(names)]
        self.sizes = [weighted(rng, SIZES) for _ in range(int(rng.integers(2, 5)))]
        self.pool: list[Any] = []
        self.known: dict[Value, Array] = {}
        self.inputs: list[Array] = []
        self.palette: Any = None
        self.scalars = False
        self.depth = 0
        self.deepest = 2 if rng.random() < 0.85 else 3
        self._evaluated = 0
        self._outer: Draft | None = None

    # --- chance ---------------------------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        """Of the range, both ends among it."""
        return int(self.rng.integers(low, high, endpoint=True))

    def chance(self, probability: float) -> bool:
        """Whether something happens."""
        return bool(self.rng.random() < probability)

    def choose(self, options: Sequence[Any]) -> Any:
        """One of them."""
        return options[int(self.rng.integers(len(options)))]

    def order(self, count: int) -> tuple[int, ...]:
        """A permutation."""
        return tuple(int(i) for i in self.rng.permutation(count))

    def some(self, count: int, least: int = 0) -> tuple[int, ...]:
        """Some numbers below `count`, in order."""
        chosen = self.rng.permutation(count)[: self.integer(least, count)]
        return tuple(sorted(int(i) for i in chosen))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """A shape of this program's sizes."""
        return () if self.scalars else draw_shape(self.rng, self.sizes, rank)

    def dtype(self, kinds: frozenset[str] = ANY, *, names: Sequence[str] | None = None) -> DType:
        """An element type, rather one of the program's."""
        allowed = (lambda d: d.name in names) if names is not None else (lambda d: d.kind in kinds)
        own = [d for d in self.dtypes if allowed(d)]
        if own and self.chance(0.9):
            return self.choose(own)
        table = {n: w for n, w in self.table.items() if allowed(as_dtype(n))}
        table = table or {n: w for n, w in DTYPES.items() if allowed(as_dtype(n))}
        return as_dtype(weighted(self.rng, table))

    # --- values ---------------------------------------------------------------------------------------------------

    def array(self, x: Any) -> Array:
        """The values of a tensor."""
        self.settle()
        return np.asarray(self.lookup(x.payload))

    def lookup(self, value: Value) -> Any:
        """The array of a value of this builder or of an enclosing one."""
        if value in self.known:
            return self.known[value]
        for tensor, hidden in self.builder.captured.values():
            if hidden is value and self._outer is not None:
                return self._outer.lookup(tensor.payload)
        raise KeyError(value)

    def make(self, spec: TensorSpec, values: Any = None) -> Any:
        """A parameter of the program, or a constant; or what the pool has, brought into this spec."""
        given = draw(self.rng, spec, self.mood) if values is None else values
        array = np.asarray(given).astype(spec.dtype.numpy)
        assert array.shape == spec.shape
        if self.depth == 0 and self.chance(0.8):
            tensor = self.builder.parameter(len(self.inputs), spec)
            self.inputs.append(array)
            self.known[tensor.payload] = array
        else:
            tensor = bind(registry["constant"], value=array)
            self.settle(pool=False)
        self.pool.append(tensor)
        return tensor

    def tensor(
        self,
        kinds: frozenset[str] = ANY,
        *,
        names: Sequence[str] | None = None,
        dtype: DType | None = None,
        shape: tuple[int, ...] | None = None,
        rank: int | None = None,
        least: int = 0,
        most: int = 5,
        fresh: float = 0.2,
    ) -> Any:
        """A tensor of the pool that fits, or a new one."""
        if rank is not None:
            least = most = rank
        if not self.chance(fresh):
            fitting = [
                t
                for t in self.pool
                if (dtype is None or t.spec.dtype is dtype)
                and (names is None or t.spec.dtype.name in names)
                and t.spec.dtype.kind in kinds
                and (shape is None or t.spec.shape == shape)
                and least <= t.spec.rank <= most
            ]
            if fitting:
                # The later ones rather, for programs that are deep.
                return fitting[max(self.integer(0, len(fitting) - 1) for _ in range(2))]
        wanted = self.dtype(kinds, names=names) if dtype is None else dtype
        if shape is None:
            rank = rank if rank is not None else max(least, min(most, weighted(self.rng, RANKS)))
            if self.scalars and rank:
                raise Unfit
            shape = self.shape(rank)
        return self.of(TensorSpec(shape, wanted))

    def of(self, spec: TensorSpec) -> Any:
        """A new tensor of a spec: rather made from another one within computations, which have few values."""
        near = [t for t in self.pool if t.spec.rank in (0, spec.rank)]
        if self.depth and near and self.chance(0.7):
            made = self._brought(self.choose(near), spec)
            if made is not None:
                return made
        return self.make(spec)

    def _brought(self, x: Any, spec: TensorSpec) -> Any:
        """Another tensor converted and broadcast to a spec."""
        if x.spec.dtype is not spec.dtype:
            x = bind(registry["convert_element_type"], x, dtype=spec.dtype)
        if x.spec.shape != spec.shape:
            if x.spec.rank:
                return None
            x = bind(registry["broadcast_in_dim"], x, shape=spec.shape, broadcast_dimensions=())
        self.settle()
        return x

    def exactly(self, spec: TensorSpec) -> Any:
        """A tensor of a spec from the pool where there is one, else made of what there is."""
        return self.tensor(dtype=spec.dtype, shape=spec.shape, fresh=0.05)

    # --- recording ------------------------------------------------------------------------------------------------

    def bind(self, operation: str, /, *operands: Any, **params: Any) -> Any:
        """Record an operation."""
        return bind(registry[operation], *operands, **params)

    def settle(self, *, pool: bool = True) -> None:
        """Evaluate what was recorded, and let the results be taken."""
        instructions = self.builder.instructions
        env = _Chain(self)
        with np.errstate(all="ignore"):
            while self._evaluated < len(instructions):
                instruction = instructions[self._evaluated]
                self._evaluated += 1
                evaluate(instruction, env)  # type: ignore[arg-type]
                if pool:
                    self._offer(instruction)

    def _offer(self, instruction: Any) -> None:
        from xlapy.tensor import Tensor

        for value in instruction.results:
            spec = value.spec
            if type(spec) is not TensorSpec or not spec.is_static or spec.size > 4096:
                continue
            array = self.known[value]
            if spec.dtype.inexact and array.size:
                with np.errstate(all="ignore"):
                    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
                    # What is not a number would soon be all there is.
                    if np.isfinite(wide).mean() < 0.4 and self.chance(0.9):
                        continue
            if self.scalars and spec.rank:
                continue
            self.pool.append(Tensor(spec, value))

    @contextmanager
    def nested(
        self,
        tensors: Sequence[Any],
        arrays: Sequence[Array],
        *,
        scalars: bool = False,
        outer: bool = False,
    ) -> Iterator[Draft]:
        """The draft of a computation within an operation, while its function is being traced.

        Parameters
        ----------
        tensors, arrays : sequences
            Its parameters and values that these may have.
        scalars : bool
            Whether it must be arithmetic on scalars.
        outer : bool
            Whether it may use values of this one.
        """
        builder = current_builder()
        assert builder is not None
        inner = Draft.__new__(Draft)
        inner.__dict__.update(self.__dict__)
        inner.builder = builder
        inner.pool = list(tensors) + ([self.choose(self.pool)] if outer and self.pool else [])
        inner.known = {t.payload: np.asarray(a) for t, a in zip(tensors, arrays, strict=True)}
        inner.scalars = self.scalars or scalars
        inner.depth = self.depth + 1
        inner._evaluated = len(builder.instructions)
        inner._outer = self
        for tensor in inner.pool[len(tensors) :]:
            inner.known[tensor.payload] = self.array(tensor)
        yield inner
        inner.settle()

    def body(
        self,
        write: Callable[..., Any],
        specs: Sequence[TensorSpec],
        arrays: Sequence[Array] | None = None,
        *,
        scalars: bool = True,
    ) -> Computation:
        """A computation for an operation's parameter: ``write(draft, *tensors)`` gives its results."""
        from xlapy.trace.builder import trace

        given = arrays if arrays is not None else [draw(self.rng, s, self.mood) for s in specs]

        def function(*tensors: Any) -> Any:
            with self.nested(tensors, given, scalars=scalars) as inner:
                return write(inner, *tensors)

        return trace(function, list(specs), name="body").computation


class _Chain(dict[Value, Any]):
    """The values of a draft and of those around it, as `evaluate` takes them."""

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft = draft

    def __getitem__(self, value: Value) -> Any:
        return self._draft.lookup(value)

    def __setitem__(self, value: Value, array: Any) -> None:
        self._draft.known[value] = array
