"""Each function of the adapter to jaxlib works on the installed version: one test per use."""

import importlib.metadata
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlapy import _jaxlib
from xlapy.dtypes import TABLE, DType
from xlapy.errors import ArtifactError, BackendError, UnsupportedOpError

ROOT = Path(__file__).resolve().parent.parent
DTYPES = [d for d in TABLE if d.bits != 6]
F32 = np.dtype(np.float32)
ADD = (
    "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
    '%0 = "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n'
    "return %0 : tensor<4xf32> }"
)

WRONG = (
    "func.func @main(%a: tensor<4xf32>) {\n"
    '%0 = "stablehlo.add"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<5xf32>\nreturn }'
)


@pytest.fixture(scope="module")
def client() -> Any:
    return _jaxlib.cpu_client(4)


@pytest.fixture(scope="module")
def device(client: Any) -> Any:
    return _jaxlib.devices(client)[0]


def runner(client: Any, text: str, *results: tuple[tuple[int, ...], Any], **options: Any) -> Any:
    executable = _jaxlib.compile(client, text, **options)
    where = _jaxlib.placement(_jaxlib.devices(client)[:1])
    return _jaxlib.make_runner(executable, [(s, np.dtype(d)) for s, d in results], where)


# --- clients --------------------------------------------------------------------------------------


def test_clients_of_different_sizes_live_together(client: Any) -> None:
    other = _jaxlib.cpu_client(2)
    assert [len(_jaxlib.devices(c)) for c in (client, other)] == [4, 2]
    assert _jaxlib.platform(client)[0] == "cpu"
    x = _jaxlib.put(np.arange(4.0, dtype=F32), _jaxlib.devices(other)[1])
    moved = _jaxlib.copy_to(x, _jaxlib.devices(client)[3])
    assert _jaxlib.get(moved).tolist() == [0, 1, 2, 3]


def test_the_environment_gives_the_number_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAPY_NUM_CPU_DEVICES", "3")
    assert len(_jaxlib.devices(_jaxlib.cpu_client())) == 3
    monkeypatch.setenv("XLAPY_NUM_CPU_DEVICES", "many")
    with pytest.raises(BackendError, match="positive integer; got 'many'"):
        _jaxlib.cpu_client()
    for count in (0, 1025):
        with pytest.raises(BackendError, match=f"positive and at most 1024; got {count}"):
            _jaxlib.cpu_client(count)


@pytest.mark.parametrize(
    ("flags", "seconds"),
    [
        (None, -1),
        ("--xla_cpu_enable_fast_math=true", -1),
        ("--xla_cpu_collective_call_terminate_timeout_seconds=7", 7),
    ],
)
def test_devices_have_all_the_time_that_they_need(flags: str | None, seconds: int) -> None:
    """XLA would end the process when one of them is a minute later than another."""
    code = (
        "import os\nfrom jaxlib import xla_client\nfrom xlapy import _jaxlib\n_jaxlib.cpu_client(2)\n"
        "print(os.environ.get('XLA_FLAGS'), xla_client.CompileOptions().SerializeAsString().hex())"
    )
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    if flags is not None:
        environment["XLA_FLAGS"] = flags
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    kept, options = done.stdout.rsplit(maxsplit=1)
    assert kept == str(flags)
    # a field of XLA's DebugOptions: number 417, an integer
    assert f"881a{'ff' * 9 + '01' if seconds < 0 else f'{seconds:02x}'}" in options


def test_a_missing_plugin_says_how_to_get_it(tmp_path: Path) -> None:
    if "cuda" not in _jaxlib.find_plugins():
        with pytest.raises(BackendError, match=r"for 'cuda' must be installed; install jax-cuda"):
            _jaxlib.plugin_client("cuda")
    with pytest.raises(BackendError, match="got the platforms cpu"):
        _jaxlib.plugin_client("abacus")
    with pytest.raises(BackendError, match=r"must exist; got '/nowhere/plugin.so'"):
        _jaxlib.plugin_client("/nowhere/plugin.so")
    broken = tmp_path / "pjrt_plugin.so"
    broken.write_bytes(b"no library")
    with pytest.raises(BackendError, match="must open with jaxlib"):
        _jaxlib.plugin_client(str(broken))


