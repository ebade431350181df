"""Every operation of XLA: one record each, and a public function beside it."""

from xlapy.ops.creation import constant, iota
from xlapy.ops.elementwise import add, div, mul, neg, sub
from xlapy.ops import shaping
from xlapy.ops.gradient_control import stop_gradient
