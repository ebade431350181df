"""The PJRT backend: programs compiled, cached, refused; data moved."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlapy import ops
from xlapy.backends import pjrt
from xlapy.backends.base import CompileOptions
from xlapy.backends.eager import compile_checked, put
from xlapy.backends.executable_cache import default_cache
from xlapy.backends.pjrt import MISSING_DTYPES, MISSING_OPS, Pjrt
from xlapy.backends.registry import use_backend
from xlapy.dtypes import TABLE
from xlapy.errors import BackendError, UnsupportedOpError
from xlapy.specs import TensorSpec, TokenSpec, TupleSpec
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.op import Hlo, Op

F4 = TensorSpec((4,), "f32")


@pytest.fixture(scope="module")
def backend() -> Pjrt:
    return Pjrt("cpu", num_devices=2)


def program(f: Callable[..., Any], *specs: str, name: str = "f") -> Computation:
    builder = XlaBuilder(name)
    return builder.build(f(*[builder.parameter(i, s) for i, s in enumerate(specs)]))


def double(x: Any) -> Any:
    return ops.add(x, x)


def double_elsewhere(x: Any) -> Any:
    return ops.add(x, x)


def bare_op(name: str, hlo: str, infer: Callable[..., Any]) -> Op:
    none: Any = None
    return Op(name, "HLO", infer, Hlo(hlo), none, none, none)


def run(backend: Pjrt, computation: Computation, *arrays: Any, **options: Any) -> list[Any]:
    device = options.get("device")
    payloads = [backend.put(a, TensorSpec(a.shape, a.dtype), device) for a in arrays]
    executable = backend.compile(computation, CompileOptions(**options))
    return [backend.get(p) for p in executable.execute(payloads)]


# --- running --------------------------------------------------------------------------------------


def test_operations_run() -> None:
    with use_backend("pjrt:cpu"):
        x = put(np.arange(4.0, dtype="f4"))
        assert np.asarray(ops.add(x, x)).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("dtype", [d for d in TABLE if d.name not in MISSING_DTYPES], ids=str)
def test_every_type_passes(dtype: Any, backend: Pjrt) -> None:
    array = np.array([[1, 0, 1], [0, 1, 2]]).astype(dtype.numpy)
    spec = TensorSpec((2, 3), dtype)
    x = Value(spec)
    (found,) = run(backend, Computation([x], [], [x]), array)
    assert found.dtype == dtype.numpy
    assert found.tobytes() == array.tobytes()


def test_programs_run_on_each_device(backend: Pjrt, cache_directory: Path) -> None:
    array = np.arange(4.0, dtype="f4")
    other = backend.devices[1]
    before = backend.loads
    for _ in range(2):
        backend.clear()
        for device in (None, backend.devices[0], other):
            (found,) = run(backend, program(double, "f32[4]"), array, device=device)
            assert found.tolist() == [0, 2, 4, 6]
    assert backend.loads >= before + 3  # what the first device's run kept serves the second
    executable = backend.compile(program(double, "f32[4]"), CompileOptions(device=other))
    assert executable.placed[0].placement is backend.placement_of(other)
    (result,) = executable.execute([backend.put(array, F4, other)])
    moved = backend.copy(result, backend.devices[0])
    assert backend.get(moved).tolist() == [0, 2, 4, 6]


def test_the_default_device_is_one_place(backend: Pjrt) -> None:
    assert backend.placement_of(backend.devices[0]) is backend.placement
    assert backend.placement_of(None) is backend.placement
    assert backend.placement_of(backend.devices[1]) is not backend.placement


def test_donated_arguments_are_gone(backend: Pjrt) -> None:
    executable = backend.compile(
        program(lambda x, y: ops.add(x, y), "f32[4]", "f32[4]"),
        CompileOptions(donated=frozenset({0})),
    )
    x, y = (backend.put(np.ones(4, "f4"), F4) for _ in range(2))
    (z,) = executable.execute([x, y])
    assert backend.get(z).tolist() == [2] * 4
    with pytest.raises(BackendError, match=r"donated or deleted; got float32\[4\]"):
        backend.get(x)
    with pytest.raises(BackendError, match="donated or deleted"):
        executable.execute([x, y])
    assert backend.get(y).tolist() == [1] * 4


def test_deleted_and_waited_for(backend: Pjrt) -> None:
    x = backend.put(np.ones(4, "f4"), F4)
    backend.block_until_ready(x)
    backend.delete(x)
    with pytest.raises(BackendError, match="donated or deleted"):
        backend.block_until_ready(x)


def test_an_executable_can_be_looked_into(backend: Pjrt, cache_directory: Path) -> None:
    for _ in range(2):  # compiled, and loaded from disk
        backend.clear()
        executable = backend.compile(program(double, "f32[4]"), CompileOptions())
        assert "f32[4]" in executable.optimized_hlo_text
        assert executable.cost_analysis()["flops"] == 4
        assert executable.memory_analysis()["argument"] == 16
        assert executable.placed[0].spec is F4


def test_the_users_line_reaches_the_compiled_program(
    backend: Pjrt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAPY_CACHE_DIR", "")
    text = backend.compile(
        program(double, "f32[4]", name="located"), CompileOptions()
    ).optimized_hlo_text
    assert "test_pjrt.py" in text


def test_flags_reach_xla(backend: Pjrt) -> None:
    flags = (("xla_cpu_enable_fast_math", True),)
    computation = program(double, "f32[4]")
    assert run(backend, computation, np.ones(4, "f4"), flags=flags)[0].tolist() == [2] * 4
    with pytest.raises(BackendError, match="No such compile option: 'xla_nonsense'"):
        run(backend, computation, np.ones(4, "f4"), flags=(("xla_nonsense", 1),))


# --- tokens ---------------------------------------------------------------------------------------


def test_tokens_pass_through(backend: Pjrt, monkeypatch: pytest.MonkeyPatch) -> None:
    create = bare_op("create_token", "stablehlo.create_token", TokenSpec)
    monkeypatch.setattr(pjrt, "lookup", {"create_token": create}.__getitem__)
    token, x, joined = Value(TokenSpec()), Value(F4), Value(TokenSpec())
    after = bare_op("after_all", "stablehlo.after_all", lambda *specs: TokenSpec())
    computation = Computation(
        [token, x], [Instruction(after, (token,), {}, (joined,))], [joined, x, token]
    )
    executable = backend.compile(computation, CompileOptions(donated=frozenset({1})))
    found = executable.execute([backend.token(), backend.put(np.ones(4, "f4"), F4)])
    assert found[0] is None
    assert found[2] is None
    assert backend.get(found[1]).tolist() == [1] * 4
    assert [p.spec for p in executable.placed] == [TokenSpec(), F4, TokenSpec()]
    backend.block_until_ready(found[0])
    backend.delete(found[0])


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*MISSING_OPS["*"], *MISSING_OPS["cpu"]}))
def test_what_xla_does_not_run_is_refused_before_it_runs(name: str, backend: Pjrt) -> None:
    op = bare_op(name, f"stablehlo.{name}", lambda spec, **params: spec)
    x, y = Value(F4), Value(F4)
    computation = Computation([x], [Instruction(op, (x,), {}, (y,))], [y])
    with pytest.raises(UnsupportedOpError, match=rf"must run on pjrt:cpu; got {name} "):
        compile_checked(computation, backend.placement)


@pytest.mark.parametrize("dtype", sorted(MISSING_DTYPES))
def test_six_bit_types_are_refused(dtype: str, backend: Pjrt) -> None:
    spec = TensorSpec((2,), dtype)
    x = Value(spec)
    with pytest.raises(
        UnsupportedOpError, match=f"element types must run on pjrt:cpu; got {dtype} "
    ):
        compile_checked(Computation([x], [], [x]), backend.placement)
    with pytest.raises(UnsupportedOpError, match="6-bit"):
        backend.put(np.zeros(2, spec.dtype.numpy), spec)


@pytest.mark.parametrize(
    "spec, message",
    [
        (TensorSpec((4,), "f32", (0,)), r"must have a known shape on pjrt:cpu; got f32\[<=4\]"),
        (TensorSpec((-1,), "f32"), "must have a known shape"),
        (TupleSpec([F4]), "must be an array or a token"),
    ],
)
def test_what_cannot_be_passed_is_refused(spec: Any, message: str, backend: Pjrt) -> None:
    x = Value(spec)
    with pytest.raises(UnsupportedOpError, match=f"an argument of a compiled program {message}"):
        backend.compile(Computation([x], [], []), CompileOptions())
    with pytest.raises(UnsupportedOpError, match=f"a result of a compiled program {message}"):
        backend.compile(Computation([], [], [x]), CompileOptions())


def test_an_unknown_platform_is_an_error() -> None:
    with pytest.raises(BackendError, match="PJRT plugin for 'abacus' must be installed"):
        Pjrt("abacus")


# --- caches ---------------------------------------------------------------------------------------


def counts(backend: Pjrt) -> tuple[int, int]:
    return backend.compiles, backend.loads


def test_a_program_is_compiled_once(cache_directory: Path) -> None:
    first = Pjrt()
    computation = program(double, "f32[4]")
    assert run(first, computation, np.ones(4, "f4"))[0].tolist() == [2] * 4
    assert counts(first) == (1, 0)
    run(first, program(double_elsewhere, "f32[4]"), np.ones(4, "f4"))
    assert counts(first) == (1, 0)  # the same program from another line
    second = Pjrt()
    assert run(second, computation, np.ones(4, "f4"))[0].tolist() == [2] * 4
    assert counts(second) == (0, 1)
    second.clear()
    run(second, computation, np.ones(4, "f4"))
    assert counts(second) == (0, 2)


@pytest.mark.parametrize(
    "options",
    [{"flags": (("xla_cpu_enable_fast_math", True),)}, {"donated": frozenset({0})}],
    ids=["flags", "donated"],
)
def test_options_make_another_program(options: dict[str, Any], cache_directory: Path) -> None:
    backend = Pjrt()
    computation = program(double, "f32[4]")
    run(backend, computation, np.ones(4, "f4"))
    run(backend, computation, np.ones(4, "f4"), **options)
    assert counts(backend) == (2, 0)


def test_what_the_key_holds(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computation = program(double, "f32[4]")
    run(Pjrt(), computation, np.ones(4, "f4"))
    for target, value in (
        ("xlapy._jaxlib.version", "0.0.1"),
        ("xlapy.backends.executable_cache.host_fingerprint", lambda: "another processor"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, value)
            backend = Pjrt()
            run(backend, computation, np.ones(4, "f4"))
            assert counts(backend) == (1, 0), target
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
        backend = Pjrt()
        run(backend, computation, np.ones(4, "f4"))
        assert counts(backend) == (1, 0)


@pytest.mark.parametrize("damage", ["flip", "truncate", "foreign executable"])
def test_a_bad_entry_is_built_again(
    damage: str, cache_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    computation = program(double, "f32[4]")
    run(Pjrt(), computation, np.ones(4, "f4"))
    (path,) = cache_directory.iterdir()
    data = path.read_bytes()
    if damage == "flip":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "truncate":
        path.write_bytes(data[: len(data) // 2])
    else:  # sound as a file, and nothing that XLA loads
        default_cache().store(path.name, b"not an executable")
    backend = Pjrt()
    with caplog.at_level(logging.INFO):
        assert run(backend, computation, np.ones(4, "f4"))[0].tolist() == [2] * 4
    assert counts(backend) == (1, 0)
    assert "built again" in caplog.text
    again = Pjrt()
    run(again, computation, np.ones(4, "f4"))
    assert counts(again) == (0, 1)


def test_no_cache_when_the_variable_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAPY_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        backend = Pjrt()
        run(backend, program(double, "f32[4]"), np.ones(4, "f4"))
        assert counts(backend) == (1, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XLAPY_CACHE_DIR", str(tmp_path / "file"))
    backend = Pjrt()
    assert run(backend, program(double, "f32[4]"), np.ones(4, "f4"))[0].tolist() == [2] * 4
    assert counts(backend) == (1, 0)


def test_memory_keeps_a_bounded_number(
    backend: Pjrt, monkeypatch: pytest.MonkeyPatch, cache_directory: Path
) -> None:
    monkeypatch.setattr(pjrt, "_KEPT", 2)
    backend.clear()
    for n in range(1, 5):
        run(backend, program(double, f"f32[{n}]"), np.ones(n, "f4"))
    assert len(backend._kept) == 2


def test_another_process_loads_what_this_one_compiled(cache_directory: Path) -> None:
    script = (
        "import numpy as np, sys\n"
        "from xlapy import ops\n"
        "from xlapy.backends.eager import put\n"
        "x = put(np.arange(4, dtype='f4'))\n"
        "assert np.asarray(ops.add(x, x)).tolist() == [0, 2, 4, 6]\n"
        "assert 'jax' not in sys.modules\n"
        "print(x.backend.compiles, x.backend.loads)\n"
    )
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"XLAPY_BACKEND": "pjrt:cpu"}
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True, text=True, cwd=root, env=environment, check=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [child.stdout.strip() for child in found] == ["1 0", "0 1"]
    assert [child.stderr for child in found] == ["", ""]
