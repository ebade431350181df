"""Every operation of XLA: one record each, and a public function beside it."""

import xlapy.ops.approximate_top_k
import xlapy.ops.bitcasts
import xlapy.ops.internal
import xlapy.ops.shape_calls
import xlapy.ops.sharding_annotations
from xlapy.ops import shaping, spellings
from xlapy.ops.accuracy import (
    ResultAccuracy,
)
from xlapy.ops.callbacks import python_callback
from xlapy.ops.calls import call, composite_call
from xlapy.ops.channels import recv, recv_done, send, send_done
from xlapy.ops.collective_permute import collective_broadcast, collective_permute
from xlapy.ops.collective_reductions import all_reduce, cross_replica_sum, reduce_scatter
from xlapy.ops.collectives import all_gather, all_to_all
from xlapy.ops.comparison import (
    compare,
    eq,
    eq_total_order,
    ge,
    ge_total_order,
    gt,
    gt_total_order,
    le,
    le_total_order,
    lt,
    lt_total_order,
    ne,
    ne_total_order,
)
from xlapy.ops.contraction import DotDimensionNumbers, dot, dot_general
from xlapy.ops.control_flow import conditional, while_
from xlapy.ops.conv import (
    conv,
    conv_general,
    conv_general_dilated,
    conv_with_general_dimensions,
    conv_with_general_padding,
)
from xlapy.ops.conversion import (
    bitcast_convert_type,
    convert,
    convert_element_type,
    imag,
    real,
    reduce_precision,
)
from xlapy.ops.convolution import ConvolutionDimensionNumbers
from xlapy.ops.creation import constant, iota
from xlapy.ops.custom import custom_call, register_custom_call
from xlapy.ops.device_ids import partition_id, replica_id
from xlapy.ops.dot_algorithm import DotAlgorithm
from xlapy.ops.dynamic import dynamic_reshape, get_dimension_size, set_dimension_size
from xlapy.ops.dynamic_convolution import dynamic_conv
from xlapy.ops.dynamic_filling import dynamic_broadcast_in_dim, dynamic_iota
from xlapy.ops.dynamic_gather import dynamic_gather
from xlapy.ops.dynamic_movement import dynamic_pad, real_dynamic_slice
from xlapy.ops.elementwise import (
    add,
    and_,
    atan2,
    complex,
    div,
    max,
    min,
    mul,
    mulhi,
    neg,
    next_after,
    or_,
    pow,
    rem,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    sub,
    xor,
)
from xlapy.ops.elementwise_unary import (
    abs,
    cbrt,
    ceil,
    clz,
    cos,
    exp,
    expm1,
    floor,
    is_finite,
    log,
    log1p,
    logistic,
    not_,
    population_count,
    round,
    round_nearest_afz,
    round_nearest_even,
    rsqrt,
    sign,
    sin,
    sqrt,
    tan,
    tanh,
)
from xlapy.ops.fft import fft
from xlapy.ops.gather import GatherDimensionNumbers, gather
from xlapy.ops.gradient_control import stop_gradient
from xlapy.ops.indexing import dynamic_slice, dynamic_update_slice, slice
from xlapy.ops.joining import concat_in_dim, concatenate, pad
from xlapy.ops.linalg import cholesky, triangular_solve
from xlapy.ops.mapping import map
from xlapy.ops.normalization import batch_norm_grad, batch_norm_inference, batch_norm_training
from xlapy.ops.ragged_all_to_all import ragged_all_to_all
from xlapy.ops.ragged_dot import RaggedDotDimensionNumbers, ragged_dot
from xlapy.ops.reduction import (
    argmax,
    argmin,
    reduce,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
)
from xlapy.ops.rng import rng_bit_generator, rng_normal, rng_uniform
from xlapy.ops.scaled_dot import scaled_dot
from xlapy.ops.scanning import scan
from xlapy.ops.scatter import ScatterDimensionNumbers, scatter
from xlapy.ops.selection import clamp, select
from xlapy.ops.shaping import broadcast, broadcast_in_dim, collapse, reshape, rev, transpose
from xlapy.ops.sorting import sort, top_k
from xlapy.ops.special import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bessel_i1e,
    conj,
    cosh,
    digamma,
    erf,
    erf_inv,
    erfc,
    is_inf,
    is_neg_inf,
    is_pos_inf,
    lgamma,
    polygamma,
    sinh,
    square,
    zeta,
)
from xlapy.ops.structure import copy, get_tuple_element, optimization_barrier, tuple
from xlapy.ops.tokens import after_all, create_token, infeed, outfeed
from xlapy.ops.window_selection import select_and_scatter
from xlapy.ops.windows import reduce_window
