"""Calls of Python functions on the host."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.errors import callback_failure
from xlapy.specs import Spec, TensorSpec, TokenSpec, as_items, parse_spec, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.batching import batched_spec
from xlapy.trace.builder import lift
from xlapy.trace.codecs import quote
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.stablehlo import Writer

from .custom import checked, layout_text
from .rules import broadcast_leading, not_differentiable, zeros_of
from .tokens import TOKEN, data_and_token

__all__ = ["python_callback", "python_callback_op"]

Array = np.ndarray[Any, Any]


def infer_python_callback(
    *specs: Spec,
    callback: Callable[..., Any],
    results: tuple[Spec, ...],
    has_side_effect: bool,
    vectorized: bool,
) -> tuple[Spec, ...]:
    """I1: arrays of known shape, and perhaps a token; I2: something to call; I3: the like of I1."""
    ordered = bool(specs) and type(specs[-1]) is TokenSpec
    for spec in specs[: -1 if ordered else None]:
        require_dtype(
            type(spec) is TensorSpec and spec.is_static,
            "I1",
            "operands must be arrays of known shape",
            spec,
        )
    require_dtype(callable(callback), "I2", "callback must be a function", callback)
    ok = type(results) is tuple and (not ordered or (bool(results) and results[-1] == specs[-1]))
    ok = ok and all(
        type(r) is TensorSpec and r.is_static for r in results[: -1 if ordered else None]
    )
    what = "arrays of known shape and a token" if ordered else "arrays of known shape"
    require_dtype(ok, "I3", f"results must be specs of {what}", results)
    return results


def kernel_python_callback(
    *arrays: Array,
    callback: Callable[..., Any],
    results: tuple[Spec, ...],
    has_side_effect: bool,
    vectorized: bool,
    out: Any,
) -> tuple[Any, ...]:
    """Results = callback(*arrays); a token goes past it."""
    what = f"python_callback of {_name_of(callback)}"
    if results and type(results[-1]) is TokenSpec:
        return (*checked(_called(callback, arrays[:-1]), results[:-1], what), None)
    return checked(_called(callback, arrays), results, what)


def _called(callback: Callable[..., Any], arrays: Sequence[Array]) -> Any:
    try:
        return callback(*arrays)
    except Exception as error:
        raise callback_failure(error) from error


def _name_of(callback: Any) -> str:
    return getattr(callback, "__qualname__", type(callback).__name__)


def _past_token(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The function as XLA calls it, with None for the token after its arrays."""
    return functools.wraps(callback)(lambda *arrays: callback(*arrays[:-1]))


def write_python_callback(writer: Writer, instruction: Any) -> None:
    """A custom call of XLA's own, which finds the function by its number."""
    params = instruction.params
    callback = params["callback"]
    if params["results"] and type(params["results"][-1]) is TokenSpec:
        callback = _past_token(callback)
    target, number = writer.callback(callback, params["results"])
    attributes = [
        f"call_target_name = {quote(target)}",
        f"has_side_effect = {'true' if params['has_side_effect'] else 'false'}",
        f"backend_config = {{index = {number} : ui64}}",
        "api_version = 4 : i32",
    ]
    for what, values in (
        ("operand_layouts", instruction.operands),
        ("result_layouts", instruction.results),
    ):
        ranks = [v.spec.rank if type(v.spec) is TensorSpec else 0 for v in values]
        layouts = [layout_text(tuple(range(rank))[::-1]) for rank in ranks]
        attributes.append(f"{what} = [{', '.join(layouts)}]")
    writer.line("stablehlo.custom_call", instruction, ", ".join(attributes))


@functools.lru_cache(maxsize=256)
def _by_rows(
    callback: Callable[..., Any], is_batched: tuple[bool, ...], size: int
) -> Callable[..., Any]:
    """The function on each row by itself; the same object each time, so that programs are found again."""

    def call(*arrays: Array) -> Any:
        rows = []
        for i in range(size):
            found = callback(*[a[i] if b else a for a, b in zip(arrays, is_batched, strict=True)])
            rows.append(
                found if isinstance(found, list | tuple) else () if found is None else (found,)
            )
        return tuple(
            np.stack([np.asarray(x) for x in column]) for column in zip(*rows, strict=True)
        )

    call.__qualname__ = _name_of(callback)
    return call


def batch_python_callback(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, callback: Any, results: Any,
    has_side_effect: bool, vectorized: bool,
) -> Any:  # fmt: skip
    """Once on all rows if the function takes them, and otherwise row by row."""
    batched = tuple(batched_spec(r, size) for r in results)
    params = {"results": batched, "has_side_effect": has_side_effect, "vectorized": vectorized}
    if vectorized:
        full = [
            a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)
        ]
        return bind(op, *full, callback=callback, **params)
    if not size:
        return tuple(map(zeros_of, batched))
    ordered = bool(results) and type(results[-1]) is TokenSpec
    flags = tuple(is_batched[:-1] if ordered else is_batched)
    return bind(op, *args, callback=_by_rows(callback, flags, size), **params)


python_callback_op = register(Op(
    name="python_callback",
    section="CustomCall",
    infer=infer_python_callback,
    hlo=Hlo("", write=write_python_callback),
    kernel=kernel_python_callback,
    ad=not_differentiable("what it computes is not known; give it operands of stop_gradient"),
    batch=batch_python_callback,
))  # fmt: skip


def python_callback(
    callback: Callable[..., Any],
    operands: Sequence[Any],
    results: Any,
    *,
    has_side_effect: bool = False,
    vectorized: bool = False,
    token: Any = None,
) -> Any:
    """Call a Python function on the host, each time the program runs.

    Parameters
    ----------
    callback : callable
        From numpy arrays, which it must not write to, to an array, a sequence of arrays, or None.
    operands : sequence of Tensor
    results : spec or sequence of specs
        What it gives: one spec for one tensor, a sequence for a tuple, an empty one for nothing.
    has_side_effect : bool
        Whether it must be called though nothing uses its results. A function without side effects may be called any
        number of times, or never.
    vectorized : bool
        Whether it works on arrays with further leading axes. If so, `vmap` calls it once for all rows.

    token : token, optional
        What comes first. Calls are in order only where each takes the token of the one before.

    Returns
    -------
    Tensor or tuple of Tensor
        With a token, a pair of that and of a token for what comes afterwards.

    Raises
    ------
    DTypeError
        When it runs on the interpreter, if the function gives something else than was declared.
    BackendError
        The same on XLA, with the function's own error in the message.

    Notes
    -----
    A custom call in section CustomCall of the operation semantics. A program with one cannot be exported, and is
    compiled in each process anew.

    Examples
    --------
    >>> import numpy as np
    >>> from xlapy import ops
    >>> ops.python_callback(lambda x: np.sort(x), [ops.constant([3.0, 1.0, 2.0])], "f32[3]")
    Tensor([1., 2., 3.], f32[3])
    """
    tensors: list[Tensor] = [lift(x) for x in as_items(operands, "operands")]
    single = isinstance(results, str | TensorSpec)
    specs = tuple(parse_spec(r) for r in ((results,) if single else as_items(results, "results")))
    if token is not None:
        tensors.append(token)
        specs = (*specs, TOKEN)
    outs = bind(
        python_callback_op, *tensors, callback=callback, results=specs, has_side_effect=has_side_effect,
        vectorized=vectorized,
    )  # fmt: skip
    if token is not None:
        return data_and_token(outs, single)
    return outs[0] if single else outs
