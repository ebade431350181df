"""Arrays used after they were donated or deleted, and traced tensors used after or outside their trace."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import BackendError, DTypeError, ShapeError, TracingError

BACKENDS = ["pjrt:cpu", "interpreter"]


def _tensor() -> xlapy.Tensor:
    return xlapy.ones(3)


def _deleted() -> xlapy.Tensor:
    x = _tensor()
    x.delete()
    return x


def _donated() -> xlapy.Tensor:
    x = _tensor()
    xlapy.compile(lambda x: x * 2, donate_argnames="x")(x)
    return x


def _donated_in_vain() -> xlapy.Tensor:
    x = _tensor()
    xlapy.compile(lambda x: xlapy.sum(x), donate_argnames="x")(x)  # no result has its size
    return x


USES: dict[str, Callable[[xlapy.Tensor], Any]] = {
    "an operation": ops.neg,
    "an operator": lambda x: x + 1,
    "the second operand": lambda x: _tensor() + x,
    "numpy()": lambda x: x.numpy(),
    "numpy.asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "str": str,
    "format": lambda x: f"{x}",
    "tolist": lambda x: x.tolist(),
    "an index": lambda x: x[0],
    "an update": lambda x: x.at[0].set(1.0),
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "iteration": list,
    "a comparison": lambda x: x == x,
    "waiting": lambda x: xlapy.block_until_ready([x]),
    "its own waiting": lambda x: x.block_until_ready(),
    "pickle": pickle.dumps,
    "a list": lambda x: xlapy.asarray([x, x]),
    "concatenate": lambda x: xlapy.concatenate([x, x]),
    "a copy": lambda x: copy.copy(x) + 1,
    "another backend": lambda x: x.to("interpreter" if x.backend.name != "interpreter" else "cpu"),
    "compiled": lambda x: xlapy.compile(lambda x: x + 1)(x),
    "in a container": lambda x: xlapy.compile(lambda d: d["a"] + 1)({"a": x}),
    "closed over": lambda x: xlapy.compile(lambda y: y + x)(_tensor()),
    "lowered": lambda x: xlapy.compile(lambda x: x + 1).lower(_tensor()).compile()(x),
    "donated again": lambda x: xlapy.compile(lambda x: x * 2, donate_argnames="x")(x),
    "exported": lambda x: xlapy.export(lambda y: y + x, "f32[3]"),
    "grad": lambda x: xlapy.grad(lambda x: xlapy.sum(x))(x),
    "vmap": lambda x: xlapy.vmap(lambda x: x * 2)(x),
    "a loop": lambda x: xlapy.fori_loop(0, 2, lambda i, c: c + x, _tensor()),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [_deleted, _donated, _donated_in_vain])
def test_every_use_of_a_lost_array_is_refused(
    make: Callable[[], xlapy.Tensor], backend: str
) -> None:
    with xlapy.use_backend(backend):
        for use in USES.values():
            x = make()
            with refused(BackendError, "donated or deleted"):
                use(x)
        assert repr(make()) == "Tensor(deleted, f32[3])"
        assert make().shape == (3,)
        make().delete()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_is_donated_once(backend: str) -> None:
    both = xlapy.compile(lambda x, y: x + y, donate_argnames=("x", "y"))
    one = xlapy.compile(lambda x, y: x + y, donate_argnames="x")
    nested = xlapy.compile(lambda d: d["a"] * d["b"], donate_argnames="d")
    with xlapy.use_backend(backend):
        x = _tensor()
        with refused(BackendError, "as x and y"):
            both(x, x)
        with refused(BackendError, "as x and y"):
            one(x, copy.copy(x))
        with refused(BackendError, r"as d\['a'\] and d\['b'\]"):
            nested({"a": x, "b": x})
        with refused(BackendError, "as y and closed over"):
            xlapy.compile(lambda y: y + x, donate_argnames="y")(x)
        with refused(BackendError, "as x and y"):
            one.lower(x, x).compile()(x, x)
        assert x.tolist() == [1, 1, 1]  # nothing was lost by it
        assert one(x, _tensor()).tolist() == [2, 2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_donated_array_became_stays(backend: str) -> None:
    with xlapy.use_backend(backend):
        x = _tensor()
        seen = x.numpy()
        same = xlapy.compile(lambda x: (x, x + 1), donate_argnames="x")(x)
        assert [r.tolist() for r in same] == [[1, 1, 1], [2, 2, 2]]
        assert seen.tolist() == [1, 1, 1]
        array = np.ones(3, np.float32)
        assert xlapy.compile(lambda x: x * 5, donate_argnames="x")(array).tolist() == [5, 5, 5]
        assert array.tolist() == [1, 1, 1]
        y = _tensor()
        with refused(ShapeError):
            xlapy.compile(lambda x, y: x + y, donate_argnames="x")(y, xlapy.ones(4))
        assert y.tolist() == [1, 1, 1]


# --- traced tensors -----------------------------------------------------------------------------------------------


def _leak() -> xlapy.Tensor:
    found: list[xlapy.Tensor] = []
    xlapy.compile(lambda x: (found.append(x), x + 1)[1])(_tensor())
    return found[0]


def _leak_of_grad() -> xlapy.Tensor:
    found: list[xlapy.Tensor] = []
    xlapy.grad(lambda x: (found.append(x * 2), xlapy.sum(x))[1])(_tensor())
    return found[0]


def _leak_of_vmap() -> xlapy.Tensor:
    found: list[xlapy.Tensor] = []
    xlapy.vmap(lambda x: (found.append(x * 2), x)[1])(xlapy.ones((2, 3)))
    return found[0]


def _leak_of_exception() -> xlapy.Tensor:
    def raising(x: xlapy.Tensor) -> None:
        raise LookupError(x)

    with pytest.raises(LookupError) as caught:
        xlapy.compile(raising)(_tensor())
    leaked: xlapy.Tensor = caught.value.args[0]
    return leaked


def _leak_of_generator() -> xlapy.Tensor:
    found: list[Any] = []

    def steps(x: xlapy.Tensor) -> Any:
        yield x

    xlapy.compile(lambda x: (found.append(steps(x)), x)[1])(_tensor())
    leaked: xlapy.Tensor = next(found[0])
    return leaked


def _leak_of_branch() -> xlapy.Tensor:
    found: list[xlapy.Tensor] = []
    xlapy.cond(True, lambda x: (found.append(x), x)[1], lambda x: x, _tensor())
    return found[0]


TRACED_USES = {
    name: use
    for name, use in USES.items()
    if name
    not in ("str", "format", "waiting", "its own waiting", "a copy", "assignment", "lowered")
} | {
    "bool": lambda x: bool(x),
    "as a condition": lambda x: xlapy.cond(True, lambda y: y + x, lambda y: y, _tensor()),
    "vjp": lambda x: xlapy.vjp(lambda y: y * x, _tensor()),
    "a root": lambda x: xlapy.XlaBuilder("b").build(x),
    "a reduction's body": lambda x: ops.reduce(_tensor(), 0.0, lambda a, b: a + b + x[0], (0,)),
    "another trace's result": lambda x: xlapy.compile(lambda: x)(),
    "moved": lambda x: x.to("interpreter"),
    "its device": lambda x: x.device,
}
LEAKS = [
    _leak, _leak_of_grad, _leak_of_vmap, _leak_of_exception, _leak_of_generator, _leak_of_branch
]  # fmt: skip


@pytest.mark.parametrize("leak", LEAKS)
def test_a_traced_tensor_is_good_for_its_trace_only(leak: Callable[[], xlapy.Tensor]) -> None:
    for name, use in TRACED_USES.items():
        if name == "another backend":
            continue
        with refused(TracingError, "trace"):
            use(leak())
    assert repr(leak()) == "Tensor(traced f32[3])"


def test_a_traced_tensor_stays_in_its_thread() -> None:
    def spread(x: xlapy.Tensor) -> Any:
        found: list[Any] = []

        def work() -> None:
            try:
                found.append(x + 1)
            except TracingError as error:
                found.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if isinstance(found[0], TracingError):
            raise found[0]
        return found[0]

    with refused(TracingError, "thread"):
        xlapy.compile(spread)(_tensor())
    assert xlapy.compile(lambda x: x + 1)(_tensor()).tolist() == [2, 2, 2]


def test_a_traced_tensor_may_enter_an_inner_trace_but_not_leave_it() -> None:
    nested = xlapy.compile(lambda x: xlapy.compile(lambda y: y + x)(x))
    assert nested(_tensor()).tolist() == [2, 2, 2]
    found: list[xlapy.Tensor] = []
    inner = xlapy.compile(lambda x: (found.append(x), x)[1])
    with refused(TracingError, "has ended"):
        xlapy.compile(lambda y: (inner(y), found[0] + y)[1])(_tensor())


NEEDS_A_VALUE: dict[str, Callable[[xlapy.Tensor], Any]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "if": lambda x: 1 if x > 0 else 2,
    "and": lambda x: x > 0 and x > 1,
    "in": lambda x: 1.0 in xlapy.reshape(x, (1,)),
    "numpy()": lambda x: x.numpy(),
    "numpy.asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "format": lambda x: f"{x:.2f}",
    "pickle": pickle.dumps,
    "an index of a list": lambda x: [1, 2][x.astype("s32")],
    "range": lambda x: range(x.astype("s32")),
    "a bound of a slice": lambda x: xlapy.zeros(3)[: x.astype("s32")],
    "a size": lambda x: xlapy.zeros(x.astype("s32")),
    "arange": lambda x: xlapy.arange(x),
    "an axis": lambda x: xlapy.sum(xlapy.ones((2, 2)), axis=x.astype("s32")),
    "max": lambda x: max(x, x + 1),
    "sorted": lambda x: sorted([x, x]),
    "assert": lambda x: [1 for _ in range(1) if xlapy.any(x > 0)],
    "its device": lambda x: x.device,
    "deletion": lambda x: x.delete(),
    "moved": lambda x: x.to("interpreter"),
    "a static argument": lambda x: xlapy.compile(lambda n: n, static_argnames="n")(x),
}


@pytest.mark.parametrize("name", NEEDS_A_VALUE)
def test_a_traced_tensor_has_no_value(name: str) -> None:
    use = NEEDS_A_VALUE[name]
    for transform in (xlapy.compile, xlapy.grad, lambda f: xlapy.vmap(f, in_axes=0)):
        given = xlapy.ones(2) if transform not in (xlapy.compile, xlapy.grad) else xlapy.ones(())
        with refused(TracingError):
            transform(lambda x: (use(x), x)[1])(given)


def test_length_and_iteration_need_no_value() -> None:
    assert xlapy.compile(lambda x: len(x) + sum(x))(_tensor()).item() == 6
    with refused(DTypeError, "at least one dimension"):
        xlapy.compile(lambda x: len(x))(1.0)
    with refused(DTypeError, "at least one dimension"):
        xlapy.compile(lambda x: list(x))(1.0)
    with pytest.raises(TypeError, match="unhashable"):
        hash(_tensor())
