"""The programs that the benchmarks measure, written once for any numpy-like namespace.

Each takes the array namespace as its first argument, `xlapy` or `jax.numpy`, so that both sides run
the same text. Parameters are nested dicts of numpy arrays until a side converts them.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

Parameters = dict[str, Any]

# A small decoder: what is measured is the cost of tracing it, which does not depend on the sizes.
LAYERS = 12
HEADS = 4
WIDTH = 64
LENGTH = 16
VOCABULARY = 128
BATCH = 2


def mlp_parameters(sizes: tuple[int, ...] = (784, 256, 256, 10)) -> Parameters:
    """Weights of a multilayer perceptron, He-initialised, by layer."""
    generator = np.random.default_rng(0)
    return {
        f"layer{i}": {
            "weight": (generator.standard_normal((n, m)) * np.sqrt(2 / n)).astype(np.float32),
            "bias": np.zeros(m, np.float32),
        }
        for i, (n, m) in enumerate(pairwise(sizes))
    }


def mlp(xp: Any, parameters: Parameters, x: Any) -> Any:
    """Logits of a multilayer perceptron with ReLU between its layers."""
    last = len(parameters) - 1
    for i in range(last + 1):
        layer = parameters[f"layer{i}"]
        x = x @ layer["weight"] + layer["bias"]
        if i < last:
            x = xp.maximum(x, 0.0)
    return x


def log_softmax(xp: Any, logits: Any) -> Any:
    """Logarithms of the probabilities along the last axis."""
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def mlp_loss(xp: Any, parameters: Parameters, x: Any, one_hot: Any) -> Any:
    """Mean cross-entropy of the perceptron's logits."""
    return -xp.mean(xp.sum(log_softmax(xp, mlp(xp, parameters, x)) * one_hot, axis=-1))


def mlp_batch(size: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """A batch of inputs and one-hot labels."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((size, 784)).astype(np.float32)
    return x, np.eye(10, dtype=np.float32)[generator.integers(0, 10, size)]


def adam_state(parameters: Parameters) -> Parameters:
    """First and second moments for each parameter, and the count of steps taken."""

    def zeros(tree: Parameters) -> Parameters:
        return {k: zeros(v) if isinstance(v, dict) else np.zeros_like(v) for k, v in tree.items()}

    return {"mean": zeros(parameters), "square": zeros(parameters), "count": np.float32(0.0)}


def training_step(
    xp: Any, value_and_grad: Callable[..., Any], tree_map: Callable[..., Any]
) -> Callable[..., Any]:
    """One step of Adam on the perceptron: (parameters, state, x, one_hot) -> the new ones, loss."""

    def loss(parameters: Parameters, x: Any, one_hot: Any) -> Any:
        return mlp_loss(xp, parameters, x, one_hot)

    def step(parameters: Parameters, state: Parameters, x: Any, one_hot: Any) -> Any:
        value, gradient = value_and_grad(loss)(parameters, x, one_hot)
        count = state["count"] + 1.0
        mean = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
        square = tree_map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], gradient)
        rate = 1e-3 * xp.sqrt(1.0 - 0.999**count) / (1.0 - 0.9**count)
        parameters = tree_map(
            lambda p, m, s: p - rate * m / (xp.sqrt(s) + 1e-8), parameters, mean, square
        )
        return parameters, {"mean": mean, "square": square, "count": count}, value

    return step


def cnn_parameters(channels: tuple[int, ...] = (16, 32)) -> Parameters:
    """Weights of two convolutions with batch normalisation, and of a dense layer."""
    generator = np.random.default_rng(4)
    parameters: Parameters = {}
    for i, (n, m) in enumerate(pairwise((1, *channels))):
        parameters[f"layer{i}"] = {
            "weight": generator.normal(0, (2 / (9 * n)) ** 0.5, (3, 3, n, m)).astype(np.float32),
            "scale": np.ones(m, np.float32),
            "offset": np.zeros(m, np.float32),
        }
    features = 7 * 7 * channels[-1]
    parameters["dense"] = {
        "weight": generator.normal(0, features**-0.5, (features, 10)).astype(np.float32),
        "bias": np.zeros(10, np.float32),
    }
    return parameters


def cnn_batch(size: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Images of 28 x 28 pixels and one-hot labels."""
    generator = np.random.default_rng(5)
    x = generator.standard_normal((size, 28, 28, 1)).astype(np.float32)
    return x, np.eye(10, dtype=np.float32)[generator.integers(0, 10, size)]


def cnn_loss(xp: Any, parameters: Parameters, x: Any, one_hot: Any) -> Any:
    """Mean cross-entropy of a small convolutional network, of xlapy's own operations."""
    ops = xp.ops
    for name in ("layer0", "layer1"):
        layer = parameters[name]
        x = ops.conv_general_dilated(
            x, layer["weight"], (1, 1), "SAME", dimension_numbers="b01f_01io->b01f"
        )
        x = ops.batch_norm_training(x, layer["scale"], layer["offset"], 1e-5, 3)[0]
        x = xp.maximum(x, 0.0)
        x = ops.reduce_window(x, float("-inf"), ops.max, (1, 2, 2, 1), (1, 2, 2, 1))
    dense = parameters["dense"]
    logits = xp.reshape(x, (x.shape[0], -1)) @ dense["weight"] + dense["bias"]
    return -xp.mean(xp.sum(log_softmax(xp, logits) * one_hot, axis=-1))


def cnn_step(xp: Any) -> Callable[..., Any]:
    """One step of gradient descent on the network: (parameters, x, one_hot) -> the new ones, loss."""

    def step(parameters: Parameters, x: Any, one_hot: Any) -> Any:
        value, gradient = xp.value_and_grad(lambda p: cnn_loss(xp, p, x, one_hot))(parameters)
        return xp.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient), value

    return step


