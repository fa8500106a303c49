"""What the package offers: `__all__`, docs/reference/api.md, the guides and the modules say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import trustgraph_prompt
from tests.support.guides import GUIDES, ROOT, guide_page

PAGE = guide_page("api.md")
TEACHING = [ROOT / "README.md", *GUIDES]
IMPORT = re.compile(r"\bfrom (trustgraph_prompt[\w.]*) import (\([^)]*\)|[\w, ]+)")


def sections() -> dict[str, list[str]]:
    """The names of each module, as the page lists them."""
    parts = re.split(r"^## `([\w.]+)`$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        module: re.findall(r"^\| `(\w+)` \| \S", text, re.MULTILINE)
        for module, text in zip(parts[::2], parts[1::2], strict=True)
    }


LISTED = sections()
PUBLIC = [(module, name) for module, names in LISTED.items() for name in names]


@cache
def source(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text("utf-8")


def is_package(module: str) -> bool:
    return hasattr(import_module(module), "__path__")


def in_order(names: list[str]) -> list[str]:
    """Constants, classes, the rest: the order that the linter keeps, too."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def taken_in(module: str) -> Iterator[tuple[str, str]]:
    """The names that a module has from others of the package, and from which."""
    for node in ast.walk(ast.parse(source(module))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trustgraph_prompt"):
            yield from ((alias.asname or alias.name, node.module or "") for alias in node.names)


def is_explained(module: str, name: str) -> bool:
    """Whether a class or function has a docstring, another name a text behind it or `#:` before it."""
    text = source(module)
    body = ast.parse(text).body
    for node, behind in zip(body, [*body[1:], None], strict=True):
        if any(ast.unparse(one) == "overload" for one in getattr(node, "decorator_list", ())):
            continue
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return ast.get_docstring(node) is not None
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            text_behind = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            return text_behind or text.splitlines()[node.lineno - 2].startswith("#: ")
    return is_explained(dict(taken_in(module))[name], name)


@pytest.mark.parametrize("module", LISTED)
def test_page_lists_the_names_of_each_module(module: str) -> None:
    assert LISTED[module] == import_module(module).__all__


@pytest.mark.parametrize("module", LISTED)
def test_names_are_sorted_unique_and_public(module: str) -> None:
    names = import_module(module).__all__
    assert names == in_order(list(set(names)))
    assert not [name for name in names if name.startswith("_")]


@pytest.mark.parametrize("module", LISTED)
def test_all_of_a_module_is_complete(module: str) -> None:
    """A package offers all that its `__init__` has of the rooms; another module all of its classes."""
    defined = {
        node.name
        for node in ast.parse(source(module)).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    taken = {name for name, _ in taken_in(module)} if is_package(module) else set()
    assert defined | taken <= set(import_module(module).__all__)


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_every_public_name_exists_and_is_explained(module: str, name: str) -> None:
    assert not isinstance(getattr(import_module(module), name), ModuleType)
    assert is_explained(module, name)


def test_names_of_the_whole_package_are_those_of_its_rooms() -> None:
    for name in trustgraph_prompt.__all__:
        rooms = [module for module in LISTED if name in LISTED[module] and module != "trustgraph_prompt"]
        assert any(
            getattr(import_module(room), name) is getattr(trustgraph_prompt, name) for room in rooms
        ), name


def test_every_package_with_public_names_keeps_them_sorted() -> None:
    for file in (ROOT / "trustgraph_prompt").rglob("__init__.py"):
        module = ".".join(file.relative_to(ROOT).parent.parts)
        names = getattr(import_module(module), "__all__", [])
        assert names == in_order(list(set(names))), module


@pytest.mark.parametrize("guide", TEACHING, ids=lambda guide: guide.name)
def test_guides_import_public_names_only(guide: Path) -> None:
    for module, names in IMPORT.findall(guide.read_text("utf-8")):
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            assert name in LISTED.get(module, ()) or f"{module}.{name}" in LISTED, f"{module}.{name}"
