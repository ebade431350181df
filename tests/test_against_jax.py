"""Whole models beside jax: values, gradients, gradients of each example and Hessian-vector products."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest

import xlapy
from xlapy import ops

jax = pytest.importorskip("jax")

# In units of the largest number compared with: sums are taken in another order here and there.
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}
DTYPES = list(TOLERANCE)


class Framework(NamedTuple):
    """What the models below are written in."""

    np: Any
    conv: Callable[[Any, Any], Any]
    max_pool: Callable[[Any], Any]
    batch_norm: Callable[[Any, Any, Any], Any]
    fori_loop: Callable[..., Any]
    while_loop: Callable[..., Any]
    softmax: Callable[[Any], Any]
    gelu: Callable[[Any], Any]


OURS = Framework(
    np=xlapy,
    conv=lambda x, w: ops.conv(x, w, (1, 1), "SAME"),
    max_pool=lambda x: ops.reduce_window(x, -np.inf, ops.max, (1, 1, 2, 2), (1, 1, 2, 2)),
    batch_norm=lambda x, scale, offset: ops.batch_norm_training(x, scale, offset, 1e-5, 1)[0],
    fori_loop=xlapy.fori_loop,
    while_loop=xlapy.while_loop,
    softmax=lambda x: xlapy.softmax(x, axis=-1),
    gelu=xlapy.gelu,
)


def _batch_norm(x: Any, scale: Any, offset: Any) -> Any:
    jnp = jax.numpy
    mean, var = (f(x, axis=(0, 2, 3), keepdims=True) for f in (jnp.mean, jnp.var))
    normal = (x - mean) / jnp.sqrt(var + 1e-5)
    return normal * scale[:, None, None] + offset[:, None, None]


THEIRS = Framework(
    np=jax.numpy,
    conv=lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"),
    max_pool=lambda x: jax.lax.reduce_window(
        x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
    ),
    batch_norm=_batch_norm,
    fori_loop=lambda n, m, body, init: jax.lax.fori_loop(n, m, body, init),
    while_loop=jax.lax.while_loop,
    softmax=lambda x: jax.nn.softmax(x, axis=-1),
    gelu=lambda x: jax.nn.gelu(x, approximate=False),
)


# --- models: the loss of parameters and a batch of examples ---------------------------------------


def mlp(f: Framework, p: Any, x: Any) -> Any:
    for w, b in p["hidden"]:
        x = f.np.tanh(x @ w + b)
    logits = x @ p["out"]
    return -f.np.mean(f.np.log(f.softmax(logits))[:, 0])


def cnn(f: Framework, p: Any, x: Any) -> Any:
    x = f.batch_norm(f.conv(x, p["filter"]), p["scale"], p["offset"])
    x = f.max_pool(f.np.maximum(x, 0.0))
    return f.np.mean((f.np.sum(x, axis=(2, 3)) @ p["out"]) ** 2)


def rnn(f: Framework, p: Any, x: Any) -> Any:
    steps = f.np.swapaxes(x, 0, 1)

    def step(i: Any, h: Any) -> Any:
        return f.np.tanh(steps[i] @ p["in"] + h @ p["state"])

    h = f.np.zeros((x.shape[0], 3), dtype=x.dtype)
    for i in range(2):
        h = step(i, h)
    if f is OURS:  # jax has no reverse mode for loops of a traced trip count, and so writes a scan
        h = f.fori_loop(2, steps.shape[0], step, h)
    else:
        h, _ = jax.lax.scan(
            lambda h, s: (f.np.tanh(s @ p["in"] + h @ p["state"]), None), h, steps[2:]
        )
    return f.np.mean(h**2)


def transformer(f: Framework, p: Any, x: Any) -> Any:
    def norm(x: Any) -> Any:
        mean = f.np.mean(x, axis=-1, keepdims=True)
        return (x - mean) / f.np.sqrt(f.np.var(x, axis=-1, keepdims=True) + 1e-5)

    batch, length, width = x.shape
    heads = 2

    def split(y: Any) -> Any:
        return f.np.transpose(f.np.reshape(y, (batch, length, heads, width // heads)), (0, 2, 1, 3))

    normal = norm(x)
    q, k, v = (split(normal @ p[name]) for name in "qkv")
    scores = q @ f.np.swapaxes(k, -1, -2) / np.sqrt(width // heads).item()
    mask = f.np.tril(f.np.ones((length, length), dtype=x.dtype)) > 0
    weights = f.softmax(f.np.where(mask, scores, -1e9))
    mixed = f.np.reshape(f.np.transpose(weights @ v, (0, 2, 1, 3)), (batch, length, width))
    x = x + mixed @ p["mix"]
    x = x + f.gelu(norm(x) @ p["up"]) @ p["down"]
    return f.np.mean(f.np.square(x))


def parameters(name: str, dtype: str) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(len(name))

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(dtype)

    if name == "mlp":
        layers = [(normal(4, 5), normal(5)), (normal(5, 3), normal(3))]
        return {"hidden": layers, "out": normal(3, 2)}, normal(6, 4)
    if name == "cnn":
        return {
            "filter": normal(3, 2, 3, 3), "scale": normal(3), "offset": normal(3), "out": normal(3, 2)
        }, normal(4, 2, 6, 6)  # fmt: skip
    if name == "rnn":
        return {"in": normal(2, 3), "state": normal(3, 3) / 2}, normal(4, 5, 2)
    names = {"q": (4, 4), "k": (4, 4), "v": (4, 4), "mix": (4, 4), "up": (4, 8), "down": (8, 4)}
    return {k: normal(*shape) for k, shape in names.items()}, normal(3, 5, 4)


MODELS = {"mlp": mlp, "cnn": cnn, "rnn": rnn, "transformer": transformer}
# Beyond gradients doubles show more, and what differs between the two types shows in one model.
FURTHER = [*[(name, "float64") for name in MODELS], ("mlp", "float32"), ("rnn", "float32")]


# --- comparison ------------------------------------------------------------------------------------


@contextmanager
def doubles(dtype: str) -> Iterator[None]:
    with jax.enable_x64(dtype == "float64"):
        yield


def compare(ours: Any, theirs: Any, dtype: str) -> None:
    found, structure = xlapy.tree.flatten(ours)
    expected, other = xlapy.tree.flatten(theirs)
    assert structure == other
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype == np.dtype(dtype)
        scale = max(np.abs(b).max(), 1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients(name: str, dtype: str) -> None:
    model = MODELS[name]
    p, x = parameters(name, dtype)
    with doubles(dtype):
        theirs = jax.jit(jax.value_and_grad(lambda p, x: model(THEIRS, p, x), argnums=(0, 1)))(p, x)

    def loss(p: Any, x: Any) -> Any:
        return model(OURS, p, x)

    both = xlapy.value_and_grad(loss, argnums=(0, 1))
    compare(both(p, x), theirs, dtype)
    if dtype == "float64":
        compare(xlapy.compile(both, backend="interpreter")(p, x), theirs, dtype)


@pytest.mark.parametrize(("name", "dtype"), FURTHER)
def test_gradients_of_each_example(name: str, dtype: str) -> None:
    model = MODELS[name]
    p, x = parameters(name, dtype)
    if name == "cnn":
        x = np.stack([x, x[::-1] * 2])  # batch norm is over a batch: an example is one
    else:
        x = x[:, None]

    def per_example(f: Framework, vmap: Any, grad: Any) -> Any:
        return vmap(grad(lambda p, x: model(f, p, x)), (None, 0))

    with doubles(dtype):
        theirs = jax.jit(per_example(THEIRS, jax.vmap, jax.grad))(p, x)
    compare(per_example(OURS, xlapy.vmap, xlapy.grad)(p, x), theirs, dtype)


@pytest.mark.parametrize(("name", "dtype"), FURTHER)
def test_hessian_vector_products(name: str, dtype: str) -> None:
    model = MODELS[name]
    p, x = parameters(name, dtype)
    direction = xlapy.tree.map(
        lambda w: np.cos(np.arange(w.size)).reshape(w.shape).astype(dtype), p
    )

    with doubles(dtype):
        theirs = jax.jit(
            lambda p, d: jax.jvp(jax.grad(lambda p: model(THEIRS, p, x)), (p,), (d,))[1]
        )(p, direction)

    def forward_over_reverse(p: Any, d: Any) -> Any:
        return xlapy.jvp(xlapy.grad(lambda p: model(OURS, p, x)), (p,), (d,))[1]

    def reverse_over_reverse(p: Any, d: Any) -> Any:
        def along(p: Any) -> Any:
            gradient = xlapy.grad(lambda p: model(OURS, p, x))(p)
            parts = xlapy.tree.map(lambda g, d: xlapy.sum(g * d), gradient, d)
            return sum(xlapy.tree.flatten(parts)[0])

        return xlapy.grad(along)(p)

    compare(xlapy.compile(forward_over_reverse)(p, direction), theirs, dtype)
    if dtype == "float64":
        compare(xlapy.compile(reverse_over_reverse)(p, direction), theirs, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_loop_whose_trips_are_counted_when_it_runs(dtype: str) -> None:
    def newton(f: Framework, x: Any) -> Any:
        """The square root, to where it no longer changes."""
        start = (x, x * 0)
        return f.while_loop(
            lambda s: f.np.abs(s[0] - s[1]) > 1e-3 * s[0],
            lambda s: (0.5 * (s[0] + x / s[0]), s[0]),
            start,
        )[0]

    x = np.array([0.3, 2.0, 50.0], dtype)
    with doubles(dtype):
        values = jax.jit(jax.vmap(lambda x: newton(THEIRS, x)))(x)
        tangents = jax.jit(jax.vmap(jax.jacfwd(lambda x: newton(THEIRS, x))))(x)
    compare(xlapy.vmap(lambda x: newton(OURS, x))(x), values, dtype)
    compare(xlapy.vmap(xlapy.jacfwd(lambda x: newton(OURS, x)))(x), tangents, dtype)
    # In reverse jax has no such gradient.
    compare(xlapy.vmap(xlapy.grad(lambda x: newton(OURS, x)))(x), tangents, dtype)
