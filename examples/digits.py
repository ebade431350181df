"""Train a classifier of handwritten digits, export it, and run the artifact on two backends.

The perceptron and its optimiser, Adam, are written out below: parameters are nested dicts, the
training step is one compiled program, and the artifact is StableHLO that other frameworks load.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import trange

import xlapy

matplotlib.use("Agg")  # draws into files; needs no screen
import matplotlib.pyplot as plt

Parameters = dict[str, dict[str, Any]]

BATCH = 64
RATE = 2e-3
REQUIRED_ACCURACY = 0.96
REQUIRED_AGREEMENT = 1e-5


def initial_parameters(sizes: tuple[int, ...] = (64, 128, 64, 10)) -> Parameters:
    """He-initialised weights and zero biases, layer by layer."""
    generator = np.random.default_rng(0)
    parameters = {}
    for i, inputs in enumerate(sizes[:-1]):
        outputs = sizes[i + 1]
        weight = generator.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)
        parameters[f"layer{i}"] = {
            "weight": xlapy.asarray(weight.astype(np.float32)),
            "bias": xlapy.zeros(outputs),
        }
    return parameters


def logits(parameters: Parameters, images: xlapy.Tensor) -> xlapy.Tensor:
    """f32[n, 64] -> f32[n, 10]: what the softmax turns into probabilities."""
    x = images
    for i in range(len(parameters)):
        if i > 0:
            x = xlapy.maximum(x, 0)
        layer = parameters[f"layer{i}"]
        x = x @ layer["weight"] + layer["bias"]
    return x


def log_probabilities(parameters: Parameters, images: xlapy.Tensor) -> xlapy.Tensor:
    """Logarithms of the ten classes' probabilities."""
    x = logits(parameters, images)
    x = x - xlapy.max(x, axis=-1, keepdims=True)
    return x - xlapy.log(xlapy.sum(xlapy.exp(x), axis=-1, keepdims=True))


def loss(parameters: Parameters, images: xlapy.Tensor, one_hot: xlapy.Tensor) -> xlapy.Tensor:
    """Mean cross-entropy."""
    chosen = xlapy.sum(log_probabilities(parameters, images) * one_hot, axis=-1)
    return -xlapy.mean(chosen)


@xlapy.compile
def train_step(
    parameters: Parameters, moments: dict[str, Any], images: xlapy.Tensor, one_hot: xlapy.Tensor
) -> tuple[Parameters, dict[str, Any], xlapy.Tensor]:
    """One step of Adam: the new parameters, the new moments, and the loss before the step."""
    value, gradient = xlapy.value_and_grad(loss)(parameters, images, one_hot)
    count = moments["count"] + 1
    mean = xlapy.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments["mean"], gradient)
    square = xlapy.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, moments["square"], gradient)
    rate = RATE * xlapy.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    parameters = xlapy.tree.map(
        lambda p, m, s: p - rate * m / (xlapy.sqrt(s) + 1e-8), parameters, mean, square
    )
    return parameters, {"mean": mean, "square": square, "count": count}, value


def train(images: np.ndarray, labels: np.ndarray, epochs: int) -> tuple[Parameters, list[float]]:
    """The trained parameters, and the mean loss of each epoch."""
    parameters = initial_parameters()
    zeros = xlapy.tree.map(xlapy.zeros_like, parameters)
    moments = {"mean": zeros, "square": zeros, "count": xlapy.asarray(0.0)}
    one_hot = np.eye(10, dtype=np.float32)[labels]
    generator = np.random.default_rng(1)
    curve = []
    for _ in (progress := trange(epochs, desc="training", unit="epoch")):
        losses = []
        order = generator.permutation(len(images))
        # Whole batches only: one shape, so one program.
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            parameters, moments, value = train_step(
                parameters, moments, xlapy.asarray(images[batch]), xlapy.asarray(one_hot[batch])
            )
            losses.append(value)
        curve.append(float(np.mean([float(value) for value in losses])))
        progress.set_postfix(loss=f"{curve[-1]:.4f}")
    return parameters, curve


def draw(curve: list[float], path: Path) -> None:
    """The loss of each epoch, as a picture."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.semilogy(range(1, len(curve) + 1), curve)
    axes.set(title="Handwritten digits", xlabel="epoch", ylabel="mean cross-entropy")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> int:
    """Train, draw, export and compare; 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--output", type=Path, default=Path("build"), help="where files go")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    digits = load_digits()
    images, test_images, labels, test_labels = train_test_split(
        (digits.data / 16).astype(np.float32),
        digits.target,
        test_size=0.2,
        random_state=0,
        stratify=digits.target,
    )
    parameters, curve = train(images, labels, arguments.epochs)
    picture = arguments.output / "digits_loss.png"
    draw(curve, picture)
    print(
        f"loss {curve[0]:.4f} -> {curve[-1]:.4f} in {len(curve)} epochs "
        f"({train_step.traces} trace, {train_step.compiles} compilation); drawn in {picture}"
    )

    def probabilities(images: xlapy.Tensor) -> xlapy.Tensor:
        return xlapy.exp(log_probabilities(parameters, images))

    artifact = arguments.output / "digits.mlirbc"
    xlapy.export(probabilities, xlapy.TensorSpec(test_images.shape, "f32")).save(artifact)
    print(f"exported to {artifact} ({artifact.stat().st_size} bytes)")

    model = xlapy.from_stablehlo(artifact)
    results = {
        backend: np.asarray(model(test_images, backend=backend))
        for backend in ("pjrt:cpu", "interpreter")
    }
    accuracies = {
        backend: float(np.mean(result.argmax(axis=1) == test_labels))
        for backend, result in results.items()
    }
    for backend, accuracy in accuracies.items():
        print(f"test accuracy of the artifact on {backend:<12} {accuracy:.4f}")
    difference = float(np.abs(results["pjrt:cpu"] - results["interpreter"]).max())
    print(f"largest difference between the backends' probabilities: {difference:.1e}")

    failures = []
    if min(accuracies.values()) < REQUIRED_ACCURACY:
        failures.append(f"the accuracy must be at least {REQUIRED_ACCURACY}")
    if not difference <= REQUIRED_AGREEMENT:
        failures.append(f"the backends must agree to {REQUIRED_AGREEMENT}")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
