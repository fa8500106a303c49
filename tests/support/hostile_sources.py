"""Texts of the schema language that are made to do harm, of about any size."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

#: Schemas to which an unknown name is similar.
_NAMES = "".join(f"schema Finding{n}:\n a: int\n" for n in range(90))

#: Refused from some size on, each in its own way.
HOSTILE: dict[str, Callable[[int], str]] = {
    "words": lambda size: "schema " * (size // 7),
    "one word": lambda size: "a" * size,
    "one name": lambda size: f"schema {'a' * (size - 20)}",
    "brackets": lambda size: "schema A:\n  a: any = " + "[" * (size // 100),
    "parentheses": lambda size: "schema A:\n  a: " + "(" * (size // 100),
    "maps": lambda size: "schema A:\n  a: " + "map[" * (size // 100),
    "lists of lists": lambda size: "schema A:\n  a: int" + "[]" * (size // 100),
    "optional": lambda size: "schema A:\n  a: int" + "?" * (size // 50),
    "fields": lambda size: "schema A:\n" + "".join(f" f{n}:int\n" for n in range(size // 10))[: size - 20],
    "some fields": lambda size: "schema A:\n" + "".join(f" f{n}:int\n" for n in range(size // 100)),
    "unknown types": lambda size: "schema A:\n" + "".join(f" f{n}:x{n}\n" for n in range(size // 100)),
    "unknown alternatives": lambda size: _NAMES + "schema A:\n a: x0" + "".join(f" | Findin{n}" for n in range(size // 100)),
    "unknown bases": lambda size: _NAMES + "schema A extends x0" + "".join(f", Findin{n}" for n in range(size // 100)) + ":\n a: int",
    "schemas": lambda size: "".join(f"schema A{n}:\n a:int\n" for n in range(size // 200)),
    "a line of bases": lambda size: "schema A0:\n a:int\n" + "".join(f"schema A{n} extends A{n - 1}:\n" for n in range(1, min(99, size // 200))),
    "a circle of bases": lambda size: "".join(f"schema A{n} extends A{(n + 1) % min(99, size // 200)}:\n a:int\n" for n in range(min(99, size // 200))),
    "constraints": lambda size: "schema A:\n a: int" + "".join(f" @min({n})" for n in range(size // 20)),
    "digits": lambda size: "schema A:\n a: " + "9" * (size - 20),
    "NULs": lambda size: "\0" * size,
    "returns": lambda size: "\r" * size,
    "quotes": lambda size: '"' * size,
    "single quotes": lambda size: "'\n" * (size // 2),
    "backslashes": lambda size: 'prompt x: "' + "\\" * (size - 20),
    "an open text": lambda size: 'prompt x: """' + "a\n" * (size // 2 - 10),
    "indentation": lambda size: "schema A:\n" + "".join(" " * n + "a: int\n" for n in range(1, isqrt(2 * size) - 40)),
    "tabs and spaces": lambda size: "schema A:\n" + "\ta: int\n        b: int\n" * (size // 1_000),
    "errors": lambda size: "".join(f"schema A{n} b\n" for n in range(size // 250)),
    "the same key": lambda size: "prompt x: 'a'\n" + "".join(f" a: {n}\n" for n in range(size // 100)),
    "half a character": lambda size: "schema A:\n a: '" + "\ud800" * (size // 1_000),
    "too much": lambda size: " " * (4 * size + 1),
}  # fmt: skip

#: Right at any size that the language takes.
LARGE: dict[str, Callable[[int], str]] = {
    "lines": lambda size: "\n" * size,
    "CRLF": lambda size: "\r\n" * (size // 2),
    "comments": lambda size: "#\n" * (size // 2),
    "a text": lambda size: 'prompt x: """' + "a\n" * (size // 2 - 10) + '"""',
    "a union": lambda size: "schema A:\n a: " + " | ".join(f"'{n}'" for n in range(size // 50)),
    "a value": lambda size: "prompt x: 'a'\n a: " + "{b:" * 9 + "[" + "1," * (size // 70) + "]" + "}" * 9,
    "schemas that hold each other": lambda size: "schema A:\n"
    + "".join(f" a{n}: int\n" for n in range(min(990, size // 100)))
    + "".join(f"schema B{n} extends A:\n b: B{n + 1}\n" for n in range(98))
    + "schema B98:\n b: int",
}  # fmt: skip
