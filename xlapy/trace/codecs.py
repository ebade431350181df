"""How parameters are spelled as MLIR attributes: pairs of print and parse, so that text goes out and comes in alike.

A codec is given and gives plain Python: ints, bools, strings, tuples. Parsing works on the attribute's own text,
which MLIR prints in one canonical form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ArtifactError

__all__ = [
    "BOOL",
    "BOOL_ARRAY",
    "DTYPE",
    "I32",
    "I64",
    "I64_ARRAY",
    "I64_MATRIX",
    "STRING",
    "Enum",
    "EnumList",
    "Group",
    "Optional",
    "Simple",
    "Struct",
    "quote",
]


# What dataclass writes to compare, print and freeze the codecs would take most of the time to import them.


@final
@dataclass(eq=False, repr=False, slots=True)
class Simple:
    """A codec from two functions on text; `default` is what an absent attribute means."""

    to_text: Callable[[Any], str | None]
    from_text: Callable[[str], Any]
    default: Any = None

    def print(self, value: Any) -> str | None:
        """The attribute's text."""
        return self.to_text(value)

    def parse(self, attribute: Any) -> Any:
        """The parameter."""
        return self.default if attribute is None else self.from_text(str(attribute))


def _int(text: str) -> int:
    return int(text.split(":")[0])


def _bool(text: str) -> bool:
    return text.split(":")[0].strip() == "true"


def _entries(text: str) -> list[str]:
    inner = text[text.index(":") + 1 : -1] if ":" in text else ""
    return [e.strip() for e in inner.split(",") if e.strip()]


