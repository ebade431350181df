"""Every operation of XLA: one record each, and a public function beside it."""

from xlapy.ops.creation import constant, iota
from xlapy.ops.elementwise import add, div, mul, neg, sub
from xlapy.ops import shaping
from xlapy.ops.gradient_control import stop_gradient

from xlapy.ops.joining import concat_in_dim, concatenate, pad

from xlapy.ops.indexing import dynamic_slice, dynamic_update_slice, slice

from xlapy.ops.shaping import rev

from xlapy.ops.structure import copy, get_tuple_element, optimization_barrier, tuple

from xlapy.ops.control_flow import call, composite_call, conditional, while_