def test_plugins_are_found_without_importing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "jax_plugins" / "xla_cuda12"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "xla_cuda_plugin.so").write_bytes(b"")
    (package / "other.so").write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    found = _jaxlib.find_plugins()
    assert found["cuda"] == str(package / "xla_cuda_plugin.so")
    identity = _jaxlib.plugin_identity("cuda")
    assert str(package) in identity
    (package / "xla_cuda_plugin.so").write_bytes(b"newer")
    assert _jaxlib.plugin_identity("cuda") != identity
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1.2")
    with pytest.raises(BackendError, match=r"same version as jaxlib; got jax-cuda12-pjrt 0\.1\.2"):
        _jaxlib.plugin_client("cuda")


# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_go_there_and_back(dtype: DType, client: Any, device: Any) -> None:
    array = np.array([[1, 0, 1], [0, 1, 2]]).astype(dtype.numpy)
    if dtype.kind in ("int", "float") and dtype.name != "f8e8m0fnu":
        array[0, 1] = -1
    for x in (array, array.T, array[:, ::-1], array[:0], array[1, 2:].reshape(()), array[0, 1:]):
        buffer = _jaxlib.put(x, device)
        there = _jaxlib.copy_to(buffer, _jaxlib.devices(client)[1])
        for back in (_jaxlib.get(buffer), _jaxlib.get(there)):
            assert back.dtype == dtype.numpy
            assert back.shape == x.shape
            assert back.tobytes() == x.tobytes()
            assert not back.flags.writeable


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_are_read_right(dtype: DType, client: Any, device: Any) -> None:
    array = np.array([[1, 0, 1], [0, 1, 2]]).astype(dtype.numpy)
    t = dtype.mlir
    text = (
        f"func.func @main(%a: tensor<2x3x{t}>) -> tensor<3x2x{t}> {{\n"
        f"%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x{t}>) -> tensor<3x2x{t}>\n"
        f"return %0 : tensor<3x2x{t}> }}"
    )
    run = runner(client, text, ((3, 2), dtype.numpy))
    for x in (array, np.asfortranarray(array)):
        (result,) = run([_jaxlib.put(x, device)])
        assert _jaxlib.get(result).tobytes() == array.T.tobytes()


@pytest.mark.parametrize("order", "<>")
def test_either_byte_order_is_read(order: str, device: Any) -> None:
    array = np.arange(5).astype(f"{order}i4")
    back = _jaxlib.get(_jaxlib.put(array, device))
    assert back.dtype == np.int32
    assert back.tolist() == [0, 1, 2, 3, 4]


