"""HLO text, from before and after XLA's optimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import grad, ops, vmap
from xlapy.errors import ArtifactError, UnsupportedOpError
from xlapy.interchange.hlo import from_hlo

FUSION = """HloModule m
f {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  n = f32[4] sine(a)
  s = f32[4] multiply(n, b)
  ROOT t = (f32[4], f32[4]) tuple(n, s)
}
ENTRY e {
  p = f32[4] parameter(0)
  q = (f32[4], f32[4]) fusion(p, p), kind=kLoop, calls=f
  ROOT g = f32[4] get-tuple-element(q), index=1
}"""

ASYNC = """HloModule m
c {
  q = f32[4] parameter(0)
  s = f32[4] sine(q)
  ROOT n = f32[4] multiply(s, q)
}
ENTRY e {
  p = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) async-start(p), calls=c
  u = ((f32[4]), f32[4], u32[]) async-update(s)
  ROOT d = f32[4] async-done(u)
}"""

CALL_ASYNC = ASYNC.replace("async-start(p), calls=c", "call-start(p), to_apply=c").replace(
    "async-", "call-"
)

COPY = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  n = f32[4] sine(p)
  s = (f32[4], f32[4], u32[]) copy-start(n)
  d = f32[4] copy-done(s)
  c = f32[4] copy(d)
  ROOT m = f32[4] multiply(c, p)
}"""

DOMAIN = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  n = f32[4] sine(p)
  d = f32[4] domain(n), domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}
  ROOT m = f32[4] multiply(d, p)
}"""

CALL = """HloModule m
f {
  a = f32[4] parameter(0)
  ROOT n = f32[4] sine(a)
}
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[4] call(p), to_apply=f, is_composite=true,
    frontend_attributes={composite.name="foo.bar",composite.attributes={n = 1 : i32},composite.version="1"}
  ROOT m = f32[4] multiply(c, p)
}"""

CONDITIONAL = """HloModule m
f {
  a = f32[4] parameter(0)
  ROOT n = f32[4] negate(a)
}
g {
  a = f32[4] parameter(0)
  ROOT n = f32[4] sine(a)
}
ENTRY e {
  p = f32[4] parameter(0)
  i = s32[] constant(1)
  y = f32[4] conditional(i, p, p), branch_computations={f, g}
  ROOT m = f32[4] multiply(y, p)
}"""

WHILE = """HloModule m
b {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  p = f32[4] get-tuple-element(s), index=2
  o = s32[] constant(1)
  j = s32[] add(i, o)
  y = f32[4] multiply(x, p)
  ROOT r = (s32[], f32[4], f32[4]) tuple(j, y, p)
}
c {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  o = s32[] constant(1)
  ROOT r = pred[] compare(i, o), direction=LT
}
ENTRY e {
  p = f32[4] parameter(0)
  n = f32[4] sine(p)
  z = s32[] constant(0)
  t = (s32[], f32[4], f32[4]) tuple(z, n, p)
  w = (s32[], f32[4], f32[4]) while(t), condition=c, body=b
  ROOT x = f32[4] get-tuple-element(w), index=1
}"""

PROGRAMS = {
    "fusion": FUSION, "async": ASYNC, "call_async": CALL_ASYNC, "copy": COPY, "domain": DOMAIN, "call": CALL,
    "conditional": CONDITIONAL, "while": WHILE,
}  # fmt: skip
X = np.array([0.5, -1.0, 2.0, 3.0], np.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    """Each of these computes x sin(x), here and in XLA; so do its derivative and its vectorised form."""
    f = from_hlo(PROGRAMS[name])
    for backend in ("interpreter", "pjrt:cpu"):
        np.testing.assert_allclose(f(X, backend=backend).numpy(), X * np.sin(X), rtol=1e-6)
        with xlapy.use_backend(backend):
            pick = lambda x: ops.reshape(ops.slice(f(x), (1,), (2,), (1,)), ())  # noqa: E731
            slope = np.where(np.arange(4) == 1, np.sin(X) + X * np.cos(X), 0)
            np.testing.assert_allclose(grad(pick)(X).numpy(), slope, rtol=1e-6)
            rows = vmap(f)(np.stack([X, X + 1]))
            np.testing.assert_allclose(
                rows.numpy(), np.stack([X * np.sin(X), (X + 1) * np.sin(X + 1)]), rtol=1e-5
            )


def test_bitcast():
    """Layouts say how memory is read."""
    text = """HloModule m
