"""Programs that are none: each is refused with a line, and none of them ends or holds up the process."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy._jaxlib import isolation
from xlapy.errors import ArtifactError, UnsupportedOpError, XlapyError

GOOD = """HloModule m
f {
  a = f32[4,3] parameter(0)
  ROOT n = f32[4,3] negate(a)
}
ENTRY e {
  p = f32[4,3]{1,0} parameter(0)
  c = f32[4,3]{1,0} fusion(p), kind=kLoop, calls=f
  r = f32[12]{0} reshape(c)
  t = (f32[12], f32[4,3]) tuple(r, c)
  g = f32[12] get-tuple-element(t), index=0
  k = f32[12] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  ROOT s = f32[12] add(g, k)
}"""

MODULE = """module @m {
  func.func @main(%x: tensor<4x3xf32>) -> tensor<12xf32> {
    %0 = stablehlo.negate %x : tensor<4x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<4x3xf32>) -> tensor<12xf32>
    return %1 : tensor<12xf32>
  }
}"""

CALLED = "(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>"
BODY = "\n".join(MODULE.split("\n")[2:4])
HUGE = "9223372036854775807"

#: a wrong program by what is wrong with it: what of `GOOD` is replaced by what, and what the message says
WRONG = {
    "truncated": ("  r = f32[12]{0} reshape(c)", None, "line 9"),
    "unknown_operation": ("negate(a)", "unfold(a)", "line 4.*unfold"),
    "unknown_type": ("a = f32", "a = f33", "line 3"),
    "unknown_name": ("reshape(c)", "reshape(q)", "line 9"),
    "unknown_computation": ("calls=f", "calls=g", "line 8"),
    "operands": ("negate(a)", "negate(a, a)", "line 4"),
    "shape": ("n = f32[4,3]", "n = f32[4,4]", "line 4"),
    "element_type": ("n = f32[4,3]", "n = s32[4,3]", "line 4"),
    "layout_rank": ("{1,0} parameter", "{0} parameter", "line 7"),
    "layout_order": ("{1,0} parameter", "{1,1} parameter", "line 7"),
    "layout_negative": ("{1,0} parameter", "{-1,0} parameter", "line 7"),
    "literal": ("11, 12}", "11}", "line 12"),
    "literal_text": ("{1, 2,", "{1, two,", "line 12"),
    "huge_size": ("f32[12]{0} reshape", f"f32[{HUGE},{HUGE}] reshape", "line (9|10)"),
    "huge_literal": ("constant({1", f"constant({{1e{HUGE}", "line 12"),
    "huge_index": ("index=0", f"index={HUGE}0", "line 11"),
    "negative_size": ("f32[12]{0} reshape", "f32[-12] reshape", "line 9"),
    "characters": ("  k =", "  k\u00e9\u2028 =", "line 12"),
    "zero_byte": ("  k =", "  k\0 =", "line 12"),
    "two_entries": ("\nf {", "\nENTRY f {", "line 2|ENTRY|entry"),
    "cycle": ("reshape(c)", "reshape(s)", "line 9"),
    "attribute": ("kind=kLoop", "kind=kLoopy", "line 8"),
    "repeated_attribute": ("index=0", "index=0, index=0", "line 11"),
    # XLA's reader asserts that these are not so, or notices it at the beginning of the next line.
    "parameter_number": ("parameter(0)\n  ROOT", "parameter(3)\n  ROOT", "line 3"),
    "reshape_size": ("r = f32[12]", "r = f32[13]", "line (9|10)"),
    "tuple_element_of_array": ("get-tuple-element(t)", "get-tuple-element(r)", "line 11"),
    "opaque": ("a = f32[4,3]", "a = opaque[]", "line 3"),
    "fusion_of_tuple": ("c = f32[4,3]{1,0} fusion", "c = (f32[4,3]) fusion", "line (9|10)"),
}  # fmt: skip


def changed(old: str, new: str | None) -> str:
    """`GOOD` with something wrong; cut off there if there is nothing new."""
    assert GOOD.count(old) == 1
    return GOOD[: GOOD.index(old)] if new is None else GOOD.replace(old, new)


def test_the_good_program_is_good() -> None:
    f = xlapy.from_hlo(GOOD)
    found = f(np.ones((4, 3), np.float32), backend="interpreter").numpy()
    np.testing.assert_array_equal(found, np.arange(12, dtype=np.float32))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_hlo(name: str) -> None:
    """An error with the line."""
    old, new, match = WRONG[name]
    with pytest.raises((ArtifactError, UnsupportedOpError), match=match):
        xlapy.from_hlo(changed(old, new))


@pytest.mark.parametrize("cut", range(0, len(GOOD), 7))
def test_cut_hlo(cut: int) -> None:
    """Wherever a text ends too soon, it is refused."""
    with pytest.raises(ArtifactError):
        xlapy.from_hlo(GOOD[:cut])


DEEP = 60000
ENTRY = "HloModule m\nENTRY e {\n  ROOT r ="
MAIN = "func.func @main("
NESTED = {
    "hlo_operands": f"{ENTRY} f32[] {'negate(f32[] ' * DEEP}constant(1){')' * DEEP}\n}}",
    "hlo_tuples": f"{ENTRY} {'(' * DEEP}f32[]{')' * DEEP} parameter(0)\n}}",
    "tuples": f"{MAIN}%x: {'tuple<' * DEEP}f32{'>' * DEEP}) {{\n  return\n}}",
    "attributes": "func.func @main() attributes {a = " + "[" * DEEP + "]" * DEEP + "} {\n  return\n}",
    "modules": "module {\n" * DEEP + "}\n" * DEEP,
    "locations": "func.func @main() {\n  return\n} loc(" + '"a"(' * DEEP + '"b":1:1' + ")" * DEEP + ")",
    "closed_first": f"// {'>' * DEEP}\n{MAIN}%x: {'tuple<' * DEEP}f32{'>' * DEEP}) {{\n  return\n}}",
    "deeper_than_python": f"{MAIN}%x: {'tuple<' * 400}f32{'>' * 400}) {{\n  return\n}}",
    "calls": "".join(
        f"func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{\n"
        f"  %y = call @f{i + 1}(%x) : (tensor<f32>) -> tensor<f32>\n  return %y : tensor<f32>\n}}\n"
        for i in range(2000)
    ) + "func.func private @f2000(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n"
    "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
    "  %y = call @f0(%x) : (tensor<f32>) -> tensor<f32>\n  return %y : tensor<f32>\n}",
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_nested(name: str) -> None:
    """What lies deeper in each other than a stack is long."""
    read = xlapy.from_hlo if name.startswith("hlo") else xlapy.from_stablehlo
    with pytest.raises(ArtifactError):
        read(NESTED[name])


WRONG_MODULES = {
    "truncated": ("    return %1", None, "line 4"),
    "unknown_operation": ("stablehlo.negate %x", 'stablehlo.unfold %x', "line 3"),
    "other_dialect": ("stablehlo.negate %x :", "math.absf %x :", "line 3"),
    "unknown_type": ("negate %x : tensor<4x3xf32>", "negate %x : tensor<4x3xf33>", "line 3"),
    "shape": ("-> tensor<12xf32>\n    return", "-> tensor<13xf32>\n    return", "line 5"),
    "result": ("return %1", "return %0", "line 5"),
    "huge_size": ("-> tensor<12xf32>\n    return", f"-> tensor<{HUGE}0xf32>\n    return", "line 4"),
    "characters": ("%1 = stablehlo", "%\u00e9 = stablehlo", "line 4"),
    "zero_byte": ("%1 = stablehlo", "%\0 = stablehlo", "line 4"),
    "recursion": (BODY, "    %1 = call @main(%x) : (tensor<4x3xf32>) -> tensor<12xf32>", "recursive(.|\n)*line 3"),
    # MLIR takes as much memory as the number says.
    "huge_dimension": (
        BODY, "    %1 = stablehlo.convolution(%x, %x) dim_numbers = [b, f, 2147483647]x[o, i, 0]->[b, f, 0],\n"
        "    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        " : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<12xf32>", "line 3.*memory",
    ),
    "nothing_called": ("stablehlo.negate %x : tensor<4x3xf32>", f"call @g{CALLED}", "line 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_MODULES)
def test_wrong_stablehlo(name: str) -> None:
    """An error with the line."""
    old, new, match = WRONG_MODULES[name]
    text = MODULE[: MODULE.index(old)] if new is None else MODULE.replace(old, new)
    with pytest.raises((ArtifactError, UnsupportedOpError), match=match):
        xlapy.from_stablehlo(text)


UNKNOWN = {
    "type": (
        "%0 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2x!tf.foo<i8, {0.1:-30}>>",
        r"type .*!tf\.foo<i8, \{0\.1:-30\}> in stablehlo\.convert",
    ),
    "generic_operation": ('%0 = "tf.Foo"(%x) : (tensor<2xf32>) -> tensor<2xf32>', r"operation .*tf\.Foo"),
    "operation": ("%0 = tf.Foo %x : tensor<2xf32>", r"operation .*tf\.Foo"),
    "operation_of_stablehlo": (
        '%0 = "stablehlo.unfold"(%x) : (tensor<2xf32>) -> tensor<2xf32>', r"operation .*stablehlo\.unfold"
    ),
    "attribute": (
        "%0 = stablehlo.negate %x {a = #tf.foo} : tensor<2xf32>", r"attribute .*#tf\.foo in stablehlo\.negate"
    ),
    "operation_of_mlir": ("%0 = math.absf %x : tensor<2xf32>", r"operations .*math\.absf"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_to_stablehlo(name: str) -> None:
    """What other dialects have is not supported, rather than malformed."""
    line, match = UNKNOWN[name]
    text = f"func.func @main(%x: tensor<2xf32>) {{\n  {line}\n  return\n}}"
    with pytest.raises(UnsupportedOpError, match=f"{match}(.|\n)*at line 2"):
        xlapy.from_stablehlo(text)


@pytest.mark.parametrize("read", [xlapy.from_hlo, xlapy.from_stablehlo])
@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("", "empty"), ("  \n ", "empty"), (b"", "empty"), ("no such file", "No such file"), ("a\0b", "null"),
        ("x" * 10000, "too long"), ("\ud800\n", "line 1"), (3, "int"), (None, "NoneType"), (Path("/"), "directory"),
        (b"\xff\xfe\xfd", "valid|bytes"), (b"ML\xefR", "valid"), (b"ML\xefR" + bytes(100), "valid"), ("{", "valid"),
    ],
)  # fmt: skip
def test_no_program(read: object, given: object, match: str) -> None:
    """What is no program at all."""
    with pytest.raises(ArtifactError, match=match):
        read(given)  # type: ignore[operator]


def test_wrong_bytes() -> None:
    """Bytes of an artifact and of a module's protocol buffer, changed at random: MLIR's reader crashes on some."""
    double = xlapy.export(lambda x: ops.add(ops.sin(x), x), xlapy.TensorSpec((3,), "f32"))
    rng = random.Random(0)
    for data, read in ((double.serialize(), xlapy.from_stablehlo), (_proto(), xlapy.from_hlo)):
        assert read(data)(np.zeros(3, np.float32), backend="interpreter").numpy().tolist() == [0, 0, 0]  # fmt: skip
        for _ in range(150):
            wrong = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                wrong[rng.randrange(4, len(wrong))] = rng.randrange(256)
            with contextlib.suppress(XlapyError):
                read(bytes(wrong))


def _proto() -> bytes:
    from jaxlib import _hlo

    text = "HloModule m\nENTRY e {\n  p = f32[3] parameter(0)\n  ROOT n = f32[3] sine(p)\n}"
    proto: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return proto


def test_random_changes() -> None:
    """Parts of texts left out, doubled and exchanged at random."""
    rng = random.Random(1)
    for good, read in ((GOOD, xlapy.from_hlo), (MODULE, xlapy.from_stablehlo)):
        for _ in range(150):
            text = good
            for _ in range(rng.randint(1, 3)):
                i, k = rng.randrange(len(text)), rng.randrange(len(text))
                j = i + rng.randint(1, 12)
                text = rng.choice([text[:i] + text[j:], text[:k] + text[i:j] + text[k:], text[:i]])
                text = text or " "
            with contextlib.suppress(XlapyError):
                read(text)


# --- the process that reads -----------------------------------------------------------------------------------------


def test_reading_goes_on_in_another_process() -> None:
    """One that has ended is replaced."""
    xlapy.from_hlo(GOOD)
    first = isolation._process._process
    assert first is not None
    first.kill()
    first.wait()
    xlapy.from_hlo(GOOD)
    second = isolation._process._process
    assert second is not None
    assert second.pid != first.pid


def test_reading_in_a_fork() -> None:
    """A child of a process that has read has a reader of its own."""
    code = (
        "import os, sys, xlapy\n"
        f"text = {GOOD!r}\n"
        "xlapy.from_hlo(text)\n"
        "child = os.fork()\n"
        "xlapy.from_hlo(text)\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    xlapy.from_hlo(text)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_reading_without_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there can be none, programs are read here."""
    isolation._process.close()
    monkeypatch.setattr(sys, "executable", "")
    xlapy.from_hlo(GOOD)
    with pytest.raises(ArtifactError, match="line 4"):
        xlapy.from_hlo(changed("negate(a)", "unfold(a)"))
    artifact = xlapy.export(ops.sin, xlapy.TensorSpec((3,), "f32")).serialize()
    assert xlapy.from_stablehlo(artifact).parameter_specs == (xlapy.TensorSpec((3,), "f32"),)
    assert isolation._process._process is None


def test_a_reader_that_takes_too_long_is_ended() -> None:
    """The limit is the caller's."""
    found, reason = isolation._process.ask(b"T", GOOD.encode(), 0.0)
    assert found == b"E"
    assert b"longer" in reason


def test_lines_of_programs_with_names(tmp_path: Path) -> None:
    """An operation that nobody knows is found by its name; a program may be a file."""
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(p), custom_call_target="nobody"
}"""
    path = tmp_path / "program.hlo"
    path.write_text(text)
    f = xlapy.from_hlo(path)
    with pytest.raises(UnsupportedOpError, match="nobody(.|\n)*<hlo>:4"):
        f(np.zeros(4, np.float32), backend="interpreter")
