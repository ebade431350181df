"""`export`: what is written, for which versions, and that it comes back the same on every backend."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import ArtifactError, BackendError, DTypeError, UnsupportedOpError

X = np.array([0.5, -1.5, 2.0], np.float32)
BACKENDS = ["pjrt:cpu", "interpreter"]


def f(x: Any) -> Any:
    return xlapy.sum(xlapy.tanh(x) * 2), xlapy.sort(x)


def check(function: Any) -> None:
    total, ordered = function(X)
    np.testing.assert_allclose(total.item(), (np.tanh(X) * 2).sum(), rtol=1e-6)
    np.testing.assert_array_equal(ordered.numpy(), np.sort(X))


# --- out and in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["program.mlirbc", "program.mlir", "no ending"])
def test_saved_and_loaded(name: str, tmp_path: Path) -> None:
    artifact = xlapy.export(f, "f32[3]")
    path = artifact.save(tmp_path / name)
    assert path == tmp_path / name
    assert path.read_bytes().startswith(b"ML\xef") == (not name.endswith(".mlir"))
    for given in (path, str(path), path.read_bytes()):
        check(xlapy.from_stablehlo(given))
    assert artifact.save(os.fsencode(path)) == path  # over the first
    assert os.listdir(tmp_path) == [name]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_artifact_runs_everywhere(backend: str) -> None:
    artifact = xlapy.export(f, "f32[3]")
    check(lambda x: artifact.load()(x, backend=backend))
    with xlapy.use_backend(backend):
        loaded = artifact.load()
        check(loaded)
        assert loaded(X)[0].backend.name == backend
        check(xlapy.from_stablehlo(artifact.stablehlo_text))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_is_read_for_a_backend(backend: str) -> None:
    other = next(b for b in BACKENDS if b != backend)
    hlo = xlapy.compile(f).lower(X).hlo_text
    text = xlapy.export(f, "f32[3]").stablehlo_text
    any_size = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    for read, given in ((xlapy.from_stablehlo, text), (xlapy.from_hlo, hlo)):
        loaded = read(given, backend=backend)
        check(loaded)
        assert loaded(X)[1].backend.name == backend
        assert loaded(xlapy.asarray(X, device=other))[1].backend.name == backend
        assert loaded(X, backend=other)[1].backend.name == other
        with refused(BackendError, "backend must be one of"):
            read(given, backend="nowhere")
    assert xlapy.from_stablehlo(any_size, backend=backend)(X).backend.name == backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_imported_program_is_a_function_like_any_other(backend: str) -> None:
    loaded = xlapy.export(lambda x: xlapy.sum(xlapy.sin(x) * x), "f32[3]").load()
    with xlapy.use_backend(backend):
        expected = np.cos(X) * X + np.sin(X)
        for gradient in (xlapy.grad(loaded), xlapy.compile(xlapy.grad(loaded))):
            np.testing.assert_allclose(gradient(X).numpy(), expected, rtol=1e-6)
        twice = xlapy.grad(lambda x: xlapy.sum(xlapy.grad(loaded)(x)))(X)
        np.testing.assert_allclose(twice.numpy(), 2 * np.cos(X) - np.sin(X) * X, rtol=1e-5)
        rows = xlapy.vmap(loaded)(np.stack([X, 2 * X]))
        np.testing.assert_allclose(
            rows.numpy(), [(np.sin(s * X) * s * X).sum() for s in (1, 2)], rtol=1e-6
        )
        inner = xlapy.compile(lambda x: loaded(x * 2) + 1)(X)
        np.testing.assert_allclose(inner.item(), (np.sin(2 * X) * 2 * X).sum() + 1, rtol=1e-6)


def test_a_loop_comes_back_with_its_gradient() -> None:
    loop = xlapy.export(
        lambda x: xlapy.while_loop(lambda s: s < 100.0, lambda s: s * x, x), "f32[]"
    ).load()
    assert loop(2.0).item() == 128
    assert xlapy.grad(loop)(2.0).item() == 7 * 2**6


EDGES = np.array([-3, -1, -0.5, 0, 1e-3, 0.5, 1, 2, 3], np.float32)
FUNCTIONS_OF_CHLO = {
    "acos acosh asin asinh atan atanh cosh digamma erf erf_inv erfc lgamma sinh": EDGES,
    "bessel_i1e square": EDGES,
    "gelu log2 log10": 2 * EDGES,
}


@pytest.mark.parametrize(
    ("name", "x"), [(n, x) for names, x in FUNCTIONS_OF_CHLO.items() for n in names.split()]
)
def test_functions_keep_their_derivatives_at_the_edges(name: str, x: Any) -> None:
    function = getattr(ops, name, None) or getattr(xlapy, name)
    loaded = xlapy.export(function, xlapy.TensorSpec(x.shape, "f32")).load()

    def slopes(g: Any) -> Any:
        return xlapy.grad(lambda x: xlapy.sum(g(x)))(x).numpy()

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(loaded(x).numpy(), function(x).numpy(), rtol=1e-6)
        np.testing.assert_allclose(slopes(loaded), slopes(function), rtol=1e-6)


def test_functions_of_arrays_of_any_size_keep_their_derivatives() -> None:
    loaded = xlapy.from_stablehlo(xlapy.export(ops.erfc, "f32[?]").serialize())
    slopes = xlapy.grad(lambda x: xlapy.sum(loaded(x)))(EDGES)
    np.testing.assert_allclose(slopes.numpy(), -2 / np.sqrt(np.pi) * np.exp(-(EDGES**2)), rtol=1e-6)


def test_remainders_and_next_numbers_keep_their_derivatives() -> None:
    for function in (xlapy.remainder, xlapy.fmod, ops.next_after):
        loaded = xlapy.export(function, "f32[]", "f32[]").load()
        for x, y in ((3.0, 1.0), (-2.0, 1.0), (2.0, -0.5), (0.0, 1.0), (2.25, 0.5)):
            x, y = np.float32(x), np.float32(y)
            assert np.array_equal(loaded(x, y).numpy(), function(x, y).numpy())
            for i in (0, 1):
                found, expected = (xlapy.grad(g, i)(x, y).item() for g in (loaded, function))
                assert found == expected


def test_a_composite_is_the_function_of_its_name_only_where_it_fits() -> None:
    program = """
    func.func private @made(%x: tensor<2xf32>) -> tensor<RESULT> { BODY
      return %y : tensor<RESULT> }
    func.func @main(%x: tensor<2xf32>) -> tensor<RESULT> {
      %y = stablehlo.composite "NAME" %x {ATTRIBUTES decomposition = @made} : (tensor<2xf32>) -> tensor<RESULT>
      return %y : tensor<RESULT> }"""
    negated = "%y = stablehlo.negate %x : tensor<2xf32>"
    finite = "%y = stablehlo.is_finite %x : (tensor<2xf32>) -> tensor<2xi1>"
    other = [("chlo.erfc", "composite_attributes = {n = 1 : i64},"), ("chlo.zeta", "")]
    for name, attributes in [*other, ("chlo.unknown", ""), ("my.erfc", "")]:
        text = program.replace("NAME", name).replace("ATTRIBUTES", attributes)
        loaded = xlapy.from_stablehlo(text.replace("BODY", negated).replace("RESULT", "2xf32"))
        assert loaded(np.float32([1, 2])).tolist() == [-1, -2]
    text = program.replace("NAME", "chlo.erfc").replace("ATTRIBUTES", "")
    loaded = xlapy.from_stablehlo(text.replace("BODY", finite).replace("RESULT", "2xi1"))
    assert loaded(np.float32([1, np.inf])).tolist() == [True, False]
    pair = """
    func.func private @made(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      return %x, %x : tensor<2xf32>, tensor<2xf32> }
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y:2 = stablehlo.composite "chlo.erfc" %x {decomposition = @made}
        : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
      return %y#1 : tensor<2xf32> }"""
    assert xlapy.from_stablehlo(pair)(np.float32([1, 2])).tolist() == [1, 2]
    named = xlapy.from_stablehlo(text.replace("BODY", negated).replace("RESULT", "2xf32"))
    assert [i.op.name for i in named.computation.instructions] == ["erfc"]