ENTRY e {
  p = f32[4,3]{0,1} parameter(0)
  b = f32[3,4]{1,0} bitcast(p)
  c = s32[12] bitcast(b)
  ROOT t = (f32[3,4], s32[12]) tuple(b, c)
}"""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for backend in ("interpreter", "pjrt:cpu"):
        turned, bits = from_hlo(text)(x, backend=backend)
        np.testing.assert_array_equal(turned.numpy(), x.T)
        np.testing.assert_array_equal(bits.numpy(), x.T.reshape(-1).view(np.int32))


def test_random_state():
    """A state that grows by delta, from which XLA's own generators draw."""
    text = "HloModule m\nENTRY e { ROOT d = u64[2] rng-get-and-update-state(), delta=4096 }"
    for backend in ("interpreter", "pjrt:cpu"):
        f = from_hlo(text)
        first, second = f(backend=backend).numpy(), f(backend=backend).numpy()
        assert int(second[0]) - int(first[0]) == 4096
        assert first[1] == second[1] == 0


def test_dependency():
    """A value that waits for a token is that value."""
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  t = token[] after-all()
  ROOT d = f32[4] add-dependency(p, t)
}"""
    for backend in ("interpreter", "pjrt:cpu"):
        np.testing.assert_array_equal(from_hlo(text)(X, backend=backend).numpy(), X)


def programs():
    """Functions whose optimised HLO holds fusions, loops and conditionals."""

    def loop(x):
        body = lambda i, y: (ops.add(i, 1), ops.tanh(ops.mul(y, x)))  # noqa: E731
        return ops.while_(lambda i, y: ops.lt(i, 5), body, (0, x))[1]

    def branch(x):
        index = ops.reshape(ops.convert_element_type(ops.slice(x, (0,), (1,), (1,)), "s32"), ())
        return ops.conditional(
            index, [ops.sin, lambda y: ops.exp(ops.mul(y, y)), ops.cos], [x, x, x]
        )

    return {
        "elementwise": lambda x: ops.tanh(ops.add(ops.mul(x, x), 1.0)),
        "loop": loop,
        "branch": branch,
        "gradient": lambda x: grad(lambda y: ops.reshape(ops.slice(loop(y), (0,), (1,), (1,)), ()))(
            x
        ),
        "transposed": lambda x: ops.sin(ops.transpose(ops.reshape(x, (2, 2)), (1, 0))),
    }


@pytest.mark.parametrize("name", programs())
def test_optimized(name):
    """What XLA makes of a program computes the same."""
    f = xlapy.compile(programs()[name])
    with xlapy.use_backend("pjrt:cpu"):
        x = ops.constant(X)
        executable = f.lower(x).compile()
        again = from_hlo(executable.optimized_hlo_text)
        wanted = f(x).numpy()
    for backend in ("interpreter", "pjrt:cpu"):
        np.testing.assert_allclose(again(X, backend=backend).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_library_calls():
    """LAPACK in optimised HLO runs in the interpreter."""
    text = """HloModule m
