"""Promises of the project as a whole: a light import, and documentation that runs."""

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import xlapy

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "xlapy"

FENCED_BLOCK = re.compile(
    r"^```python(?P<info>[^\n]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL
)


def module_names() -> list[str]:
    """Every module of the package, without importing any."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def documents() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if path.is_file()]


def public_functions(module: ModuleType) -> dict[str, Callable[..., object]]:
    """What a module offers: its `__all__`, or without one the public names that it has."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name in vars(module) if not name.startswith("_")]
    members = {name: getattr(module, name) for name in names}
    return {
        name: member
        for name, member in members.items()
        if callable(member) and getattr(member, "__module__", "").startswith("xlapy")
    }


def public_modules() -> list[ModuleType]:
    """The package's face and the modules that stand in it."""
    inner = [member for name, member in vars(xlapy).items() if not name.startswith("_")]
    return [xlapy, *(m for m in inner if inspect.ismodule(m) and m.__name__.startswith("xlapy."))]


def test_the_version_is_the_documented_one() -> None:
    assert f"Version {xlapy.__version__}," in (ROOT / "README.md").read_text()
    assert f"## {xlapy.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_import_opens_no_device_and_loads_no_compiler() -> None:
    program = (
        "import sys, xlapy\n"
        "heavy = {name.split('.')[0] for name in sys.modules} & {'jaxlib', 'jax', 'scipy'}\n"
        "sys.exit(' '.join(sorted(heavy)) or 0)\n"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


def test_the_interpreter_runs_without_jaxlib() -> None:
    program = (
        "import sys\n"
        "sys.modules['jaxlib'] = None\n"
        "import numpy as np, xlapy\n"
        "with xlapy.use_backend('interpreter'):\n"
        "    y = np.asarray(xlapy.asarray(np.arange(3.0, dtype='f4')) + 1)\n"
        "assert y.tolist() == [1.0, 2.0, 3.0], y\n"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_public_functions_are_documented(module: ModuleType) -> None:
    silent = [
        name for name, member in public_functions(module).items() if not inspect.getdoc(member)
    ]
    assert not silent, f"no docstring in {module.__name__}: {', '.join(silent)}"


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)  # an example may write a file
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    finder = doctest.DocTestFinder(exclude_empty=True)
    report: list[str] = []
    # The two imports that every page shows need not stand in each example.
    for test in finder.find(module, name, extraglobs={"np": np, "xlapy": xlapy}):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_code_in_documents_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page's ```python blocks run in order in one namespace; "fragment" marks one that cannot."""
    text = path.read_text()
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": path.stem}
    for block in FENCED_BLOCK.finditer(text):
        if "fragment" in block["info"]:
            continue
        line = text.count("\n", 0, block.start("code"))
        code = block["code"]
        if code.lstrip().startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, namespace, path.name, str(path), line)
            runner = doctest.DocTestRunner(
                optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
            )
            report: list[str] = []
            result = runner.run(test, out=report.append, clear_globs=False)
            assert result.failed == 0, "".join(report)
            namespace = test.globs
        else:
            # Blank lines in front: an error names the line of the page.
            exec(compile("\n" * line + code, str(path), "exec"), namespace)
