"""Prompts written in sections (seed 4): a tree of markdown, filled in from dataclasses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from string import Template
from textwrap import dedent
from typing import Any, ClassVar, Generic, TypeVar

from trustgraph_prompt.errors import PromptRenderError, PromptValidationError

ParamsT = TypeVar("ParamsT")

Path = tuple[str, ...]


class MarkdownSection(Generic[ParamsT]):
    """A heading and a text with `${name}` for each field of its parameters, and sections below it.

    `MarkdownSection[Params](title="Task", template="…")`; without parameters the text has no names. `key`
    names the section in paths, by default its title does. A section for which `enabled` says no is left out
    with all below it; it is asked with the parameters. Those are `default_params` where a rendering is given
    none of their type.

    Raises `PromptValidationError` for parameters that are no dataclass, a name that is no field of theirs,
    and a key that says nothing.
    """

    params_type: ClassVar[type[Any] | None] = None

    def __class_getitem__(cls, params: Any) -> Any:
        if isinstance(params, TypeVar):
            return super().__class_getitem__(params)  # type: ignore[misc]
        if not (isinstance(params, type) and is_dataclass(params)):
            raise PromptValidationError("the parameters of a section must be a dataclass", dataclass_type=params)
        return type(cls.__name__, (cls,), {"params_type": params, "__module__": cls.__module__})

    def __init__(
        self,
        *,
        title: str,
        template: str,
        key: str | None = None,
        children: Sequence[MarkdownSection[Any]] = (),
        enabled: Callable[[ParamsT], bool] | None = None,
        default_params: ParamsT | None = None,
    ) -> None:
        self.title = title.strip()
        self.key = _key(self.title if key is None else key)
        self.template = dedent(template).strip()
        self.children = tuple(children)
        self.default_params = default_params
        self._enabled = enabled
        self._text = Template(self.template)
        self._check()

    def is_enabled(self, params: ParamsT) -> bool:
        """Whether the section is shown, and all below it may be."""
        return self._enabled is None or bool(self._enabled(params))

    def render(self, params: ParamsT, depth: int = 0) -> str:
        """Heading and text; the heading of a section without others above it is of the second level."""
        values = {} if params is None else {field.name: getattr(params, field.name) for field in _fields(params)}
        text = self._text.substitute({name: _shown(value) for name, value in values.items()})
        return "\n\n".join(part for part in (f"{'#' * (depth + 2)} {self.title}", text) if part)

    def _check(self) -> None:
        where = self.params_type
        if not self.title or not self.key:
            raise PromptValidationError("a section needs a title and a key", dataclass_type=where)
        if not self._text.is_valid():
            raise PromptValidationError(f"section {self.key}: a `$` that begins no `${{name}}`", dataclass_type=where)
        known = {field.name for field in fields(where)} if where else set()
        for name in self._text.get_identifiers():
            if name not in known:
                raise PromptValidationError(
                    f"section {self.key}: `${{{name}}}` is no field of its parameters", dataclass_type=where
                )
