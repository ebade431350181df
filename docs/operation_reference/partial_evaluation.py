"""Following Python functions as far as they can be known without their arguments.

A function is followed as it would run, with everything that depends on its arguments left open: both ways of a branch
that is open are taken, a loop over a known table is run, and calls of the package's own functions are followed.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import operator
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from operation_reference.partial_values import (
    Choice,
    LocalFunction,
    Scope,
    Sentence,
    Unknown,
    is_known,
    sentence_of,
)
from xlapy.ops.regions import listed

__all__ = ["Evaluator"]

# --- what is run as it stands -----------------------------------------------------------------------------------------

#: functions of Python that may be given values that are known in part
_STRUCTURAL: Final = (enumerate, reversed, len, tuple, list, iter)
_PURE: Final = (
    *_STRUCTURAL, abs, all, any, bool, dict, frozenset, int, max, min, range, repr, set, sorted, str, sum,
)  # fmt: skip
_PURE_METHODS: Final = frozenset(
    ("items", "keys", "values", "get", "join", "upper", "lower", "index", "count", "removesuffix", "removeprefix")
)  # fmt: skip
_BINARY: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.LShift: operator.lshift,
    ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_, ast.Div: operator.truediv, ast.RShift: operator.rshift, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARISONS: Final[dict[type, Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
#: the deepest calls that are followed
_DEEPEST: Final = 30
#: the longest expression that stands for a variable
_LONGEST: Final = 20


@functools.cache
def _module_tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def _node_of(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda | None:
    """The definition of a function, by its line; a line with several lambdas is told by their arguments."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for node in ast.walk(_module_tree(function.__module__)):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            first = (
                node.decorator_list[0].lineno
                if getattr(node, "decorator_list", ())
                else node.lineno
            )
            arguments = [
                a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            ]
            named = isinstance(node, ast.Lambda) or node.name == code.co_name
            if first == code.co_firstlineno and tuple(arguments) == names and named:
                return node
    return None


