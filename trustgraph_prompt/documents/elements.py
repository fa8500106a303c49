"""What the readers of XML and HTML share: names of elements, and elements that are in no other one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any


def local_name(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return re.split(r"[}:]", element.tag)[-1]


def outermost(parent: Any, *tags: str, without: Collection[str] = ()) -> Iterator[Any]:
    """Yield the elements below another with these tags that are in no other of them: text counts once.

    What has one of the local names `without` is left out.
    """
    from lxml import etree  # type: ignore[import-untyped]

    walker = etree.iterwalk(parent, events=("start",))
    for _, element in walker:
        if element is parent or not isinstance(element.tag, str):
            continue
        if element.tag in tags:
            walker.skip_subtree()
            yield element
        elif without and local_name(element) in without:
            walker.skip_subtree()
