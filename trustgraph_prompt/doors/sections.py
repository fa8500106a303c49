"""What prompts in sections are made of (seed 4): headings and texts, filled in from dataclasses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from string import Template
from textwrap import dedent
from typing import Any, ClassVar, Generic, TypeVar

from trustgraph_prompt.errors import PromptRenderError, PromptValidationError

ParamsT = TypeVar("ParamsT")

_NO_KEY = re.compile(r"[^a-z0-9]+")


class MarkdownSection(Generic[ParamsT]):
    """A heading, a text with `${name}` for each field of its parameters, and sections below it.

    `MarkdownSection[Params](title="Task", template="…")`; without parameters a text has no names. `key` names
    the section in paths, by default its title does. A section for which `enabled` says no is left out with
    all below it. `default_params` are taken where a rendering is given none of their type.

    Raises `PromptValidationError` for parameters that are no dataclass, a name that is no field of theirs,
    and a title or key that says nothing.
    """

    params_type: ClassVar[type[Any] | None] = None

    def __class_getitem__(cls, params: Any) -> Any:
        if isinstance(params, TypeVar):
            return super().__class_getitem__(params)  # type: ignore[misc]
        if not (isinstance(params, type) and is_dataclass(params)):
            raise PromptValidationError("the parameters of a section are no dataclass", dataclass_type=params)
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
        self.key = _NO_KEY.sub("-", (title if key is None else key).lower()).strip("-")
        self.template = dedent(template).strip()
        self.children = tuple(children)
        self.default_params = default_params
        self._enabled = enabled
        self._text = Template(self.template)
        self._check()

    def is_enabled(self, params: ParamsT) -> bool:
        """Whether the section is there, for these parameters."""
        return self._enabled is None or bool(self._enabled(params))

    def render(self, params: ParamsT, depth: int) -> str:
        """Heading and text. The heading is of the second level at depth 0, and one lower with each step."""
        values = {name: getattr(params, name) for name in self._names}
        text = self._text.substitute({name: "" if value is None else value for name, value in values.items()})
        return "\n\n".join(part for part in (f"{'#' * (depth + 2)} {self.title}", text) if part)

    @property
    def _names(self) -> list[str]:
        return [field.name for field in fields(self.params_type)] if self.params_type else []

    def _check(self) -> None:
        if not (self.title and self.key):
            raise PromptValidationError("a section has no title, or no key", dataclass_type=self.params_type)
        if not self._text.is_valid():
            raise self._wrong("a `$` that begins no `${name}`; write `$$` for one")
        for name in self._text.get_identifiers():
            if name not in self._names:
                raise self._wrong(f"`${{{name}}}` is no field of its parameters")

    def _wrong(self, what: str) -> PromptValidationError:
        return PromptValidationError(what, dataclass_type=self.params_type, section=(self.key,))


@dataclass(frozen=True, slots=True)
class Placed:
    """A section where it stands in a prompt."""

    section: MarkdownSection[Any]
    path: tuple[str, ...]

    @property
    def depth(self) -> int:
        return len(self.path) - 1

    def params(self, given: Mapping[type[Any], Any]) -> Any:
        """The parameters it is filled in from. Raises `PromptRenderError` where there are none."""
        wanted = self.section.params_type
        if wanted is None:
            return None
        params = given.get(wanted, self.section.default_params)
        if params is None:
            raise PromptRenderError(
                f"no parameters of type {wanted.__name__}", dataclass_type=wanted, section=self.path
            )
        return params


def placed(sections: Sequence[MarkdownSection[Any]], above: tuple[str, ...] = ()) -> Iterator[Placed]:
    """All sections in the order in which they are read. Raises `PromptValidationError` for a path twice."""
    keys: set[str] = set()
    for section in sections:
        path = (*above, section.key)
        if section.key in keys:
            raise PromptValidationError("two sections of one path", section=path)
        keys.add(section.key)
        yield Placed(section, path)
        yield from placed(section.children, path)