def transformer_parameters(layers: int = LAYERS) -> Parameters:
    """Weights of a decoder-only transformer."""
    generator = np.random.default_rng(2)

    def matrix(*shape: int) -> np.ndarray:
        return (generator.standard_normal(shape) * 0.02).astype(np.float32)

    def norm() -> Parameters:
        return {"scale": np.ones(WIDTH, np.float32), "shift": np.zeros(WIDTH, np.float32)}

    def block() -> Parameters:
        return {
            "norm1": norm(),
            "query": matrix(WIDTH, WIDTH),
            "key": matrix(WIDTH, WIDTH),
            "value": matrix(WIDTH, WIDTH),
            "output": matrix(WIDTH, WIDTH),
            "norm2": norm(),
            "up": matrix(WIDTH, 4 * WIDTH),
            "up_bias": np.zeros(4 * WIDTH, np.float32),
            "down": matrix(4 * WIDTH, WIDTH),
            "down_bias": np.zeros(WIDTH, np.float32),
        }

    return {
        "embedding": matrix(VOCABULARY, WIDTH),
        "position": matrix(LENGTH, WIDTH),
        "blocks": [block() for _ in range(layers)],
        "norm": norm(),
    }


def layer_norm(xp: Any, parameters: Parameters, x: Any) -> Any:
    """Normalisation over the last axis, with a learned scale and shift."""
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + 1e-5) * parameters["scale"] + parameters["shift"]


def gelu(xp: Any, x: Any) -> Any:
    """Gaussian error linear unit, in the form with tanh."""
    return 0.5 * x * (1.0 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def attention(xp: Any, parameters: Parameters, x: Any, mask: Any) -> Any:
    """Causal self-attention over the heads."""
    batch, length, width = x.shape

    def heads(y: Any) -> Any:
        return xp.permute_dims(xp.reshape(y, (batch, length, HEADS, width // HEADS)), (0, 2, 1, 3))

    query = heads(x @ parameters["query"])
    key = heads(x @ parameters["key"])
    value = heads(x @ parameters["value"])
    scores = query @ xp.permute_dims(key, (0, 1, 3, 2)) * (width // HEADS) ** -0.5
    weights = xp.exp(log_softmax(xp, xp.where(mask, scores, -1e9)))
    mixed = xp.reshape(xp.permute_dims(weights @ value, (0, 2, 1, 3)), (batch, length, width))
    return mixed @ parameters["output"]


def transformer_loss(xp: Any, parameters: Parameters, tokens: Any, targets: Any) -> Any:
    """Mean cross-entropy of the next token; tokens and targets are i32[BATCH, LENGTH]."""
    positions = xp.arange(LENGTH)
    mask = positions[:, None] >= positions[None, :]
    x = parameters["embedding"][tokens] + parameters["position"]
    for block in parameters["blocks"]:
        x = x + attention(xp, block, layer_norm(xp, block["norm1"], x), mask)
        hidden = gelu(xp, layer_norm(xp, block["norm2"], x) @ block["up"] + block["up_bias"])
        x = x + hidden @ block["down"] + block["down_bias"]
    logits = layer_norm(xp, parameters["norm"], x) @ xp.permute_dims(
        parameters["embedding"], (1, 0)
    )
    chosen = xp.take_along_axis(log_softmax(xp, logits), targets[..., None], axis=-1)
    return -xp.mean(chosen)


def transformer_batch() -> tuple[np.ndarray, np.ndarray]:
    """Tokens and the tokens that follow them."""
    text = np.random.default_rng(3).integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype(np.int32)
    return text[:, :-1].copy(), text[:, 1:].copy()


def chain(xp: Any, x: Any, y: Any, operations: int = 3000) -> Any:
    """`operations` elementwise operations, one after the other."""
    for i in range(operations):
        match i % 3:
            case 0:
                x = xp.sin(x)
            case 1:
                x = x * y
            case _:
                x = x + y
    return x


def chain_loss(xp: Any, x: Any, y: Any) -> Any:
    """The sum of the chain's result: what the gradient of a long program is measured on."""
    return xp.sum(chain(xp, x, y))


def many_arrays(count: int = 50) -> dict[str, np.ndarray]:
    """A dict of small arrays."""
    return {f"array{i}": np.full(8, i, np.float32) for i in range(count)}


def sum_of_arrays(arrays: dict[str, Any]) -> Any:
    """One result that depends on each array of a dict."""
    names = sorted(arrays)
    total = arrays[names[0]]
    for name in names[1:]:
        total = total + arrays[name]
    return total