def _print_ints(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def _print_bools(values: Sequence[bool]) -> str:
    return (
        f"array<i1: {', '.join('true' if v else 'false' for v in values)}>"
        if values
        else "array<i1>"
    )


_NUMBERS: Final = re.compile(r"-?\d+")


def _print_matrix(rows: Sequence[Sequence[int]]) -> str:
    width = len(rows[0]) if rows else 2
    if not rows or not width:
        return f"dense<> : tensor<{len(rows)}x{width}xi64>"
    body = ", ".join(f"[{', '.join(map(str, r))}]" for r in rows)
    return f"dense<[{body}]> : tensor<{len(rows)}x{width}xi64>"


def _parse_matrix(text: str) -> tuple[tuple[int, ...], ...]:
    body, kind = text.rsplit(" : ", 1)
    dims = [int(d) for d in _NUMBERS.findall(kind.split("x" + kind.rsplit("x", 1)[-1])[0])]
    rows, width = (dims[0], dims[1]) if len(dims) == 2 else (1, dims[0])
    if '"' in body:  # MLIR writes large ones as hexadecimal bytes
        raw = bytes.fromhex(body[body.index('"0x') + 3 : body.rindex('"')])
        numbers = [
            int.from_bytes(raw[i : i + 8], "little", signed=True) for i in range(0, len(raw), 8)
        ]
    else:
        numbers = [int(n) for n in _NUMBERS.findall(body)]
    if len(numbers) == 1:
        numbers *= rows * width
    return tuple(tuple(numbers[i * width : (i + 1) * width]) for i in range(rows))


def quote(text: str) -> str:
    """A string as an MLIR literal; bytes outside printable ASCII are escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    out = []
    for byte in text.encode():
        char = chr(byte)
        out.append(char if 32 <= byte < 127 and char not in '"\\' else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


def _unquote(text: str) -> str:
    body = text.strip()[1:-1].encode()
    raw = bytearray()
    i = 0
    while i < len(body):
        if body[i] == 0x5C:
            following = body[i + 1 : i + 3].decode(errors="replace")
            if re.fullmatch(r"[0-9A-Fa-f]{2}", following):
                raw.append(int(following, 16))
                i += 3
                continue
            raw.append({"n": 10, "t": 9}.get(chr(body[i + 1]), body[i + 1]))
            i += 2
            continue
        raw.append(body[i])
        i += 1
    return raw.decode(errors="surrogateescape")


I64: Final = Simple(lambda v: f"{v} : i64", _int)
I32: Final = Simple(lambda v: f"{v} : i32", _int)
BOOL: Final = Simple(lambda v: "true" if v else "false", _bool, default=False)
I64_ARRAY: Final = Simple(_print_ints, lambda t: tuple(int(e) for e in _entries(t)), default=())
BOOL_ARRAY: Final = Simple(
    _print_bools, lambda t: tuple(e == "true" for e in _entries(t)), default=()
)
#: rows of integers, such as the padding of a window
I64_MATRIX: Final = Simple(_print_matrix, _parse_matrix)
STRING: Final = Simple(quote, _unquote, default="")


def _print_dtype(value: DType) -> str:
    return value.mlir


DTYPE: Final = Simple(_print_dtype, as_dtype)


@final
@dataclass(eq=False, repr=False, slots=True)
class Optional:
    """A parameter that may be None, or have a default that is left out of the text."""

    codec: Any
    default: Any = None

    def print(self, value: Any) -> str | None:
        """The attribute's text, or None for the default."""
        if value == self.default:
            return None
        text: str | None = self.codec.print(value)
        return text

    def parse(self, attribute: Any) -> Any:
        """The parameter."""
        return self.default if attribute is None else self.codec.parse(attribute)


@final
@dataclass(eq=False, repr=False, slots=True)
class Enum:
    """``#stablehlo<comparison_direction LT>``; the value is the bare word."""

    name: str
    default: Any = None
    dialect: str = "stablehlo"

    def print(self, value: Any) -> str | None:
        """The attribute's text."""
        return None if value is None else f"#{self.dialect}<{self.name} {value}>"

    def parse(self, attribute: Any) -> Any:
        """The word."""
        return self.default if attribute is None else str(attribute).rstrip(">").split()[-1]


@final
@dataclass(eq=False, repr=False, slots=True)
class EnumList:
    """``[#stablehlo<precision DEFAULT>, ...]``; the value is a tuple of words, None for absent."""

    name: str
    default: Any = None

    def print(self, value: Any) -> str | None:
        """The attribute's text."""
        if value is None:
            return None
        return "[" + ", ".join(f"#stablehlo<{self.name} {v}>" for v in value) + "]"

    def parse(self, attribute: Any) -> Any:
        """The words."""
        if attribute is None:
            return self.default
        return tuple(re.findall(rf"<{self.name} (\w+)>", str(attribute)))


@final
@dataclass(eq=False, repr=False, slots=True)
class Struct:
    """``#stablehlo.dot<lhs_contracting_dimensions = [1], ...>``: several parameters in one attribute.

    Parameters
    ----------
    name : str
        ``"stablehlo.dot"``.
    fields : mapping
        From each parameter to what it is when absent: ``()`` for a list, an int, or None for an optional
        one.
    spelling : mapping, optional
        From a parameter to its name inside the attribute, where they differ.
    """

    name: str
    fields: Mapping[str, Any]
    spelling: Mapping[str, str] | None = None

    def _spell(self, field: str) -> str:
        return (self.spelling or {}).get(field, field)

    def print(self, value: Mapping[str, Any]) -> str | None:
        """The attribute's text, from a mapping of the fields."""
        parts = []
        for field, absent in self.fields.items():
            v = value[field]
            if v == absent:
                continue
            text = f"[{', '.join(map(str, v))}]" if isinstance(v, tuple) else _scalar_text(v)
            parts.append(f"{self._spell(field)} = {text}")
        return f"#{self.name}<{', '.join(parts)}>"

    def parse(self, attribute: Any) -> dict[str, Any]:
        """A mapping of the fields."""
        found = dict(self.fields)
        if attribute is None:
            return found
        text = str(attribute)
        for field in self.fields:
            match = re.search(rf"\b{self._spell(field)} = (\[[^\]]*\]|[\w.-]+)", text)
            if match is None:
                continue
            raw = match.group(1)
            if raw.startswith("["):
                found[field] = tuple(int(n) for n in _NUMBERS.findall(raw))
            elif raw in ("true", "false"):
                found[field] = raw == "true"
            elif re.fullmatch(r"-?\d+", raw):
                found[field] = int(raw)
            else:
                found[field] = (
                    as_dtype(raw) if raw in ("f32", "f16", "bf16", "tf32", "f64") else raw
                )
        return found


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.mlir if isinstance(value, DType) else str(value)


@final
@dataclass(eq=False, repr=False, slots=True)
class Group:
    """Several parameters under one attribute name; the codec works on a mapping of them.

    In `Hlo.attrs` the key is the attribute's name then, not a parameter's.
    """

    params: tuple[str, ...]
    codec: Any

    def print(self, value: Mapping[str, Any]) -> str | None:
        """The attribute's text."""
        text: str | None = self.codec.print(value)
        return text

    def parse(self, attribute: Any) -> dict[str, Any]:
        """A mapping of the parameters."""
        found: dict[str, Any] = self.codec.parse(attribute)
        missing = set(self.params) - set(found)
        if missing:
            raise ArtifactError(
                f"attribute must give {', '.join(sorted(missing))}; got {attribute} [X6]"
            )
        return {p: found[p] for p in self.params}
