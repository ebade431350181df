"""Every message in the package has the one form: what must hold; got the value [label].

The package's text is read for all places that make an error. Where a sentence arrives as a parameter, those who give
it are looked at instead.
"""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import xlapy
from xlapy import errors

PACKAGE = Path(xlapy.__file__).parent
OURS = {
    name
    for name in errors.__all__
    if isinstance(found := getattr(errors, name), type) and issubclass(found, errors.XlapyError)
}
FORM = re.compile(r"\bmust\b.*; got\s.*\[(?:[CIX]\d+|\{\w*\})\]", re.DOTALL)
LABEL = re.compile(r"[CIX]\d+|\{\w*\}")
#: `require` and its like: the places of the label, the sentence and the value among their arguments
CHECKS = {"require": (1, 2, 3), "require_shape": (1, 2, 3), "require_dtype": (1, 2, 3)}

#: (module, function) whose message is another error's, which has the form, or what a program says of itself
PASSED_ON = {
    ("backends/pjrt.py", "_refusing.run"),
    ("backends/pjrt.py", "Pjrt.group"),
    ("compilation.py", "CompiledFunction._leaf_tensor"),
    ("ops/shape_calls.py", "_refused"),
}
#: (module, function) that raises another class than ours, and why
OTHERS = {
    ("_jaxlib/__init__.py", "__getattr__"): "Python asks modules for attributes",
    ("_jaxlib/callbacks.py", "make_callback.call"): "raised into XLA, whose error carries it",
    ("_jaxlib/isolation.py", "*"): "caught by those who read in another process",
    ("backends/executable_cache.py", "*"): "caught: the cache does without the directory",
    ("dispatch.py", "*"): "caught: the arguments take the longer way",
    ("interchange/quantized_types.py", "parse_quantized"): "caught in the function",
    ("staging.py", "_flat"): "caught: the arguments take the longer way",
    ("tensor.py", "Tensor.__array__"): "numpy's protocol asks for a ValueError",
    ("tensor.py", "Tensor.__dlpack__"): "the protocol asks for a BufferError",
    ("trace/stablehlo_reader.py", "_parse_type"): "caught in the function",
}


class Function:
    """A function of the package, or a module's own statements, and the texts that its names stand for."""

    def __init__(self, module: str, name: str, node: ast.AST, outer: "Function | None") -> None:
        self.module, self.name, self.outer = module, name, outer
        self.parameters: list[str] = []
        self.defaults: dict[str, ast.expr] = {}
        self.assigned: dict[str, list[ast.expr]] = {}
        if isinstance(node, ast.FunctionDef):
            positional = [*node.args.posonlyargs, *node.args.args]
            self.parameters = [a.arg for a in (*positional, *node.args.kwonlyargs)]
            given = node.args.defaults
            self.defaults = dict(
                zip([a.arg for a in positional[len(positional) - len(given) :]], given, strict=True)
            )


def walk(node: ast.AST, function: Function) -> Iterator[tuple[ast.AST, Function]]:
    """Every node below, with the function that it stands in."""
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{function.name}.{child.name}" if function.name else child.name
            inner = Function(function.module, name, child, function)
        elif isinstance(child, ast.Assign):
            for target in child.targets:
                if isinstance(target, ast.Name):
                    function.assigned.setdefault(target.id, []).append(child.value)
                elif isinstance(target, ast.Tuple) and isinstance(child.value, ast.Tuple):
                    for part, value in zip(target.elts, child.value.elts, strict=False):
                        if isinstance(part, ast.Name):
                            function.assigned.setdefault(part.id, []).append(value)
        yield child, inner
        yield from walk(child, inner)


