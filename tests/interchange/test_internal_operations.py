"""What XLA itself puts into programs, written out in HLO: the interpreter and XLA give what is expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError, UnsupportedOpError

Array = np.ndarray[Any, Any]
BACKENDS = ("interpreter", "pjrt:cpu")

X = np.array([0.5, -1.0, 2.0, 3.0], np.float32)
M = np.arange(12, dtype=np.float32).reshape(4, 3)

#: computations that programs below name
COMPUTATIONS = """
product {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  n = f32[4] sine(a)
  ROOT s = f32[4] multiply(n, b)
}
begun {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
called {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
double {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
both {
  a = f32[4] parameter(0)
  b = f32[4] fusion(a), kind=kLoop, calls=double
  c = f32[4] negate(b)
  ROOT t = (f32[4], f32[4]) tuple(b, c)
}
one {
  a = f32[4] parameter(0)
  c = f32[4] negate(a)
  ROOT t = (f32[4]) tuple(c)
}
first {
  a = (f32[4], s32[]) parameter(0)
  b = f32[4] get-tuple-element(a), index=0
  ROOT c = f32[4] negate(b)
}
turn {
  a = f32[4,3]{1,0} parameter(0)
  ROOT b = f32[3,4]{0,1} transpose(a), dimensions={1,0}
}
count {
  ROOT a = s32[4] iota(), iota_dimension=0
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
step {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  c = f32[4] copy(x)
  y = f32[4] fusion(c), kind=kLoop, calls=double
  ROOT r = (s32[], f32[4]) tuple(j, y)
}
more {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  o = s32[] constant(3)
  ROOT r = pred[] compare(i, o), direction=LT
}
"""


@dataclass(frozen=True)
class Case:
    """The instructions of an entry, its arguments and its result or tuple of results."""

    body: str
    expected: Any
    arguments: tuple[Any, ...] = (X,)

    @property
    def text(self) -> str:
        """The module."""
        return f"HloModule m\n{COMPUTATIONS}ENTRY e {{\n{self.body}\n}}"


def asynchronous(
    opcode: str, attributes: str, operands: str = "p", kinds: str = "f32[4]", result: str = "f32[4]", before: str = ""
) -> str:  # fmt: skip
    """An instruction begun, looked at, and ended."""
    under_way = f"(({kinds}), {result}, u32[])"
    return f"""  p = f32[4] parameter(0)
  {before}
  s = {under_way} {opcode}-start({operands}){attributes}
  u = {under_way} {opcode}-update(s)
  v = {under_way} {opcode}-update(u)
  ROOT d = {result} {opcode}-done(v)"""


P = "  p = f32[4] parameter(0)\n"
TWO = "f32[4], f32[4]"

FUSIONS = {
    **{
        f"fusion_{kind}": Case(
            P + f"  ROOT q = f32[4] fusion(p, p), kind={kind}, calls=product", np.sin(X) * X
        )
        for kind in ("kLoop", "kInput", "kOutput", "kCustom")
    },
    "fusion_nested_of_several": Case(
        P + f"  ROOT q = ({TWO}) fusion(p), kind=kOutput, calls=both", (2 * X, -2 * X)
    ),
    "fusion_of_one_in_a_tuple": Case(
        P + "  q = (f32[4]) fusion(p), kind=kLoop, calls=one\n"
        "  ROOT g = f32[4] get-tuple-element(q), index=0", -X,
    ),
    "fusion_of_a_tuple": Case(
        "  p = (f32[4], s32[]) parameter(0)\n"
        "  ROOT q = f32[4] fusion(p), kind=kLoop, calls=first", -X, (X, np.int32(1)),
    ),
    "fusion_of_nothing": Case(
        "  ROOT q = s32[4] fusion(), kind=kLoop, calls=count", np.arange(4, dtype=np.int32), ()
    ),
    "fusion_in_another_layout": Case(
        "  p = f32[4,3]{1,0} parameter(0)\n  q = f32[3,4]{0,1} fusion(p), kind=kLoop, calls=turn\n"
        "  ROOT c = f32[3,4]{1,0} copy(q)", M.T, (M,),
    ),
    "fusion_that_shares_memory": Case(
        P + "  ROOT q = f32[4] fusion(p), kind=kLoop, calls=double, output_to_operand_aliasing={{}: (0, {})},"
        ' backend_config={"outer_dimension_partitions":["2"]}', 2 * X,
    ),
    "fusion_in_a_loop": Case(
        P + "  z = s32[] constant(0)\n  t = (s32[], f32[4]) tuple(z, p)\n"
        "  w = (s32[], f32[4]) while(t), condition=more, body=step,"
        ' backend_config={"known_trip_count":{"n":"3"}}\n'
        "  ROOT x = f32[4] get-tuple-element(w), index=1", 8 * X,
    ),
}  # fmt: skip

ASYNCHRONOUS = {
    "async": Case(asynchronous("async", ", calls=product", "p, p", TWO), np.sin(X) * X),
    "async_of_several": Case(
        asynchronous("async", ", calls=both", result=f"({TWO})"), (2 * X, -2 * X)
    ),
    "async_call": Case(asynchronous("call", ", to_apply=called"), 2 * X),
    "async_fusion": Case(asynchronous("fusion", ", kind=kLoop, calls=double"), 2 * X),
    "async_fusion_of_several": Case(
        asynchronous("fusion", ", kind=kLoop, calls=both", result=f"({TWO})"), (2 * X, -2 * X)
    ),
    "async_custom_call": Case(
        asynchronous("custom-call", ', custom_call_target="Sharding"'), X
    ),
    "async_slice": Case(asynchronous("slice", ", slice={[1:3]}", result="f32[2]"), X[1:3]),
    "async_dynamic_slice": Case(
        asynchronous(
            "dynamic-slice", ", dynamic_slice_sizes={2}", "p, i", "f32[4], s32[]", "f32[2]", "i = s32[] constant(2)"
        ), X[2:4],
    ),
    "async_dynamic_update_slice": Case(
        asynchronous(
            "dynamic-update-slice", "", "p, q, i", "f32[4], f32[1], s32[]", "f32[4]",
            "i = s32[] constant(2)\n  q = f32[1] slice(p), slice={[0:1]}",
        ), np.array([0.5, -1, 0.5, 3], np.float32),
    ),
    "async_elementwise": Case(asynchronous("sine", ""), np.sin(X)),
    "async_all_to_all": Case(
        asynchronous("all-to-all", ", replica_groups={{0}}, dimensions={0}"), X
    ),
    "async_reduce_scatter": Case(
        asynchronous("reduce-scatter", ", replica_groups={{0}}, dimensions={0}, to_apply=sum"), X
    ),
    "async_without_context": Case(
        P + "  s = ((f32[4]), f32[4]) async-start(p), calls=begun\n  ROOT d = f32[4] async-done(s)", 2 * X
    ),
    "async_on_another_thread": Case(
        P + '  s = ((f32[4]), f32[4], s32[]) async-start(p), async_execution_thread="other", calls=apart\n'
        "  ROOT d = f32[4] async-done(s)", 2 * X,
    ),
    "copy_start": Case(
        P + "  s = (f32[4], f32[4], u32[]) copy-start(p)\n  ROOT d = f32[4] copy-done(s)", X
    ),
    "copy_start_of_a_prefetch": Case(
        P + "  s = (f32[4], f32[4], u32[]) copy-start(p), cross_program_prefetch_index=0\n"
        "  ROOT d = f32[4] copy-done(s)", X,
    ),
    "copy_start_to_other_memory": Case(
        "  p = f32[4,3]{1,0} parameter(0)\n"
        "  s = (f32[4,3]{0,1:S(1)}, f32[4,3]{1,0}, u32[]) copy-start(p)\n"
        "  ROOT d = f32[4,3]{0,1:S(1)} copy-done(s)", M, (M,),
    ),
    "all_gather_start": Case(
        P + "  s = (f32[4], f32[4]) all-gather-start(p), replica_groups={{0}}, dimensions={0}\n"
        "  ROOT d = f32[4] all-gather-done(s)", X,
    ),
    "all_reduce_start": Case(
        P + "  s = f32[4] all-reduce-start(p), replica_groups={{0}}, to_apply=sum\n"
        "  ROOT d = f32[4] all-reduce-done(s)", X,
    ),
    "collective_permute_start": Case(
        P + "  s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,0}}\n"
        "  ROOT d = f32[4] collective-permute-done(s)", X,
    ),
}  # fmt: skip

N = P + "  n = f32[4] negate(p)\n"
SHARDINGS = 'domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}'

MARKS = {
    "copy_to_another_layout": Case(
        "  p = f32[4,3]{1,0} parameter(0)\n  c = f32[4,3]{0,1} copy(p)\n"
        "  ROOT n = f32[4,3]{0,1} negate(c)", -M, (M,),
    ),
    "copy_of_a_tuple": Case(
        N + f"  t = ({TWO}) tuple(p, n)\n  ROOT c = ({TWO}) copy(t)", (X, -X)
    ),
    "domain": Case(N + f"  ROOT d = f32[4] domain(n), {SHARDINGS}", -X),
    "domain_of_a_tuple": Case(
        N + f"  t = ({TWO}) tuple(p, n)\n  ROOT d = ({TWO}) domain(t), "
        'domain={kind="sharding", entry={{maximal device=0},{maximal device=0}},'
        " exit={{maximal device=1},{maximal device=1}}}", (X, -X),
    ),
    "add_dependency": Case(
        N + "  t = token[] after-all()\n  d = f32[4] add-dependency(n, t)\n"
        "  ROOT r = f32[4] subtract(d, p)", -2 * X,
    ),
    "add_dependency_of_a_tuple": Case(
        N + f"  t = token[] after-all()\n  u = ({TWO}) tuple(p, n)\n"
        f"  ROOT d = ({TWO}) add-dependency(u, t)", (X, -X),
    ),
    "control_predecessors": Case(
        N + "  ROOT d = f32[4] sine(p), control-predecessors={n}", np.sin(X)
    ),
    "barrier": Case(
        N + f"  t = ({TWO}) tuple(p, n)\n  b = ({TWO}) opt-barrier(t)\n"
        "  ROOT g = f32[4] get-tuple-element(b), index=1", -X,
    ),
    "top_k": Case(
        P + "  ROOT t = (f32[2], s32[2]) topk(p), k=2, largest=true",
        (np.array([3, 2], np.float32), np.array([3, 2], np.int32)),
    ),
    "sort": Case(P + "  ROOT s = f32[4] sort(p), dimensions={0}, to_apply=less", np.sort(X)),
    "numbers_of_the_device": Case(
        "  r = u32[] replica-id()\n  q = u32[] partition-id()\n  ROOT t = (u32[], u32[]) tuple(r, q)",
        (np.uint32(0), np.uint32(0)), (),
    ),
    "size_of_a_dimension": Case(
        P + "  n = s32[] constant(2)\n  s = f32[<=4] set-dimension-size(p, n), dimensions={0}\n"
        "  ROOT d = s32[] get-dimension-size(s), dimensions={0}", np.int32(2),
    ),
    "mulhi": Case(
        "  p = u8[3] parameter(0)\n  q = u8[3] parameter(1)\n  ROOT m = u8[3] mulhi(p, q)",
        np.array([0, 127, 254], np.uint8), (np.array([3, 255, 255], np.uint8), np.array([5, 128, 255], np.uint8)),
    ),
    "composite_of_two": Case(
        "  p = f32[4] parameter(0)\n"
        f"  c = ({TWO}) call(p), to_apply=both, is_composite=true, frontend_attributes="
        '{composite.attributes={n = 1 : i64},composite.name="my.op",composite.version="1"}\n'
        "  a = f32[4] get-tuple-element(c), index=0\n  b = f32[4] get-tuple-element(c), index=1\n"
        "  ROOT d = f32[4] subtract(a, b)", 4 * X,
    ),
    "scaled_dot": Case(
        "  p = f32[4] parameter(0)\n  a = f8e4m3fn[1,4] parameter(1)\n  r = f32[1,4] reshape(p)\n"
        "  b = f8e4m3fn[1,4] convert(r)\n  s = f8e8m0fnu[1,2] parameter(2)\n  o = f32[1,1] constant({{2}})\n"
        "  t = f8e8m0fnu[1,1] convert(o)\n"
        "  ROOT d = f32[1,1] scaled-dot(b, a, t, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        np.array([[2 * (2 * (0.5 * 1 - 1 * 2) + 0.5 * (2 * 3 + 3 * 4))]], np.float32),
        (
            X, np.array([[1, 2, 3, 4]]).astype(as_dtype("f8e4m3fn").numpy),
            np.array([[2, 0.5]]).astype(as_dtype("f8e8m0fnu").numpy),
        ),
    ),
}  # fmt: skip


def bitcast(source: str, result: str, argument: Any, expected: Any) -> Case:
    """Memory of one type and layout read as of another."""
    return Case(
        f"  p = {source} parameter(0)\n  ROOT b = {result} bitcast(p)", expected, (argument,)
    )


COLUMNS = np.ascontiguousarray(M.T)
R = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
NIBBLES = np.arange(-8, 8).astype(as_dtype("s4").numpy)
B = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)

BITCASTS = {
    "transpose": bitcast("f32[4,3]{0,1}", "f32[3,4]{1,0}", M, M.T),
    "transpose_back": bitcast("f32[4,3]{1,0}", "f32[3,4]{0,1}", M, M.T),
    "reshape": bitcast("f32[4,3]{1,0}", "f32[2,6]{1,0}", M, M.reshape(2, 6)),
    "from_columns": bitcast("f32[4,3]{0,1}", "f32[2,6]{1,0}", M, COLUMNS.reshape(2, 6)),
    "to_columns": bitcast("f32[4,3]{1,0}", "f32[2,6]{0,1}", M, M.reshape(6, 2).T),
    "of_columns": bitcast("f32[4,3]{0,1}", "f32[2,6]{0,1}", M, COLUMNS.reshape(6, 2).T),
    "ones": bitcast("f32[4,3]{1,0}", "f32[1,4,1,3]{3,1,2,0}", M, M.reshape(1, 4, 1, 3)),
    "scalar": bitcast("f32[]", "f32[1,1]{0,1}", np.float32(3), np.full((1, 1), 3, np.float32)),
    "four_dimensions": bitcast(
        "f32[2,3,4,5]{1,3,0,2}", "f32[4,2,5,3]{3,2,1,0}", R, R.transpose(2, 0, 3, 1)
    ),
    "empty": bitcast("f32[0,3]", "f32[3,0]{0,1}", M[:0], M[:0].reshape(3, 0)),
    "type": bitcast("f32[4,3]{1,0}", "s32[4,3]{1,0}", M, M.view(np.int32)),
    "type_in_columns": bitcast("f32[4,3]{1,0}", "s32[3,4]{0,1}", M, M.view(np.int32).T),
    "type_of_columns": bitcast("f32[4,3]{0,1}", "u32[12]", M, COLUMNS.reshape(-1).view(np.uint32)),
    "halves": bitcast("f32[4,3]{1,0}", "s16[4,6]{1,0}", M, M.view(np.int16)),
    "halves_of_columns": bitcast("f32[4,3]{0,1}", "s16[24]", M, COLUMNS.reshape(-1).view(np.int16)),
    "bytes": bitcast("f32[4,3]{1,0}", "u8[4,3,4]{2,1,0}", M, M.view(np.uint8).reshape(4, 3, 4)),
    "of_halves": bitcast("s16[4,6]{1,0}", "f32[4,3]{1,0}", M.view(np.int16), M),
    "of_halves_in_columns": bitcast(
        "s16[6,4]{0,1}", "f32[12]", np.ascontiguousarray(M.view(np.int16).T), M.reshape(-1)
    ),
    "truth": bitcast("pred[4]", "u8[2,2]{0,1}", X > 0, np.array([[1, 1], [0, 1]], np.uint8)),
    "of_truth": bitcast("u8[4]", "pred[4]", np.array([0, 1, 1, 0], np.uint8), np.array([0, 1, 1, 0], bool)),
    "nibbles": bitcast(
        "s4[16]{0:E(4)}", "u8[8]{0}", NIBBLES, np.frombuffer(bytes.fromhex("98badcfe10325476"), np.uint8)
    ),
    "tiles_of_one_width": bitcast(
        "f32[8,128]{1,0:T(8,128)}", "s32[8,128]{1,0:T(8,128)}", B, B.view(np.int32)
    ),
    "tiles": bitcast(
        "f32[8,128]{1,0:T(8,128)}", "f32[1,8,128]{2,1,0:T(8,128)}", B, B.reshape(1, 8, 128)
    ),
}  # fmt: skip

CASES = {
    **FUSIONS, **ASYNCHRONOUS, **MARKS, **{f"bitcast_{n}": c for n, c in BITCASTS.items()},
}  # fmt: skip

APART = """
apart {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}, execution_thread="other"
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, backend: str) -> None:
    case = CASES[name]
    text = case.text.replace("ENTRY", f"{APART}ENTRY") if "apart" in case.body else case.text
    found = xlapy.from_hlo(text)(*case.arguments, backend=backend)
    several = isinstance(case.expected, tuple)
    assert isinstance(found, tuple) == several
    for a, e in zip(
        found if several else [found], case.expected if several else [case.expected], strict=True
    ):
        assert (a.numpy().dtype, a.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(a.numpy(), e, rtol=1e-6)


def test_the_random_state_grows_and_draws_are_in_range() -> None:
    """What differs at each run."""
    text = """HloModule m
ENTRY e {
  s = u64[2] rng-get-and-update-state(), delta=4096
  a = f32[] constant(2)
  b = f32[] constant(3)
  u = f32[1000] rng(a, b), distribution=rng_uniform
  n = f32[1000] rng(a, b), distribution=rng_normal
  ROOT t = (u64[2], f32[1000], f32[1000]) tuple(s, u, n)
}"""
    f = xlapy.from_hlo(text)
    for backend in BACKENDS:
        (first, _, _), (second, u, n) = f(backend=backend), f(backend=backend)
        grown = int(second.numpy()[0]) - int(first.numpy()[0])
        assert grown == 4096
        assert first.numpy()[1] == second.numpy()[1] == 0
        assert 2 <= u.numpy().min() < 2.1
        assert 2.9 < u.numpy().max() <= 3
        assert abs(n.numpy().mean() - 2) < 0.5
        assert abs(n.numpy().std() - 3) < 0.5


REFUSED = {
    "tiles_that_are_cut": (
        "  p = f32[8,256]{1,0:T(8,128)} parameter(0)\n  ROOT b = f32[2,8,128]{2,1,0:T(8,128)} bitcast(p)",
        "tiled",
    ),
    "tiles_that_go": ("  p = f32[8,128]{1,0:T(8,128)} parameter(0)\n  ROOT b = f32[1024]{0} bitcast(p)", "tiled"),
    "tiles_of_another_width": (
        "  p = f32[8,128]{1,0:T(8,128)} parameter(0)\n  ROOT b = s16[16,128]{1,0:T(8,128)} bitcast(p)", "tiled"
    ),
    "complex_as_real": (
        "  p = c64[4] parameter(0)\n  ROOT b = f32[4,2] bitcast(p)", "bitcast.*c64(.|\n)*<hlo>:72"
    ),
    "stochastic_rounding": (
        "  p = f32[4] parameter(0)\n  r = u32[4] parameter(1)\n  ROOT t = s32[4] stochastic-convert(p, r)",
        "stochastic_convert(.|\n)*line",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """What would be read as something else, or is nowhere defined."""
    body, match = REFUSED[name]
    with pytest.raises((UnsupportedOpError, DTypeError), match=match):
        xlapy.from_hlo(Case(body, None).text)