class Evaluator:
    """Follows functions; what it notices on the way is up to a subclass."""

    def __init__(self) -> None:
        self._depth = 0
        self._results: dict[Any, Any] = {}

    # --- what is noticed --------------------------------------------------------------------------------------

    def noticed(
        self,
        node: ast.Call,
        function: Any,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        scope: Scope,
    ) -> bool:
        """Take note of a call; whether it needs not be followed."""
        return False

    def raised(self, node: ast.Raise, scope: Scope) -> None:
        """Take note of an error that is raised outright."""

    # --- calls ------------------------------------------------------------------------------------------------

    def function(
        self,
        function: Any,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        complete: bool = True,
    ) -> Any:
        """Follow a function of the package; unless the arguments are `complete`, those missing are unknown."""
        node = _node_of(function)
        if node is None:
            return Unknown(function.__name__)
        outer: dict[str, Any] = dict(function.__globals__)
        cells = function.__closure__ or ()
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            try:
                outer[name] = cell.cell_contents
            except ValueError:
                outer[name] = Unknown(name)
        defaults = {}
        signature = inspect.signature(function)
        for name, parameter in signature.parameters.items():
            if complete and parameter.default is not inspect.Parameter.empty:
                defaults[name] = parameter.default
        site = f"{function.__module__}.{function.__qualname__}".replace(".<locals>", "")
        key = (function, repr(arguments), repr(sorted(keywords.items())), complete)
        if key not in self._results:
            self._results[key] = Unknown(function.__name__)  # what a recursive call gives
            self._results[key] = self._run(
                node, Scope({}, outer, site), arguments, keywords, defaults
            )
        return self._results[key]

    def _run(
        self,
        node: ast.FunctionDef | ast.Lambda,
        scope: Scope,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        defaults: Mapping[str, Any],
    ) -> Any:
        if self._depth > _DEEPEST:
            return Unknown("...")
        positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        for name in (*positional, *[a.arg for a in node.args.kwonlyargs]):
            scope.names[name] = keywords.get(name, defaults.get(name, Unknown(name)))
        scope.names.update(zip(positional, arguments))
        if node.args.vararg is not None:
            rest = tuple(arguments[len(positional) :])
            scope.names[node.args.vararg.arg] = rest or Unknown(node.args.vararg.arg)
        if node.args.kwarg is not None:
            extra = {k: v for k, v in keywords.items() if k not in scope.names}
            scope.names[node.args.kwarg.arg] = extra or Unknown(node.args.kwarg.arg)
        self._depth += 1
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body, scope)
            self.block(node.body, scope)
        finally:
            self._depth -= 1
        first, *others = scope.returned or [None]
        same = is_known(first) and all(is_known(o) and _equal(o, first) for o in others)
        return first if same or not others else Unknown(node.name)

    def call(self, node: ast.Call, scope: Scope) -> Any:
        """A call: a function of the package is followed, one of Python run where it can be."""
        function = self.value(node.func, scope)
        arguments: list[Any] = []
        complete = True
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                given = self.value(argument.value, scope)
                if not isinstance(given, tuple | list):
                    arguments.append(Unknown(self.text(argument.value, scope)))
                    complete = False
                    continue
                arguments.extend(given)
            else:
                arguments.append(self.value(argument, scope))
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            given = self.value(keyword.value, scope)
            if keyword.arg is not None:
                keywords[keyword.arg] = given
            elif isinstance(given, dict):
                keywords |= given
            else:
                complete = False
        if isinstance(function, functools.partial):
            arguments = [*function.args, *arguments]
            keywords = {**function.keywords, **keywords}
            function = function.func
        function = inspect.unwrap(function) if callable(function) else function
        unknown = Unknown(self.text(node, scope))
        if function is listed:
            return unknown
        if self.noticed(node, function, arguments, keywords, scope):
            return None
        if isinstance(function, types.MethodType) and is_followed(function.__func__):
            return self.function(
                function.__func__, [function.__self__, *arguments], keywords, complete
            )
        if isinstance(function, types.FunctionType) and is_followed(function):
            return self.function(function, arguments, keywords, complete)
        if isinstance(function, LocalFunction):
            inner = Scope(dict(function.scope.names), function.scope.outer, function.scope.site)
            defaults = self._local_defaults(function.node, function.scope)
            return self._run(function.node, inner, arguments, keywords, defaults)
        if function is zip:
            return self._zip(arguments, unknown)
        method = (
            isinstance(function, types.BuiltinMethodType) and function.__name__ in _PURE_METHODS
        )
        if (
            function in _PURE if isinstance(function, type | types.BuiltinFunctionType) else False
        ) or method:
            structural = function in _STRUCTURAL or (
                method and function.__name__ in ("items", "keys", "values")
            )
            if structural and any(isinstance(a, Unknown | Choice | Sentence) for a in arguments):
                return unknown
            if structural or (is_known(arguments) and is_known(keywords)):
                return _attempt(lambda: _settled(function(*arguments, **keywords)), unknown)
        return unknown

    def _local_defaults(self, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> dict[str, Any]:
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        given = dict(zip(names[::-1], node.args.defaults[::-1]))
        given |= {
            a.arg: d for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None
        }
        return {name: self.value(default, scope) for name, default in given.items()}

    def _zip(self, arguments: Sequence[Any], unknown: Unknown) -> Any:
        """A zip of sequences; one that is unknown is as long as the others."""
        known = [len(a) for a in arguments if isinstance(a, tuple | list | dict)]
        if not known:
            return unknown
        rows = []
        for i in range(min(known)):
            row = [
                tuple(a)[i]
                if isinstance(a, tuple | list | dict)
                else Unknown(f"{_text_of(a)}[{i}]")
                for a in arguments
            ]
            rows.append(tuple(row))
        return tuple(rows)

    # --- statements -----------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], scope: Scope) -> bool:
        """Follow statements; False where none of their paths reaches the end."""
        return all(self.statement(s, scope) for s in statements)

    def statement(self, node: ast.stmt, scope: Scope) -> bool:
        """Follow one statement; whether the next one may be reached."""
        if isinstance(node, ast.Expr | ast.Assert):
            self.value(node.value if isinstance(node, ast.Expr) else node.test, scope)
        elif isinstance(node, ast.Assign):
            value = self.value(node.value, scope)
            for target in node.targets:
                self.assign(target, value, scope)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self.value(node.value, scope), scope)
        elif isinstance(node, ast.AugAssign):
            value = self.value(ast.BinOp(_loaded(node.target), node.op, node.value), scope)
            self.assign(node.target, value, scope)
        elif isinstance(node, ast.Return):
            scope.returned.append(None if node.value is None else self.value(node.value, scope))
            return False
        elif isinstance(node, ast.Raise):
            self.raised(node, scope)
            return False
        elif isinstance(node, ast.If):
            test = self.value(node.test, scope)
            if is_known(test):
                return self.block(node.body if test else node.orelse, scope)
            return self._either((node.body, node.orelse), scope)
        elif isinstance(node, ast.For):
            self.loop(node, scope)
        elif isinstance(node, ast.While):
            self.value(node.test, scope)
            self._either((node.body, ()), scope)
        elif isinstance(node, ast.Try):
            self._either((node.body, *[h.body for h in node.handlers]), scope)
            self.block(node.finalbody, scope)
        elif isinstance(node, ast.With):
            for item in node.items:
                self.value(item.context_expr, scope)
            return self.block(node.body, scope)
        elif isinstance(node, ast.FunctionDef):
            scope.names[node.name] = LocalFunction(node, scope)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            module = importlib.import_module(node.module)
            for alias in node.names:
                scope.names[alias.asname or alias.name] = getattr(
                    module, alias.name, Unknown(alias.name)
                )
        return not isinstance(node, ast.Break | ast.Continue)

    def _either(self, blocks: Sequence[Sequence[ast.stmt]], scope: Scope) -> bool:
        """Follow several blocks, each from here; what they leave different is unknown afterwards."""
        ends = []
        for block in blocks:
            inner = scope.branch()
            if self.block(block, inner):
                ends.append(inner.names)
        if not ends:
            return False
        scope.names.clear()
        for name in set.intersection(*map(set, ends)):
            scope.names[name] = _either_of([e[name] for e in ends], name)
        return True

    def loop(self, node: ast.For, scope: Scope) -> None:
        """A loop over a known table is run, any other followed once."""
        values = self.value(node.iter, scope)
        if isinstance(values, dict | set | frozenset | range):
            values = tuple(values)
        if not isinstance(values, tuple | list):
            values = (self._element(node.iter, node.target, scope),)
        for value in values:
            inner = scope.branch()
            self.assign(node.target, value, inner)
            if self.block(node.body, inner):
                scope.names.update(inner.names)

    def _element(self, iterable: ast.expr, target: ast.expr, scope: Scope) -> Any:
        """What stands for each element of an unknown iterable: the names that it is given."""
        if isinstance(target, ast.Tuple | ast.List):
            return tuple(self._element(iterable, t, scope) for t in target.elts)
        return Unknown(ast.unparse(target))

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Give names to a value or to its parts."""
        if isinstance(target, ast.Name):
            # A short expression says more than the name of a variable, a long one less.
            is_long = isinstance(value, Unknown) and len(value.text) > _LONGEST
            scope.names[target.id] = Unknown(target.id) if is_long else value
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, scope)
        elif isinstance(target, ast.Tuple | ast.List):
            stars = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
            count = len(target.elts)
            if isinstance(value, tuple | list) and not stars and len(value) == count:
                parts: list[Any] = list(value)
            elif isinstance(value, tuple | list) and stars and len(value) >= count - 1:
                at, behind = stars[0], count - 1 - stars[0]
                parts = [
                    *value[:at],
                    tuple(value[at : len(value) - behind]),
                    *value[len(value) - behind :],
                ]
            else:
                parts = [Unknown(ast.unparse(t).lstrip("*")) for t in target.elts]
            for inner, part in zip(target.elts, parts, strict=True):
                self.assign(inner, part, scope)

    # --- expressions ----------------------------------------------------------------------------------------------

    def text(self, node: ast.expr, scope: Scope) -> str:
        """An expression as it reads to a caller: with names replaced by what was passed for them."""
        replaced = _Replacement(scope).visit(ast.parse(ast.unparse(node), mode="eval"))
        found, own = map(_for_readers, (ast.unparse(replaced), ast.unparse(node)))
        return found if len(found) <= max(60, len(own)) else own

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression as far as it is known."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            return method(node, scope)
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                self.value(inner, scope)
        return Unknown(self.text(node, scope))

    def _Constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def _Name(self, node: ast.Name, scope: Scope) -> Any:
        return scope.find(node.id)

    def _Call(self, node: ast.Call, scope: Scope) -> Any:
        return self.call(node, scope)

    def _Starred(self, node: ast.Starred, scope: Scope) -> Any:
        self.value(node.value, scope)
        return Unknown(ast.unparse(node))

    def _Lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        return LocalFunction(node, scope)

    def _NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Any:
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def _JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        parts: list[str | Unknown] = []
        for piece in node.values:
            if isinstance(piece, ast.FormattedValue):
                value = self.value(piece.value, scope)
                if not is_known(value) and not isinstance(value, Sentence | Choice):
                    parts.append(Unknown(self.text(piece.value, scope)))
                    continue
                parts.extend(
                    sentence_of(repr(value) if piece.conversion == ord("r") else value).parts
                )
            else:
                parts.append(str(self.value(piece, scope)))
        joined = [
            "".join(group) if known else next(iter(group)) for known, group in _grouped(parts)
        ]
        if all(isinstance(p, str) for p in joined):
            return "".join(map(str, joined))
        return Sentence(tuple(joined))

    def _Attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        base = self.value(node.value, scope)
        unknown = Unknown(self.text(node, scope))
        if isinstance(base, Unknown | Choice | Sentence | LocalFunction):
            return unknown
        return _attempt(lambda: getattr(base, node.attr), unknown)

    def _Subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base, index = self.value(node.value, scope), self.value(node.slice, scope)
        unknown = Unknown(self.text(node, scope))
        if isinstance(base, Choice) and is_known(index):
            return _attempt(lambda: Choice(tuple(v[index] for v in base.values)), unknown)
        if isinstance(base, Unknown | Sentence) or not is_known(index):
            return unknown
        return _attempt(lambda: base[index], unknown)

    def _Slice(self, node: ast.Slice, scope: Scope) -> Any:
        bounds = [
            None if n is None else self.value(n, scope) for n in (node.lower, node.upper, node.step)
        ]
        return slice(*bounds) if is_known(bounds) else Unknown(ast.unparse(node))

    def _sequence(self, node: ast.Tuple | ast.List, scope: Scope) -> Any:
        items: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = self.value(element.value, scope)
                if not isinstance(inner, tuple | list):
                    return Unknown(self.text(node, scope))
                items.extend(inner)
            else:
                items.append(self.value(element, scope))
        return tuple(items)

    _Tuple = _List = _sequence

    def _Dict(self, node: ast.Dict, scope: Scope) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.value(value, scope)
            if key is None:
                if not isinstance(inner, dict):
                    return Unknown(self.text(node, scope))
                found |= inner
            else:
                name = self.value(key, scope)
                if not is_known(name):
                    return Unknown(self.text(node, scope))
                found[name] = inner
        return found

    def _UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        if not is_known(value):
            return Unknown(self.text(node, scope))
        if isinstance(node.op, ast.Not):
            return not value
        return -value if isinstance(node.op, ast.USub) else Unknown(self.text(node, scope))

    def _BinOp(self, node: ast.BinOp, scope: Scope) -> Any:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        unknown = Unknown(self.text(node, scope))
        if isinstance(node.op, ast.Add) and (
            isinstance(left, Sentence) or isinstance(right, Sentence)
        ):
            return Sentence((*sentence_of(left).parts, *sentence_of(right).parts))
        if not is_known((left, right)) or type(node.op) not in _BINARY:
            return unknown
        return _attempt(lambda: _BINARY[type(node.op)](left, right), unknown)

    def _Compare(self, node: ast.Compare, scope: Scope) -> Any:
        values = [self.value(n, scope) for n in (node.left, *node.comparators)]
        if not is_known(values):
            return Unknown(self.text(node, scope))
        pairs = zip(node.ops, itertools.pairwise(values))
        return _attempt(
            lambda: all(_COMPARISONS[type(o)](a, b) for o, (a, b) in pairs),
            Unknown(self.text(node, scope)),
        )

    def _BoolOp(self, node: ast.BoolOp, scope: Scope) -> Any:
        stops = isinstance(node.op, ast.Or)
        values = []
        for operand in node.values:
            value = self.value(operand, scope)
            if is_known(value) and bool(value) is stops and is_known(values):
                return value
            values.append(value)
        return values[-1] if is_known(values) else Unknown(self.text(node, scope))

    def _IfExp(self, node: ast.IfExp, scope: Scope) -> Any:
        test = self.value(node.test, scope)
        if is_known(test):
            return self.value(node.body if test else node.orelse, scope)
        first, second = self.value(node.body, scope), self.value(node.orelse, scope)
        return _either_of([first, second], self.text(node, scope))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> Any:
        pairs = isinstance(node, ast.DictComp)
        found: list[Any] = []
        complete = True

        def visit(generators: Sequence[ast.comprehension], inner: Scope) -> None:
            nonlocal complete
            if not generators:
                if isinstance(node, ast.DictComp):
                    found.append((self.value(node.key, inner), self.value(node.value, inner)))
                else:
                    found.append(self.value(node.elt, inner))
                return
            first, *rest = generators
            values = self.value(first.iter, inner)
            if isinstance(values, dict | set | frozenset | range | str):
                values = tuple(values)
            if not isinstance(values, tuple | list):
                complete = False
                values = (self._element(first.iter, first.target, inner),)
            for value in values:
                each = inner.branch()
                self.assign(first.target, value, each)
                tests = [self.value(t, each) for t in first.ifs]
                if all(is_known(t) for t in tests):
                    if not all(tests):
                        continue
                else:
                    complete = False
                visit(rest, each)

        visit(node.generators, scope.branch())
        if not complete or (pairs and not all(is_known(k) for k, _ in found)):
            return Unknown(self.text(node, scope))
        return dict(found) if pairs else tuple(found)

    _ListComp = _SetComp = _GeneratorExp = _DictComp = _comprehension


class _Replacement(ast.NodeTransformer):
    """Names replaced by what is known of them."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A short constant, or the expression that was passed."""
        value = self.scope.names.get(node.id, node)
        if isinstance(value, Unknown):
            return _attempt(lambda: ast.parse(value.text, mode="eval").body, node)
        if isinstance(value, int | str) and not isinstance(value, bool):
            return ast.Constant(value)
        return node