def test_read_only_and_subclassed_arrays_are_read(device: Any) -> None:
    fixed = np.broadcast_to(np.float32(3), (2, 2))
    assert _jaxlib.get(_jaxlib.put(fixed, device)).tolist() == [[3, 3], [3, 3]]
    masked = np.ma.masked_array(np.arange(3.0), [0, 0, 0])
    assert _jaxlib.get(_jaxlib.put(masked, device)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("offset", [0, 4])
def test_a_put_copies_in_the_call(offset: int, device: Any) -> None:
    memory = np.zeros(1 << 20, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    for i in range(100):
        array = memory[start : start + 4 * 50_000].view(np.float32)
        array[:] = i
        buffer = _jaxlib.put(array, device)
        array[:] = -1
        assert (_jaxlib.get(buffer) == i).all()


def test_borrowing_is_possible(device: Any) -> None:
    memory = np.zeros(1 << 12, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + 64].view(np.float32)
    buffer = _jaxlib.put(array, device, borrow=True)
    array[:] = 7
    assert _jaxlib.get(buffer)[0] == 7


def test_what_xla_has_no_type_for_is_refused(device: Any) -> None:
    for array in (np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"), np.zeros(2, "i4,f4")):
        with pytest.raises(BackendError, match="one of XLA's element types"):
            _jaxlib.put(array, device)
    six = next(d for d in TABLE if d.bits == 6)
    with pytest.raises(UnsupportedOpError, match="6-bit"):
        _jaxlib.put(np.zeros(2, six.numpy), device)


def test_a_view_keeps_the_memory_alive(device: Any) -> None:
    views = [_jaxlib.get(_jaxlib.put(np.full(1000, i, np.int32), device)) for i in range(50)]
    assert all((view == i).all() for i, view in enumerate(views))


@pytest.mark.parametrize("dtype", ["f4", "bf16"])
def test_a_deleted_buffer_is_an_error(dtype: str, client: Any, device: Any) -> None:
    numpy_dtype = next(d.numpy for d in TABLE if d.name == dtype or d.numpy == dtype)
    buffer = _jaxlib.put(np.ones(4, numpy_dtype), device)
    _jaxlib.delete(buffer)
    for use in (
        lambda: _jaxlib.get(buffer),
        lambda: _jaxlib.block_until_ready([buffer]),
        lambda: _jaxlib.copy_to(buffer, device),
        lambda: runner(client, ADD, ((4,), "f4"))([buffer, buffer]),
    ):
        with pytest.raises(BackendError, match="donated or deleted; got"):
            use()


# --- executables ----------------------------------------------------------------------------------


def test_a_program_runs(client: Any, device: Any) -> None:
    run = runner(client, ADD, ((4,), "f4"))
    x = _jaxlib.put(np.arange(4.0, dtype=F32), device)
    (y,) = run([x, x])
    _jaxlib.block_until_ready([y])
    assert _jaxlib.get(run([y, x])[0]).tolist() == [0, 3, 6, 9]


def test_programs_come_as_text_module_or_artifact(client: Any) -> None:
    module = _jaxlib.parse(ADD)
    for program in (ADD, module, _jaxlib.serialize_artifact(module)):
        executable = _jaxlib.compile(client, program)
        assert _jaxlib.signature(executable) == ([((4,), F32)] * 2, [((4,), F32)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_signature_has_every_type(dtype: DType, client: Any) -> None:
    t = dtype.mlir
    text = (
        f"func.func @main(%a: tensor<2x{t}>, %b: tensor<{t}>) -> (tensor<2x{t}>, tensor<{t}>) {{\n"
        f"return %a, %b : tensor<2x{t}>, tensor<{t}> }}"
    )
    found = [((2,), dtype.numpy), ((), dtype.numpy)]
    assert _jaxlib.signature(_jaxlib.compile(client, text)) == (found, found)


@pytest.mark.parametrize("shape, dtype", [((4,), "i4"), ((2, 2), "f4"), ((5,), "f4")])
def test_a_wrong_result_spec_is_refused(shape: Any, dtype: str, client: Any) -> None:
    with pytest.raises(BackendError, match=r"must be what was compiled, \(float32\[4\]\); got"):
        runner(client, ADD, (shape, dtype))
    with pytest.raises(BackendError, match="must be what was compiled"):
        runner(client, ADD)


def test_programs_without_arguments_or_results_run(client: Any, device: Any) -> None:
    nothing = runner(client, "func.func @main() { return }")
    assert nothing([]) == []
    constant = "func.func @main() -> tensor<i32> { %0 = stablehlo.constant dense<7> : tensor<i32>\n"
    run = runner(client, constant + "return %0 : tensor<i32> }", ((), "i4"))
    assert _jaxlib.get(run([])[0]) == 7
    dropped = runner(client, "func.func @main(%a: tensor<4xf32>) { return }")
    assert dropped([_jaxlib.put(np.zeros(4, F32), device)]) == []


def test_options_reach_xla(client: Any) -> None:
    _jaxlib.compile(client, ADD, options={"xla_cpu_enable_fast_math": True})
    with pytest.raises(BackendError, match="No such compile option: 'xla_no_such'"):
        _jaxlib.compile(client, ADD, options={"xla_no_such": 1})


def test_a_program_that_does_not_parse_is_an_error(client: Any) -> None:
    with pytest.raises(BackendError, match="must be one that XLA compiles"):
        _jaxlib.compile(client, "func.func @main() { return %x }")


def test_a_wrong_number_of_devices_is_refused(client: Any) -> None:
    with pytest.raises(BackendError, match="one device each; got 1 devices"):
        _jaxlib.compile(client, ADD, _jaxlib.devices(client)[:1], num_replicas=2)


def test_executables_are_kept_and_loaded(client: Any, device: Any) -> None:
    data = _jaxlib.serialize(_jaxlib.compile(client, ADD))
    x = np.arange(4.0, dtype=F32)
    for on in _jaxlib.devices(client)[:2]:
        executable = _jaxlib.deserialize(client, data, [on])
        run = _jaxlib.make_runner(executable, [((4,), F32)], _jaxlib.placement([on]))
        assert _jaxlib.get(run([_jaxlib.put(x, on)] * 2)[0]).tolist() == [0, 2, 4, 6]
    for broken in (b"", data[: len(data) // 2], b"junk" * 100):
        with pytest.raises(BackendError, match="must be of an executable of this jaxlib"):
            _jaxlib.deserialize(client, broken)


def test_a_single_result_is_wrapped_at_once(client: Any, device: Any) -> None:
    class Wrapper:
        placed: Any
        payload: Any

    executable, where = _jaxlib.compile(client, ADD), _jaxlib.placement([device])
    run = _jaxlib.make_wrapping_runner(executable, ((4,), np.dtype(F32)), where, Wrapper, "here")
    x = _jaxlib.put(np.arange(4.0, dtype=F32), device)
    made = run([x, x])
    assert type(made) is Wrapper
    assert made.placed == "here"
    assert _jaxlib.get(made.payload).tolist() == [0, 2, 4, 6]
    _jaxlib.delete(x)
    with pytest.raises(BackendError, match="donated or deleted"):
        run([x, x])


def test_executables_can_be_looked_into(client: Any) -> None:
    executable = _jaxlib.compile(client, ADD)
    assert "f32[4]" in _jaxlib.hlo_text(executable)
    assert _jaxlib.cost_analysis(executable)["flops"] == 4
    assert _jaxlib.memory_stats(executable)["argument"] == 32
    assert isinstance(_jaxlib.fingerprint(executable), bytes)


def test_donated_buffers_are_reused_and_gone(client: Any, device: Any) -> None:
    text = ADD.replace("%a: tensor<4xf32>", "%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}")
    run = runner(client, text, ((4,), "f4"))
    x, y = (_jaxlib.put(np.ones(4, F32), device) for _ in range(2))
    (z,) = run([x, y])
    assert _jaxlib.get(z).tolist() == [2, 2, 2, 2]
    with pytest.raises(BackendError, match="donated or deleted"):
        run([x, y])
    assert _jaxlib.get(y).tolist() == [1, 1, 1, 1]


def test_a_view_of_a_donated_buffer_keeps_its_values(client: Any, device: Any) -> None:
    text = (
        "func.func @main(%a: tensor<9xbf16> {tf.aliasing_output = 0 : i32}) -> tensor<9xbf16> {\n"
        "%0 = stablehlo.add %a, %a : tensor<9xbf16>\nreturn %0 : tensor<9xbf16> }"
    )
    bf16 = next(d.numpy for d in TABLE if d.name == "bf16")
    x = _jaxlib.put(np.ones(9, bf16), device)
    view = _jaxlib.get(x)
    (y,) = runner(client, text, ((9,), bf16))([x])
    assert (_jaxlib.get(y) == 2).all()
    assert (view == 1).all()


def test_replicas_run_each_with_their_part(client: Any) -> None:
    text = (
        "module attributes {mhlo.num_replicas = 2 : i32} {\n"
        "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
        '%0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>'
        " ({\n"
        "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%s = stablehlo.add %x, %y : tensor<f32>\n"
        "stablehlo.return %s : tensor<f32> }) : (tensor<3xf32>) -> tensor<3xf32>\n"
        "return %0 : tensor<3xf32> } }"
    )
    on = _jaxlib.devices(client)[1:3]
    executable = _jaxlib.compile(client, text, on, num_replicas=2)
    where = _jaxlib.placement(on)
    run = _jaxlib.make_runner(executable, [((3,), F32)], where)
    parts = [np.full(3, i + 1, F32) for i in range(2)]
    together = _jaxlib.put_shards(parts, (3,), where, on)
    assembled = _jaxlib.assemble([_jaxlib.put(p, d) for p, d in zip(parts, on)], (3,), where)
    for x in (together, assembled):
        assert [_jaxlib.get(s).tolist() for s in _jaxlib.shards(x)] == [p.tolist() for p in parts]
        (result,) = run([x])
        shards = _jaxlib.shards(result)
        assert [_jaxlib.get(s).tolist() for s in shards] == [[3, 3, 3]] * 2


def test_partitions_share_an_array(client: Any) -> None:
    text = (
        'module {\nsdy.mesh @mesh = <["x"=2]>\n'
        'func.func @main(%a: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})'
        ' -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<f32>) {\n'
        "%0 = stablehlo.add %a, %a : tensor<4x2xf32>\n"
        "%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0, 1]"
        " : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>\n"
        "return %0, %1 : tensor<4x2xf32>, tensor<f32> } }"
    )
    on = _jaxlib.devices(client)[:2]
    rows, everywhere = _jaxlib.placement(on, "devices=[2,1]<=[2]"), _jaxlib.placement(on)
    executable = _jaxlib.compile(client, text, on, num_partitions=2)
    run = _jaxlib.make_runner(executable, [((4, 2), F32), ((), F32)], [rows, everywhere])
    whole = np.arange(8.0, dtype=F32).reshape(4, 2)
    x = _jaxlib.put_shards([whole[:2], whole[2:]], (4, 2), rows, on)
    y, total = run([x])
    assert (
        np.concatenate([_jaxlib.get(s) for s in _jaxlib.shards(y)]).tolist() == (2 * whole).tolist()
    )
    assert [float(_jaxlib.get(s)) for s in _jaxlib.shards(total)] == [56, 56]


def test_compiling_is_safe_from_several_threads(client: Any, device: Any) -> None:
    found: dict[int, list[float]] = {}

    def work(i: int) -> None:
        run = runner(client, ADD, ((4,), "f4"))
        x = _jaxlib.put(np.full(4, i, F32), device)
        found[i] = _jaxlib.get(run([x, x])[0]).tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [2 * i] * 4 for i in range(4)}


# --- callbacks and custom calls -------------------------------------------------------------------

CALLBACK = (
    "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    "%0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {api_version = 4 : i32, "
    "backend_config = {index = 0 : ui64}, has_side_effect = true} : (tensor<4xf32>) -> "
    "tensor<4xf32>\nreturn %0 : tensor<4xf32> }"
)


def test_python_is_called(client: Any, device: Any) -> None:
    callback = _jaxlib.make_callback(lambda x: 2 * x + 1, [((4,), F32)])
    run = runner(client, CALLBACK, ((4,), "f4"), host_callbacks=[callback])
    (y,) = run([_jaxlib.put(np.arange(4.0, dtype=F32), device)])
    assert _jaxlib.get(y).tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x[:2], r"must return what the program expects, \(float32\[4\]\)"),
        (lambda x: x.astype("f8"), r"got \(float64\[4\]\)"),
        (lambda x: (x, x), r"got \(float32\[4\], float32\[4\]\)"),
        (lambda x: None, r"got \(\)"),
        (lambda x: 1 / 0, "division by zero"),
    ],
)
def test_what_a_callback_returns_is_checked(
    function: Any, message: str, client: Any, device: Any
) -> None:
    callback = _jaxlib.make_callback(function, [((4,), F32)])
    run = runner(client, CALLBACK, ((4,), "f4"), host_callbacks=[callback])

    def use() -> None:
        _jaxlib.block_until_ready(run([_jaxlib.put(np.ones(4, F32), device)]))

    with pytest.raises(BackendError, match=message):
        use()


@pytest.mark.parametrize("text", ["no", "two\nlines", "  indented"])
def test_a_failing_callback_is_told_of_without_its_traceback(
    client: Any, device: Any, text: str
) -> None:
    def fail(x: Any) -> Any:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError(text) from error

    run = runner(
        client, CALLBACK, ((4,), "f4"), host_callbacks=[_jaxlib.make_callback(fail, [((4,), F32)])]
    )
    with pytest.raises(BackendError) as caught:
        _jaxlib.block_until_ready(run([_jaxlib.put(np.ones(4, F32), device)]))
    assert caught.value.args == (f"a host callback must not fail; got ValueError: {text} [X1]",)
    assert type(caught.value.__cause__) is ValueError
    assert caught.value.__cause__.args == (text,)


def test_lapack_is_there(client: Any, device: Any) -> None:
    names = _jaxlib.register_lapack()
    assert "lapack_spotrf_ffi" in names
    assert names <= _jaxlib.custom_call_targets("cpu")
    text = (
        "func.func @main(%a: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>) {\n"
        "%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {api_version = 4 : i32, "
        "backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>],"
        " result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}"
        " : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)\n"
        "return %0#0, %0#1 : tensor<2x2xf32>, tensor<i32> }"
    )
    run = runner(client, text, ((2, 2), "f4"), ((), "i4"))
    factor, info = run([_jaxlib.put(np.array([[4, 2], [2, 5]], F32), device)])
    assert np.tril(_jaxlib.get(factor)).tolist() == [[2, 0], [1, 2]]
    assert _jaxlib.get(info) == 0


def test_a_custom_call_needs_a_capsule() -> None:
    with pytest.raises(BackendError, match="with a PyCapsule; got 'mine'"):
        _jaxlib.register_target("mine", object())


# --- programs -------------------------------------------------------------------------------------


def test_programs_are_read_and_written() -> None:
    module = _jaxlib.parse(ADD)
    generic = _jaxlib.generic_text(module)
    assert '"stablehlo.add"' in generic
    assert "loc(" in generic
    assert _jaxlib.text(_jaxlib.parse(generic)) == _jaxlib.text(module)
    assert "loc(" not in _jaxlib.text(module)


@pytest.mark.parametrize(
    "program, message",
    [
        ("func.func @main() {\n  %0 = foo.bar\n  return }", "line 2, column 8: Dialect `foo'"),
        ("func.func @main() {\n return %0 : i32 }", "line 2, column 9: use of undeclared"),
        (WRONG, "line 2, column 6: 'stablehlo.add' op requires"),
        (b"ML\xefRnonsense", "a program must be valid StableHLO"),
        (b"", ""),
    ],
)
def test_what_does_not_parse_says_where(program: Any, message: str) -> None:
    if not program:
        return
    with pytest.raises(ArtifactError) as raised:
        _jaxlib.parse(program)
    assert message in str(raised.value)


def test_the_users_line_is_told() -> None:
    wrong = WRONG.replace("<5xf32>", '<5xf32> loc("model.py":41:2)')
    with pytest.raises(ArtifactError, match=r"model\.py:41: 'stablehlo\.add' op requires"):
        _jaxlib.parse(wrong)


def test_every_dialect_is_known() -> None:
    text = (
        'module {\nsdy.mesh @m = <["x"=2]>\n'
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%0 = chlo.erf %a : tensor<4xf32> -> tensor<4xf32>\n"
        '%1 = "mhlo.erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "return %1 : tensor<4xf32> } }"
    )
    module = _jaxlib.parse(text)
    before = _jaxlib.text(module)
    artifact = _jaxlib.serialize_artifact(module, _jaxlib.current_version())
    assert _jaxlib.text(module) == before
    back = _jaxlib.text(_jaxlib.parse(artifact))
    assert "chlo.erf" in back
    assert "mhlo.erf" in back
    assert _jaxlib.text(_jaxlib.clone(module)) == before


def test_artifacts_have_a_version() -> None:
    module = _jaxlib.parse(ADD)
    versions = [
        _jaxlib.minimum_version(), _jaxlib.compatible_version(12), _jaxlib.compatible_version(4),
        _jaxlib.current_version(),
    ]  # fmt: skip
    numbers = [tuple(map(int, v.split("."))) for v in versions]
    assert numbers == sorted(numbers)
    for version in versions:
        artifact = _jaxlib.serialize_artifact(module, version)
        assert version.encode() in artifact[:40]
        assert _jaxlib.text(_jaxlib.parse(artifact)) == _jaxlib.text(module)
    with pytest.raises(ArtifactError, match="form in StableHLO banana"):
        _jaxlib.serialize_artifact(module, "banana")


def test_passes_run_on_a_copy() -> None:
    text = ADD.replace("return %0", "%1 = stablehlo.add %a, %b : tensor<4xf32>\nreturn %0")
    module = _jaxlib.parse(text)
    assert _jaxlib.text(_jaxlib.run_passes(module, "canonicalize,cse")).count("add") == 1
    assert _jaxlib.text(module).count("stablehlo.add") == 2
    erf = ADD.replace('"stablehlo.add"(%a, %b)', '"chlo.next_after"(%a, %b)')
    lowered = _jaxlib.run_passes(_jaxlib.parse(erf), "func.func(chlo-legalize-to-stablehlo)")
    assert "chlo" not in _jaxlib.text(lowered)
    with pytest.raises(ArtifactError, match="'no-pass' does not refer to a registered pass"):
        _jaxlib.run_passes(module, "no-pass")


def test_open_dimensions_are_filled_in() -> None:
    text = (
        "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
        "%0 = stablehlo.add %a, %a : tensor<?xf32>\nreturn %0 : tensor<?xf32> }"
    )
    refined = _jaxlib.text(_jaxlib.refine_shapes(_jaxlib.parse(text), ["tensor<4xf32>"]))
    assert "?" not in refined
    assert "tensor<4xf32>" in refined
    with pytest.raises(ArtifactError):
        _jaxlib.refine_shapes(_jaxlib.parse(text), ["tensor<4x4xf32>"])


def test_hlo_is_read_and_written(client: Any) -> None:
    hlo = _jaxlib.to_hlo(_jaxlib.parse(ADD))
    assert "add(" in hlo
    assert "stablehlo.add" in _jaxlib.text(_jaxlib.from_hlo(hlo))
    optimised = _jaxlib.hlo_text(_jaxlib.compile(client, ADD))
    assert "mhlo.fusion" in _jaxlib.text(_jaxlib.from_hlo(optimised))
    with pytest.raises(ArtifactError, match="must be valid HLO"):
        _jaxlib.from_hlo("HloModule x\n junk")


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.name != "f8e8m0fnu"], ids=str)
def test_the_reference_interpreter_takes_every_type(dtype: DType) -> None:
    t = dtype.mlir
    array = np.array([[1, 0, 1], [0, 1, 2]]).astype(dtype.numpy)
    text = (
        f"func.func @main(%a: tensor<2x3x{t}>, %b: tensor<0x{t}>, %c: tensor<{t}>)"
        f" -> (tensor<3x2x{t}>, tensor<0x{t}>, tensor<{t}>) {{\n"
        f"%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x{t}>) -> tensor<3x2x{t}>\n"
        f"return %0, %b, %c : tensor<3x2x{t}>, tensor<0x{t}>, tensor<{t}> }}"
    )
    found = _jaxlib.evaluate(_jaxlib.parse(text), [array, array[0, :0], array[0, 0]])
    assert [a.dtype for a in found] == [dtype.numpy] * 3
    assert found[0].tobytes() == array.T.tobytes()
    assert found[1].shape == (0,)
    assert found[2] == array[0, 0]


def test_the_reference_interpreter_is_exact() -> None:
    text = (
        "func.func @main(%a: tensor<6xcomplex<f32>>) -> tensor<6xcomplex<f32>> {\n"
        "return %a : tensor<6xcomplex<f32>> }"
    )
    array = np.array([complex(np.inf, 1), -0.0, complex(0, -np.inf), 1e-45, 1j, 2], np.complex64)
    (found,) = _jaxlib.evaluate(_jaxlib.parse(text), [array])
    assert found.tobytes() == array.tobytes()


# --- beside and without jax -----------------------------------------------------------------------

USE = """
import numpy as np
from xlapy import _jaxlib
client = _jaxlib.cpu_client(2)
device = _jaxlib.devices(client)[0]
import ml_dtypes
for dtype in (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
    x = _jaxlib.put(np.ones(4, dtype), device)
    assert (_jaxlib.get(x) == 1).all()
executable = _jaxlib.compile(client, _jaxlib.generic_text(_jaxlib.parse(TEXT)))
run = _jaxlib.make_runner(
    executable, [((4,), np.dtype("f4"))], _jaxlib.placement(_jaxlib.devices(client)[:1])
)
x = _jaxlib.put(np.ones(4, np.float32), device)
assert _jaxlib.get(run([x, x])[0]).tolist() == [2] * 4
"""
JAX = """
import jax, jax.numpy as jnp
assert jax.jit(lambda x: x * 2)(jnp.ones(4)).tolist() == [2] * 4
"""


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.modules['jax'] = None\n" + USE,
        USE + "import sys; assert 'jax' not in sys.modules",
        JAX + USE + JAX,
        USE + JAX + USE,
    ],
    ids=["jax is missing", "jax is not imported", "after jax", "before jax"],
)
def test_jax_does_not_matter(program: str) -> None:
    if "import jax," in program:
        pytest.importorskip("jax")
    text = f"TEXT = {ADD!r}\n{program}"
    child = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", text],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert "PjRt" not in child.stderr
