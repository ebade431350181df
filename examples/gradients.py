"""Derivatives: gradients over nested parameters, both modes, higher orders, and loops."""

import numpy as np

import xlapy


def polynomial(x: xlapy.Tensor) -> xlapy.Tensor:
    """x^3, of which every derivative is known."""
    return x**3


x = xlapy.asarray(2.0)
first = xlapy.grad(polynomial)
second = xlapy.grad(first)
print("x^3 and its derivatives at 2:", [float(f(x)) for f in (polynomial, first, second)])

# Forward and reverse mode; vmap turns a gradient at one point into one at each.
print("jvp:", xlapy.jvp(polynomial, (x,), (xlapy.asarray(1.0),)))
points = xlapy.linspace(0.0, 1.0, 5)
print("gradients at many points:", xlapy.vmap(first)(points))


# Parameters may be nested; the gradient has their structure.
def loss(parameters: dict[str, xlapy.Tensor], x: xlapy.Tensor, y: xlapy.Tensor) -> xlapy.Tensor:
    """Mean squared error of a line."""
    return xlapy.mean((parameters["slope"] * x + parameters["offset"] - y) ** 2)


@xlapy.compile
def step(
    parameters: dict[str, xlapy.Tensor], x: xlapy.Tensor, y: xlapy.Tensor
) -> dict[str, xlapy.Tensor]:
    """One step of gradient descent."""
    gradient = xlapy.grad(loss)(parameters, x, y)
    return xlapy.tree.map(lambda p, g: p - 0.5 * g, parameters, gradient)


line = {"slope": xlapy.asarray(0.0), "offset": xlapy.asarray(0.0)}
for _ in range(100):
    line = step(line, points, 3 * points - 1)
print("fitted 3 x - 1:", {name: round(float(value), 3) for name, value in line.items()})


# A loop whose trip count is known only when it runs has a gradient in reverse mode too.
def newton_root(a: xlapy.Tensor) -> xlapy.Tensor:
    """The square root of a, by Newton's iteration."""

    def unfinished(x: xlapy.Tensor) -> xlapy.Tensor:
        return xlapy.abs(x * x - a) > 1e-5 * a

    return xlapy.while_loop(unfinished, lambda x: (x + a / x) / 2, a)


root, slope = xlapy.value_and_grad(newton_root)(xlapy.asarray(9.0))
print("sqrt(9) by iteration:", float(root), "its derivative:", float(slope))
assert np.allclose([float(root), float(slope)], [3.0, 1 / 6], atol=1e-4)