def test_text_written_again_is_the_same() -> None:
    artifact = xlapy.export(f, "f32[3]")
    loaded = xlapy.from_stablehlo(artifact.stablehlo_text)
    again = xlapy.export(loaded).load()
    assert repr(again.computation) == repr(xlapy.export(again).load().computation)
    check(again)


# --- what is written --------------------------------------------------------------------------------------------------


def test_an_artifact_stands_alone() -> None:
    w = xlapy.asarray(X)
    artifact = xlapy.export(lambda x: x * w, "f32[3]")
    w.delete()
    assert artifact.load()(X).tolist() == (X * X).tolist()
    assert repr(artifact) == "Artifact(<lambda>: f32[3] -> f32[3])"


def test_containers_examples_and_no_arguments() -> None:
    def g(p: Any, n: Any) -> Any:
        return {"out": p["w"] * n, "b": p["b"]}

    artifact = xlapy.export(g, {"w": "f32[3]", "b": X}, 2.0)
    assert [str(s) for s in artifact.computation.parameter_specs] == ["f32[3]", "f32[3]", "f32[]"]
    assert xlapy.export(lambda: xlapy.ones(2)).load()().tolist() == [1, 1]
    assert xlapy.export(lambda x: (), "f32[]").load()(1.0) == ()


def test_element_types_and_special_values_are_exact() -> None:
    constants = [
        np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324]),
        np.array([2**63 - 1, -(2**63)]),
        np.array([2**64 - 1], np.uint64),
        np.array([1 + 2j, complex(np.nan, -np.inf)]),
        np.array([True, False]),
        np.float16([1e-7, 65504]),
    ]
    loaded = xlapy.export(lambda: [ops.constant(c) for c in constants])
    for found, expected in zip(loaded.load()(), constants, strict=True):
        assert found.numpy().tobytes() == expected.tobytes()


