"""An array front end for XLA."""

import xlapy.backends.eager as _eager  # noqa: F401 - says how operations run outside a trace
from xlapy import ops as ops
from xlapy import tree as tree
from xlapy.backends.registry import devices as devices
from xlapy.backends.registry import register_backend as register_backend
from xlapy.backends.registry import use_backend as use_backend
from xlapy.tensor import Tensor as Tensor
from xlapy.trace.builder import XlaBuilder as XlaBuilder