ENTRY e {
  p = f64[3,3]{0,1} parameter(0)
  c = (f64[3,3]{0,1}, s32[]) custom-call(p), custom_call_target="lapack_dpotrf_ffi",
    operand_layout_constraints={f64[3,3]{0,1}}, api_version=API_VERSION_TYPED_FFI,
    backend_config={uplo = 76 : ui8}, output_to_operand_aliasing={{0}: (0, {})}
  ROOT l = f64[3,3]{0,1} get-tuple-element(c), index=0
}"""
    x = np.array([[4.0, 2, 1], [2, 5, 3], [1, 3, 6]])
    for backend in ("interpreter", "pjrt:cpu"):
        found = from_hlo(text)(x, backend=backend).numpy()
        np.testing.assert_allclose(np.tril(found), np.linalg.cholesky(x), rtol=1e-12)


ONEDNN = """HloModule m
ENTRY e {
  p = f32[2,4,3] parameter(0)
  q = f32[2,5,4] parameter(1)
  m = f32[2,3,5] custom-call(p, q), custom_call_target="__onednn$matmul", backend_config={"onednn_matmul_config":MATMUL}
  ROOT s = f32[2,3,5] custom-call(m), custom_call_target="__onednn$softmax", backend_config=SOFTMAX
}"""
PRODUCT = '{"transpose_a":true,"transpose_b":true,"fusions":{"ops":[]}}'


def test_calls_of_another_library():
    """oneDNN's products and softmax, as XLA puts them into programs where it is built with it."""
    rng = np.random.default_rng(0)
    p, q = rng.random((2, 4, 3), np.float32), rng.random((2, 5, 4), np.float32)
    product = np.swapaxes(p, 1, 2) @ np.swapaxes(q, 1, 2)
    for config, axis in (('{"onednn_softmax_config":{"softmax_axis":1}}', 1), ("{}", -1)):
        text = ONEDNN.replace("MATMUL", PRODUCT).replace("SOFTMAX", config)
        found = xlapy.from_hlo(text)(p, q, backend="interpreter").numpy()
        wanted = np.exp(product) / np.exp(product).sum(axis, keepdims=True)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for config in (
        PRODUCT.replace("[]", '["BIAS"]'),
        '{"fused_ops":["RELU"],"transpose_a":true,"transpose_b":true}',
    ):
        text = ONEDNN.replace("MATMUL", config).replace("SOFTMAX", "{}")
        with pytest.raises(UnsupportedOpError, match="fused"):
            xlapy.from_hlo(text)(p, q, backend="interpreter")


def test_refuses():
    """Text that is no HLO, and a custom call that nobody knows."""
    with pytest.raises(ArtifactError, match="valid HLO"):
        from_hlo("HloModule m\nENTRY e { oops }")
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(p), custom_call_target="nobody_knows"
}"""
    f = from_hlo(text)
    with pytest.raises(UnsupportedOpError, match="nobody_knows"):
        f(X, backend="interpreter")


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int32, np.bool_, np.complex64, np.float16]
)
def test_constants_are_written_out(dtype: Any) -> None:
    """Before and after optimisation, to the bit: XLA's reader makes numbers up for those that are left out."""
    with np.errstate(all="ignore"):
        values = (np.arange(300).reshape(10, 30) / 7 - 3).astype(dtype)
    add = ops.ne if dtype is np.bool_ else ops.add
    with xlapy.use_backend("pjrt:cpu"):
        lowered = xlapy.compile(lambda x: add(x, ops.constant(values))).lower(np.zeros_like(values))
        texts = lowered.hlo_text, lowered.compile().optimized_hlo_text
    for text in texts:
        found = from_hlo(text)(np.zeros_like(values), backend="interpreter")
        np.testing.assert_array_equal(found.numpy(), values)


LEFT_OUT = """HloModule m
ENTRY e {
  p = f32[20] parameter(0)
  c = f32[20]{0} constant({...})
  ROOT s = f32[20] add(p, c)
}"""


@pytest.mark.parametrize(
    "text", [LEFT_OUT, LEFT_OUT.replace("{...}", "{{...}}"), LEFT_OUT.replace("  c = ", "  %c = ")]
)
def test_constants_that_are_left_out_are_refused(text: str) -> None:
    with pytest.raises(
        ArtifactError, match=r"values of constants .* line 4: constant.*\[X6\]\n.*xla_dump_large"
    ):
        from_hlo(text)
    named = LEFT_OUT.replace("constant({...})", 'sine(p), metadata={op_name="constant({...})"}')
    assert from_hlo(named)(np.zeros(20, np.float32)).shape == (20,)


def test_the_algorithm_that_jaxlib_does_not_convert_is_named() -> None:
    text = """HloModule m
ENTRY e {
  p = f32[2,2] parameter(0)
  ROOT d = f32[2,2] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32_x6
}"""
    algorithm = from_hlo(text).computation.instructions[0].params["algorithm"]
    assert algorithm.num_primitive_operations == 6
    with pytest.raises(ArtifactError, match=r"line 4: algorithm=dot_bf16_bf16_f32_x9, .*\[X6\]"):
        from_hlo(text.replace("x6", "x9"))