def test_locations_are_the_users() -> None:
    text = xlapy.export(f, "f32[3]").stablehlo_text
    assert f'"{__file__}"' in text or os.path.basename(__file__) in text


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.9.0", "1.0.0", "1.4.0", None])
def test_versions(version: str | None) -> None:
    artifact = xlapy.export(f, "f32[3]", version=version, platforms="cpu")
    assert artifact.platforms == ("cpu",)
    data = artifact.serialize()
    if version is not None:
        assert f"StableHLO_v{version}".encode() in data
    check(xlapy.from_stablehlo(data))


@pytest.mark.parametrize(
    "version", ["0.0.1", "99.0.0", "abc", "", "1", "1.0", "1.0.0.0", "-1.0.0", 1, 1.4, (1, 0, 0)]
)
def test_versions_out_of_range(version: Any) -> None:
    with refused(ArtifactError, "version must be one of StableHLO from"):
        xlapy.export(f, "f32[3]", version=version)


@pytest.mark.parametrize("version", ["0.9.0", "0.18.0", "0.19.0", None])
def test_versions_without_composites_hold_what_functions_are_made_of(version: str | None) -> None:
    for function in (ops.erf, ops.erfc, ops.asin, ops.sinh, ops.lgamma):
        data = xlapy.export(function, "f32[3]", version=version).serialize()
        loaded = xlapy.from_stablehlo(data)
        np.testing.assert_allclose(loaded(X).numpy(), function(X).numpy(), rtol=1e-5)
        names = {i.op.name for i in loaded.computation.instructions}
        assert ({function.__name__} == names) == (version in (None, "0.19.0"))


def test_what_a_version_lacks() -> None:
    def narrow(x: Any) -> Any:
        return x.astype("f4e2m1fn").astype("f32")

    assert xlapy.export(narrow, "f32[3]").serialize()
    with pytest.raises(ArtifactError, match="1.0.0"):
        xlapy.export(narrow, "f32[3]", version="1.0.0")


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    artifact = xlapy.export(f, "f32[3]")
    (tmp_path / "file").write_text("kept")
    for path in (
        tmp_path / "missing" / "a.mlirbc",
        tmp_path / "file" / "a.mlirbc",
        tmp_path,
        tmp_path / ("a" * 300),
        "a\0b",
        3,
        None,
    ):
        with refused(ArtifactError):
            artifact.save(path)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