def _for_readers(text: str) -> str:
    """An expression without what only puts specs in brackets."""
    return re.sub(
        r"', '\.join\(map\((?:str|repr), (.*)\)\)", r"\1", re.sub(r"\blisted\((.*)\)", r"\1", text)
    )


def is_followed(function: types.FunctionType) -> bool:
    """Checks stand in the operations' modules and beside the specs."""
    module = function.__module__ or ""
    return module.startswith("xlapy.ops.") or module == "xlapy.specs"


def _attempt(run: Callable[[], Any], otherwise: Any) -> Any:
    """The result, or the other value where the operands do not fit."""
    try:
        return run()
    except Exception:
        return otherwise


def _settled(value: Any) -> Any:
    """Iterators and views as tuples."""
    return (
        tuple(value)
        if isinstance(value, Iterator) or type(value).__name__.startswith("dict_")
        else value
    )


def _equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(_attempt(lambda: a == b, False)))


def _either_of(values: Sequence[Any], name: str) -> Any:
    """What one of several paths leaves: their common value, a choice of texts, or something unknown."""
    first, *others = values
    if all(_equal(o, first) for o in others):
        return first
    choices: list[Any] = []
    for value in values:
        if not isinstance(value, Choice) and not (
            is_known(value) and isinstance(value, str | tuple)
        ):
            return Unknown(name)
        choices.extend(value.values if isinstance(value, Choice) else (value,))
    return Choice(tuple(dict.fromkeys(choices)))


def _loaded(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _text_of(value: Any) -> str:
    return value.text if isinstance(value, Unknown) else str(value)


def _grouped(parts: Sequence[str | Unknown]) -> Iterator[tuple[bool, Iterator[Any]]]:
    return itertools.groupby(parts, key=lambda p: isinstance(p, str))
