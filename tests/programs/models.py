"""Models and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlapy
from programs import Array, Program, normal, whole
from xlapy import ops


def perceptron(p: dict[str, Any], x: Any, target: Any) -> Any:
    """The loss of two dense layers."""
    hidden = xlapy.tanh(x @ p["w"] + p["b"])
    scores = xlapy.log_softmax(hidden @ p["v"] + p["c"])
    return -xlapy.mean(xlapy.sum(scores * xlapy.one_hot(target, 5), axis=-1))


PERCEPTRON = {
    "w": normal(6, 8, seed=1), "b": normal(8, seed=2), "v": normal(8, 5, seed=3), "c": normal(5, seed=4),
}  # fmt: skip


def max_pool(x: Any) -> Any:
    """Windows of 2 x 2 of NHWC."""
    return ops.reduce_window(x, -np.inf, ops.max, (1, 2, 2, 1), (1, 2, 2, 1), "kValid")


def convolutional(p: dict[str, Any], x: Any) -> Any:
    """The loss of convolutions with batch norm and pooling."""
    y = ops.conv_general_dilated(x, p["k"], (1, 1), "SAME", dimension_numbers="b01f_01io->b01f")
    y, _, _ = ops.batch_norm_training(y, p["scale"], p["offset"], 1e-3, 3)
    y = max_pool(xlapy.relu(y))
    y = ops.conv_general_dilated(y, p["l"], (2, 2), "SAME", dimension_numbers="b01f_01io->b01f")
    return xlapy.sum(xlapy.mean(y, axis=(1, 2)) ** 2)


CONVOLUTIONAL = {
    "k": normal(3, 3, 2, 4, seed=1), "scale": normal(4, seed=2), "offset": normal(4, seed=3),
    "l": normal(3, 3, 4, 3, seed=4),
}  # fmt: skip


def cell(w: Any, u: Any, h: Any, x: Any) -> Any:
    """A step of a recurrent network."""
    return xlapy.tanh(x @ w + h @ u)


def recurrent_fori(w: Any, u: Any, xs: Any) -> Any:
    """By fori_loop; the gradient is of this one."""
    h = xlapy.zeros((3, 5))
    return xlapy.sum(xlapy.fori_loop(0, 4, lambda i, h: cell(w, u, h, xs[i]), h) ** 2)


def recurrent_while(w: Any, u: Any, xs: Any) -> Any:
    """Until the state is large, or the inputs are at an end."""
    more = lambda s: xlapy.logical_and(s[0] < 4, xlapy.sum(s[1] * s[1]) < 9.0)  # noqa: E731
    step = lambda s: (s[0] + 1, cell(w, u, s[1], xs[s[0]]))  # noqa: E731
    return xlapy.while_loop(more, step, (0, xlapy.zeros((3, 5))))


def recurrent_scan(w: Any, u: Any, xs: Any) -> Any:
    """By the operation for it."""

    def step(x: Any, h: Any) -> Any:
        h = cell(w, u, h, x)
        return h, h

    return ops.scan([xs], [xlapy.zeros((3, 5))], step)


RECURRENT = [normal(4, 5, seed=1), normal(5, 5, seed=2), normal(4, 3, 4, seed=3)]


def layer_norm(x: Any, scale: Any, offset: Any) -> Any:
    """Over the last axis."""
    mean = xlapy.mean(x, axis=-1, keepdims=True)
    variance = xlapy.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * ops.rsqrt(variance + 1e-5) * scale + offset


def block(p: dict[str, Any], x: Any) -> Any:
    """Attention of two heads, causal, and a dense part."""
    batch, length, width = x.shape
    y = layer_norm(x, p["s1"], p["o1"])
    q, k, v = (
        xlapy.permute_dims(xlapy.reshape(y @ p[n], (batch, length, 2, width // 2)), (0, 2, 1, 3))
        for n in ("q", "k", "v")
    )
    scores = q @ xlapy.matrix_transpose(k) / np.float32(np.sqrt(width // 2))
    scores = xlapy.where(xlapy.tril(xlapy.ones((length, length), dtype="bool")), scores, -1e9)
    mixed = xlapy.permute_dims(xlapy.softmax(scores) @ v, (0, 2, 1, 3))
    x = x + xlapy.reshape(mixed, (batch, length, width)) @ p["o"]
    y = layer_norm(x, p["s2"], p["o2"])
    return x + xlapy.gelu(y @ p["up"], approximate=True) @ p["down"]


def transformer(p: Any, tokens: Any) -> Any:
    """The loss of predicting the next token."""
    x = xlapy.take(p["embedding"], tokens, axis=0)
    for each in p["blocks"]:
        x = block(each, x)
    scores = xlapy.log_softmax(x @ xlapy.matrix_transpose(p["embedding"]))
    chosen = scores[:, :-1] * xlapy.one_hot(tokens[:, 1:], 11)
    return -xlapy.mean(xlapy.sum(chosen, axis=-1))


def _block_weights(seed: int) -> dict[str, Array]:
    shapes = {
        "s1": (8,), "o1": (8,), "s2": (8,), "o2": (8,), "q": (8, 8), "k": (8, 8), "v": (8, 8), "o": (8, 8),
        "up": (8, 16), "down": (16, 8),
    }  # fmt: skip
    return {n: normal(*s, seed=seed + i) / 2 for i, (n, s) in enumerate(shapes.items())}


TRANSFORMER = {
    "embedding": normal(11, 8, seed=5), "blocks": [_block_weights(10), _block_weights(30)],
}  # fmt: skip


def training(p: Any, x: Any, target: Any) -> Any:
    """Some steps of descent in a loop."""

    def step(i: Any, p: Any) -> Any:
        slopes = xlapy.grad(perceptron)(p, x, target)
        return xlapy.tree.map(lambda v, g: v - 0.1 * g, p, slopes)

    return xlapy.fori_loop(0, 3, step, p)


MODELS = {
    "mlp": Program(perceptron, [PERCEPTRON, normal(4, 6), whole(4, high=5)]),
    "mlp_gradient": Program(xlapy.value_and_grad(perceptron), [PERCEPTRON, normal(4, 6), whole(4, high=5)]),
    "mlp_training": Program(training, [PERCEPTRON, normal(4, 6), whole(4, high=5)]),
    "cnn_gradient": Program(xlapy.value_and_grad(convolutional), [CONVOLUTIONAL, normal(2, 8, 8, 2)]),
    "rnn_fori_gradient": Program(xlapy.grad(recurrent_fori), RECURRENT),
    "rnn_while": Program(recurrent_while, RECURRENT),
    "rnn_scan": Program(recurrent_scan, RECURRENT),
    "rnn_scan_gradient": Program(
        xlapy.grad(lambda *a: xlapy.sum(recurrent_scan(*a)[0] ** 2)), RECURRENT
    ),
    "transformer": Program(transformer, [TRANSFORMER, whole(2, 5, high=11)]),
    "transformer_gradient": Program(xlapy.grad(transformer), [TRANSFORMER, whole(2, 5, high=11)]),
    "transformer_vmap": Program(
        xlapy.vmap(transformer, in_axes=(None, 0)), [TRANSFORMER, whole(2, 2, 5, high=11)]
    ),
}  # fmt: skip
