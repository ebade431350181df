"""The layers of the package hold: who may import whom, where jaxlib stands, how long files are.

Imports are read from the syntax tree: one inside a function counts like one at the top.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "xlapy"
FILES = sorted(PACKAGE.rglob("*.py"))

# A unit is a module or a package directly under xlapy. It imports from lower layers, from itself,
# and, where its layer is not in SEPARATE, from its own layer as long as that makes no cycle.
# A new unit is added here on purpose.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "dtypes", "specs", "tree", "source", "memory", "rounding", "_jaxlib"}),
    frozenset({"tensor"}),
    frozenset({"trace"}),
    frozenset({"ops", "backends"}),
    frozenset(
        {
            "numpy",
            "random",
            "compilation",
            "dispatch",
            "staging",
            "differentiation",
            "vectorization",
            "jacobians",
            "methods",
            "signatures",
            "scalar_arguments",
            "stages",
            "control_flow",
            "host_transfer",
            "interchange",
            "replication",
        }
    ),
)
SEPARATE = frozenset({3})
# The package's face re-exports everything.
FACE = frozenset({"__init__"})

LAYER_OF = {unit: number for number, units in enumerate(LAYERS) for unit in units}
FORBIDDEN_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "core", "misc"})
LONGEST_FILE = 600


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name, and the line that imports it."""

    target: str
    line: int


def imports_of(source: str, package: tuple[str, ...]) -> Iterator[Import]:
    """Every import in a module's text; `package` is what a relative import starts from.

    `from a import b` yields `a.b`: whether b is a module or a name in one does not matter here.
    What stands under `if TYPE_CHECKING:` is never imported, so it is not one.
    """
    tree = ast.parse(source)
    unrun = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in unrun:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = (*base, *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                yield Import(".".join((*stem, alias.name)), node.lineno)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            if name in ("import_module", "__import__") and node.args:
                argument = node.args[0]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield Import(argument.value, node.lineno)


def file_imports(path: Path) -> list[Import]:
    package = ("xlapy", *path.relative_to(PACKAGE).parts[:-1])
    return list(imports_of(path.read_text(), package))


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_unit(item: Import) -> str | None:
    """The unit of xlapy that an import names; the empty string is the package's face."""
    parts = item.target.split(".")
    if parts[0] != "xlapy":
        return None
    unit = parts[1] if len(parts) > 1 else ""
    is_module = (PACKAGE / unit).is_dir() or (PACKAGE / f"{unit}.py").is_file()
    return unit if is_module and unit else ""


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE.parent))


def inner_files() -> list[Path]:
    return [path for path in FILES if path.parent != PACKAGE or path.stem not in FACE]


def test_the_table_names_what_there_is() -> None:
    assert set(LAYER_OF) == {unit_of(path) for path in inner_files()}


def test_imports_inside_functions_and_relative_ones_are_seen() -> None:
    source = (
        "import a.b\ndef f():\n    from ..trace import op\n    from . import rules\n"
        "    importlib.import_module('jaxlib.x')\n"
        "if TYPE_CHECKING:\n    import d\n"
    )
    found = [item.target for item in imports_of(source, ("xlapy", "ops"))]
    assert sorted(found) == ["a.b", "jaxlib.x", "xlapy.ops.rules", "xlapy.trace.op"]


@pytest.mark.parametrize("path", inner_files(), ids=name_of)
def test_a_module_imports_only_from_its_layer_and_lower_ones(path: Path) -> None:
    unit = unit_of(path)
    assert unit in LAYER_OF, f"{name_of(path)} is in no layer: add it to LAYERS in {__file__}"
    layer = LAYER_OF[unit]
    wrong = []
    for item in file_imports(path):
        target = imported_unit(item)
        if target is None or target == unit:
            continue
        where = f"{name_of(path)}:{item.line} imports {item.target}"
        if target == "":
            wrong.append(f"{where}: name the module, not the package's face")
        elif target not in LAYER_OF:
            wrong.append(f"{where}: in no layer")
        elif LAYER_OF[target] > layer:
            wrong.append(f"{where}: layer {LAYER_OF[target]} from layer {layer}")
        elif LAYER_OF[target] == layer and layer in SEPARATE:
            wrong.append(f"{where}: the units of layer {layer} do not import each other")
    assert not wrong, "\n".join(wrong)


def test_units_of_one_layer_import_each_other_without_a_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for path in inner_files():
        unit = unit_of(path)
        targets = {imported_unit(item) for item in file_imports(path)} - {None, "", unit}
        graph.setdefault(unit, set()).update(targets)
    finished: set[str] = set()

    def visit(unit: str, path: tuple[str, ...]) -> None:
        assert unit not in path, "a cycle: " + " -> ".join((*path[path.index(unit) :], unit))
        if unit in finished:
            return
        for target in sorted(graph.get(unit, ())):
            visit(target, (*path, unit))
        finished.add(unit)

    for unit in sorted(graph):
        visit(unit, ())


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_jaxlib_stands_in_its_adapter_only_and_jax_nowhere(path: Path) -> None:
    wrong = []
    for item in file_imports(path):
        root = item.target.split(".")[0]
        if root == "jax" or (root in ("jaxlib", "jax_plugins") and unit_of(path) != "_jaxlib"):
            wrong.append(f"{name_of(path)}:{item.line} imports {item.target}")
    assert not wrong, "\n".join(wrong)


def test_the_interpreter_reaches_no_jaxlib() -> None:
    """What defines the meaning of each operation runs without the compiler it is compared with."""
    for path in FILES:
        if path.stem == "interpreter":
            for item in file_imports(path):
                assert imported_unit(item) != "_jaxlib", f"{name_of(path)}:{item.line}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_one_idea_with_a_name(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST_FILE, f"{lines} lines: split it where it stops being one idea"
    parts = {part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts}
    assert not parts & FORBIDDEN_NAMES