def test_programs_that_cannot_be_read(tmp_path: Path) -> None:
    data = xlapy.export(f, "f32[3]").serialize()
    (tmp_path / "empty").write_bytes(b"")
    for given in (b"", "", tmp_path, tmp_path / "missing", tmp_path / "empty", 3, None, [data], X):
        with refused(ArtifactError):
            xlapy.from_stablehlo(given)  # type: ignore[arg-type]
        with refused(ArtifactError):
            xlapy.from_hlo(given)  # type: ignore[arg-type]
    for given in (
        data[:50],
        data[:-10],
        b"ML\xefR",
        data[:4] + b"\xff" * 100,
        b"module",
        "module {",
    ):
        with pytest.raises(ArtifactError, match="X6"):
            xlapy.from_stablehlo(given)


GLOBAL = {"channel_id": 1, "use_global_device_ids": True}
WITHOUT_GROUPS = {
    "all_reduce": lambda x: ops.all_reduce(x, ops.add, **GLOBAL),
    "all_gather": lambda x: ops.all_gather(x, 0, 2, **GLOBAL),
    "reduce_scatter": lambda x: ops.reduce_scatter(x, ops.add, 0, 2, **GLOBAL),
    "within a loop": lambda x: xlapy.fori_loop(
        0, 2, lambda i, s: ops.all_reduce(s, ops.add, **GLOBAL), x
    ),
}


@pytest.mark.parametrize("name", WITHOUT_GROUPS)
def test_all_devices_have_no_text_until_their_number_is_known(name: str) -> None:
    f = WITHOUT_GROUPS[name]
    message = r"replica_groups must be written out for use_global_device_ids in StableHLO; got \(\)"
    lowered = xlapy.compile(f).lower(xlapy.TensorSpec((2,), "f32"))
    for write in (
        lambda: xlapy.export(f, "f32[2]"),
        lambda: xlapy.export(f, "f32[2]", version="1.4.0"),
        lambda: lowered.stablehlo_text,
        lambda: lowered.hlo_text,
    ):
        with refused(UnsupportedOpError, message):
            write()
    replicated = xlapy.replicate(f, num_replicas=2).lower(np.ones((2, 2), np.float32))
    assert "dense<[[0, 1]]>" in replicated.stablehlo_text
    assert "all" in replicated.hlo_text or "reduce-scatter" in replicated.hlo_text
    exported = xlapy.export(xlapy.replicate(f, num_replicas=2), "f32[2,2]")
    assert "dense<[[0, 1]]>" in exported.stablehlo_text


def test_all_devices_are_the_one_of_a_program_that_runs() -> None:
    f = WITHOUT_GROUPS["all_reduce"]
    x = np.ones(2, np.float32)
    for run in (
        f,
        xlapy.compile(f),
        lambda x: xlapy.jvp(f, (x,), (x,))[1],
        xlapy.compile(f).lower(x).compile(),
    ):
        assert np.asarray(run(xlapy.asarray(x))).tolist() == [1, 1]


def test_arguments_that_do_not_fit() -> None:
    loaded = xlapy.export(f, "f32[3]").load()
    for args in ((np.ones(4, np.float32),), (np.ones(3),), (), (X, X), ({"a": X},), ("a",)):
        with refused(DTypeError):
            loaded(*args)
    with refused(ArtifactError, "must not be given specs besides its own"):
        xlapy.export(loaded, "f32[3]")
    for platforms in (3, [1], None):
        with refused(ArtifactError, "platforms must be names"):
            xlapy.export(f, "f32[3]", platforms=platforms)  # type: ignore[arg-type]


def test_the_entry_must_be_a_function_of_the_program() -> None:
    text = xlapy.export(lambda x: x * 2, "f32[2]").stablehlo_text
    assert xlapy.from_stablehlo(text, "main")(np.ones(2, np.float32)).tolist() == [2, 2]
    for entry in ("double", "", 3):
        with refused(ArtifactError, "must have a function"):
            xlapy.from_stablehlo(text, entry)  # type: ignore[arg-type]
