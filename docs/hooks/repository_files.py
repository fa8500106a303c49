"""Puts what the guides link to outside of docs/ on the site, below repository/.

A Markdown file becomes a page, another file its text, a directory a list of its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
FENCED: Final = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(\]\()([^)#\s:]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to, those that these link to, and so on."""
    waiting = [Path(str(file.abs_src_path)) for file in files.documentation_pages()]
    added: set[Path] = set()
    for source in waiting:
        for target in outside(source) - added:
            added.add(target)
            waiting.append(target)
            files.append(File.generated(config, address(target), content=as_page(target)))
    return files


def outside(source: Path) -> set[Path]:
    """What a Markdown file links to outside of docs/."""
    if source.suffix != ".md":
        return set()
    return {target for target in links(source) if not target.is_relative_to(DOCS) and target.exists()}


def links(source: Path) -> Iterator[Path]:
    for _, link in LINK.findall(FENCED.sub("", source.read_text("utf-8"))):
        yield Path(os.path.normpath(source.parent / link))


def address(target: Path) -> str:
    """The path of a file's page, relative to docs/."""
    page = PurePosixPath("repository", target.relative_to(ROOT).as_posix())
    return str(page) if page.suffix == ".md" else f"{page}.md"


def as_page(target: Path) -> str:
    if target.suffix == ".md":
        return target.read_text("utf-8")
    title = f"# {target.relative_to(ROOT)}\n\n"
    if target.is_dir():
        return title + "".join(f"- `{file.name}`\n" for file in sorted(target.iterdir()))
    language = {".py": "python", ".yaml": "yaml"}.get(target.suffix, "text")
    return f"{title}`````{language}\n{target.read_text('utf-8')}\n`````\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where the site has their files, and write Markdown as Python-Markdown reads it."""
    here = PurePosixPath(page.file.src_uri)
    source = ROOT / here.relative_to("repository") if here.parts[0] == "repository" else DOCS / here

    def lead(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / link[2]))
        if not target.exists():
            return link[0]
        on_site = target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else address(target)
        return link[1] + os.path.relpath(on_site, here.parent)

    return outside_fences(widen_lists(markdown), lambda text: plain_pipes(LINK.sub(lead, text)))


def outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    changed, end = [], 0
    for fence in FENCED.finditer(markdown):
        changed += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*changed, change(markdown[end:])])


def plain_pipes(text: str) -> str:
    """`\\|` within code as a pipe, which it is on GitHub."""
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace(r"\|", "|"), text)


def widen_lists(markdown: str) -> str:
    """What belongs to an item of a list with four spaces before it."""
    lines: list[str] = []
    missing = 0
    for line in markdown.splitlines():
        if item := re.match(r"(- +|\d+\. +)\S", line):
            missing = 4 - len(item[1])
            if line[0].isdigit() and lines and lines[-1].startswith("    "):
                lines.append("")  # or it would belong to the item before
        elif line.startswith("  "):
            line = " " * missing + line
        elif line:
            missing = 0
        lines.append(line)
    return "\n".join(lines) + "\n"
