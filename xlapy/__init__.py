"""An array front end for XLA: a numpy-like `Tensor` that runs eagerly or is compiled.

See README.md for a tour, and `xlapy.ops` for the operations of HLO.
"""

from xlapy import ops as ops
from xlapy import tree as tree
from xlapy.backends.registry import devices as devices
from xlapy.backends.registry import register_backend as register_backend
from xlapy.backends.registry import use_backend as use_backend
from xlapy.compilation import clear_caches as clear_caches
from xlapy.compilation import compile as compile
from xlapy.differentiation import grad as grad
from xlapy.differentiation import hessian as hessian
from xlapy.differentiation import jacfwd as jacfwd
from xlapy.differentiation import jacrev as jacrev
from xlapy.differentiation import jvp as jvp
from xlapy.differentiation import stop_gradient as stop_gradient
from xlapy.differentiation import value_and_grad as value_and_grad
from xlapy.differentiation import vjp as vjp
from xlapy.interchange.export import Artifact as Artifact
from xlapy.interchange.export import export as export
from xlapy.interchange.imported import from_stablehlo as from_stablehlo
from xlapy.specs import TensorSpec as TensorSpec
from xlapy.tensor import Tensor as Tensor
from xlapy.trace.builder import XlaBuilder as XlaBuilder
from xlapy.vectorization import vmap as vmap