@cache
def nodes() -> list[tuple[ast.AST, Function]]:
    """The whole package."""
    found: list[tuple[ast.AST, Function]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = Function(path.relative_to(PACKAGE).as_posix(), "", ast.Module(), None)
        found += walk(ast.parse(path.read_text()), module)
    return found


def called(node: ast.AST) -> str:
    """The last name of what is called."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return getattr(function, "id", "") or getattr(function, "attr", "")


@cache
def calls() -> dict[str, list[tuple[ast.Call, Function]]]:
    """All calls, by the name of what is called."""
    found: dict[str, list[tuple[ast.Call, Function]]] = {}
    for node, function in nodes():
        if isinstance(node, ast.Call):
            found.setdefault(called(node), []).append((node, function))
    return found


def argument(call: ast.Call, name: str, place: int) -> ast.expr | None:
    """What a call gives for a parameter."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[place] if place < len(call.args) else None


def texts(node: ast.expr, function: Function, within: frozenset[object] = frozenset()) -> set[str]:
    """What an expression may be, with ``{name}`` for what is known only when it runs."""
    if isinstance(node, ast.Constant):
        return {str(node.value)}
    if isinstance(node, ast.JoinedStr):
        parts = [
            p.value if isinstance(p, ast.Constant) else f"{{{getattr(p.value, 'id', '')}}}"
            for p in node.values
            if isinstance(p, ast.Constant | ast.FormattedValue)
        ]
        whole = "".join(map(str, parts))
        if FORM.search(whole) or "must" in whole:
            return {whole}
        # The sentence is a parameter or a variable: everything that it may be in its place.
        found = {whole}
        for p in node.values:
            if isinstance(p, ast.FormattedValue) and isinstance(p.value, ast.Name):
                inner = texts(p.value, function, within)
                if any("must" in i for i in inner):
                    found = {t.replace(f"{{{p.value.id}}}", i) for t in found for i in inner}
        return found
    if isinstance(node, ast.BinOp):
        return {
            a + b
            for a in texts(node.left, function, within)
            for b in texts(node.right, function, within)
        }
    if isinstance(node, ast.IfExp):
        return texts(node.body, function, within) | texts(node.orelse, function, within)
    if isinstance(node, ast.Name) and (function.module, function.name, node.id) not in within:
        within |= {(function.module, function.name, node.id)}
        scope: Function | None = function
        while scope is not None:
            if node.id in scope.assigned:
                return {t for v in scope.assigned[node.id] for t in texts(v, scope, within)}
            if node.id in scope.parameters:
                return given(scope, node.id, within)
            scope = scope.outer
    return {f"{{{getattr(node, 'id', '')}}}"}


def given(function: Function, name: str, within: frozenset[object]) -> set[str]:
    """What the callers of a function give for a parameter, and its default."""
    own = function.name.split(".")[-1]
    place = function.parameters.index(name)
    if function.parameters[0] == "self":
        place -= 1
    found: set[str] = set()
    if name in function.defaults:
        found |= texts(function.defaults[name], function, within)
    for call, caller in calls().get(own, []):
        if own.startswith("_") and caller.module != function.module:
            continue
        value = argument(call, name, place)
        if value is not None:
            found |= texts(value, caller, within)
    return found or {f"{{{name}}}"}


def places() -> list[tuple[str, str, int, ast.Call, Function]]:
    """(kind, module, line, call, function) of all that makes an error."""
    return [
        ("check" if called(node) in CHECKS else "error", function.module, node.lineno, node, function)
        for node, function in nodes()
        if isinstance(node, ast.Call)
        and (called(node) in OURS or called(node) in CHECKS)
        and (function.module, function.name) not in PASSED_ON
        and not (function.module == "specs.py" and function.name.startswith("require"))
    ]  # fmt: skip


def test_every_error_says_what_must_hold_and_what_was_given() -> None:
    wrong = []
    for kind, module, line, call, function in places():
        if kind == "error":
            found = texts(call.args[0], function) if call.args else {""}
            wrong += [f"{module}:{line}: {t!r}" for t in found if not FORM.search(t)]
            continue
        label, sentence, value = CHECKS[called(call)]
        told = argument(call, "what", sentence)
        assert told is not None
        wrong += [f"{module}:{line}: {t!r}" for t in texts(told, function) if "must" not in t]
        labelled = argument(call, "label", label)
        assert labelled is not None
        if isinstance(labelled, ast.Constant) and not LABEL.fullmatch(str(labelled.value)):
            wrong.append(f"{module}:{line}: the label {labelled.value!r}")
        if argument(call, "got", value) is None:
            wrong.append(f"{module}:{line}: no value")
    assert not wrong, "\n".join(wrong)


def test_other_classes_are_raised_where_it_is_said_why() -> None:
    wrong = []
    for node, function in nodes():
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        name = called(node.exc) or getattr(node.exc, "id", "")
        if name == "AssertionError" or not hasattr(builtins, name):
            continue
        module = function.module
        if (module, "*") not in OTHERS and (module, function.name) not in OTHERS:
            wrong.append(f"{module}:{node.lineno}: {name} in {function.name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", sorted(OURS))
def test_every_class_shows_the_mistake_and_the_fix(kind: str) -> None:
    text = getattr(errors, kind).__doc__
    assert kind == "XlapyError" or "The mistake:" in text
