"""The sections of prompts (weakincentives): headings and texts, filled in from dataclasses."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trustgraph_prompt.errors import PromptRenderError, PromptValidationError

if TYPE_CHECKING:  # for type checkers, a section without parameters is a MarkdownSection[None]
    from typing_extensions import TypeVar as TypeVarWithDefault

    ParamsT = TypeVarWithDefault("ParamsT", default=None)
else:
    ParamsT = TypeVar("ParamsT")

MAX_LEVELS = 5
"""Levels of nested sections: Markdown has six levels of headings, and sections begin with the second."""

_LINE_ENDS = re.compile("\r\n?")
_NOT_IN_KEYS = re.compile(r"[\W_]+")
_KEY = re.compile(r"\w[\w.-]*")


class MarkdownSection(Generic[ParamsT]):
    """A heading, a text with `${name}` for the fields of its parameters, and sections below it.

    `MarkdownSection[Params](title="Task", template="…")`; without parameters, the text contains no names.
    `key` names the section in paths; by default it is made from the title. A section for which `enabled`
    returns false is left out with all sections below it. `default_params` are used where `render` gets none
    of their type.

    Raises `PromptValidationError` for parameters that are not a dataclass, a name that is not one of their
    fields, default parameters of another type, and an invalid title or key.
    """

    params_type: ClassVar[type[Any] | None] = None

    def __class_getitem__(cls, params: Any) -> Any:
        if isinstance(params, TypeVar):
            return super().__class_getitem__(params)  # type: ignore[misc]
        if not (isinstance(params, type) and is_dataclass(params)):
            raise PromptValidationError(
                "the parameters of a section are not a dataclass", dataclass_type=params
            )
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
        for name, text in {"title": title, "template": template, "key": key}.items():
            if not isinstance(text, str) and (name, text) != ("key", None):
                raise self._error(f"the {name} is {text!r:.80}, expected a string")
        self.title = " ".join(title.split())
        self.key = (
            _NOT_IN_KEYS.sub("-", self.title.lower()).strip("-") if key is None else key.strip().lower()
        )
        self.template = dedent(_LINE_ENDS.sub("\n", template)).strip()
        self.children = tuple(children)
        self.enabled = enabled
        self.default_params = default_params
        if not (self.title and self.key):
            raise self._error("a section needs a title, and a `key` where the title has no letters or digits")
        if not _KEY.fullmatch(self.key):
            raise self._error("a key has letters, digits, `_`, `-` and `.`, and begins with one of the first")
        if default_params is not None and type(default_params) is not self.params_type:
            raise self._error("the default parameters are of another type than the section's")
        self._pieces = tuple(self._split())

    @property
    def names(self) -> frozenset[str]:
        """The fields of its parameters that the text contains."""
        return frozenset(name for _, name in self._pieces if name)

    def is_enabled(self, params: ParamsT) -> bool:
        """Whether the section is shown with these parameters."""
        return self.enabled is None or bool(self.enabled(params))

    def render(self, params: ParamsT, depth: int) -> str:
        """Heading and text. The heading has level 2 at depth 0, 3 at depth 1, and so on."""
        return self.fill(depth, lambda name: written(getattr(params, name)))

    def fill(
        self, depth: int, value: Callable[[str], str], literal: Callable[[str], str] = lambda text: text
    ) -> str:
        """Heading and text, with `value` for each name; `literal` converts everything else."""
        text = "".join(literal(before) + (value(name) if name else "") for before, name in self._pieces)
        return f"{'#' * (depth + 2)} {literal(self.title)}\n\n{text}".rstrip()

    def _split(self) -> Iterator[tuple[str, str | None]]:
        """The pieces of the text, each with the name that follows it."""
        known = {field.name for field in fields(self.params_type)} if self.params_type else set()
        literal, at = "", 0
        for mark in string.Template.pattern.finditer(self.template):
            literal += self.template[at : mark.start()]
            at = mark.end()
            name = mark["named"] or mark["braced"]
            if name:
                if name not in known:
                    raise self._error(f"`${{{name}}}` is not a field of its parameters")
                yield literal, name
                literal = ""
            elif mark["escaped"] is not None:
                literal += "$"
            else:
                raise self._error("found a single `$`, expected `${name}`, or `$$` for a dollar sign")
        yield literal + self.template[at:], None

    def _error(self, message: str) -> PromptValidationError:
        path = (self.key,) if getattr(self, "key", "") else ()
        return PromptValidationError(message, dataclass_type=self.params_type, section=path)


@dataclass(frozen=True, slots=True)
class Placed:
    """A section and its path in a prompt."""

    section: MarkdownSection[Any]
    path: tuple[str, ...]

    @property
    def depth(self) -> int:
        return len(self.path) - 1

    def text(self, given: Mapping[type[Any], Any]) -> str | None:
        """Render the section; None if it is not enabled. Raises `PromptRenderError`."""
        wanted = self.section.params_type
        params = None if wanted is None else given.get(wanted, self.section.default_params)
        if wanted is not None and params is None:
            raise PromptRenderError(
                f"no parameters of type {wanted.__name__}", dataclass_type=wanted, section=self.path
            )
        try:
            return self.section.render(params, self.depth) if self.section.is_enabled(params) else None
        except Exception as error:  # `enabled` and `__str__` of a field may raise anything
            raise PromptRenderError(
                f"{type(error).__name__}: {error}",
                dataclass_type=wanted,
                section=self.path,
            ) from error


def placed(sections: Sequence[MarkdownSection[Any]], above: tuple[str, ...] = ()) -> Iterator[Placed]:
    """All sections in their order.

    Raises `PromptValidationError` for anything else than a section, for two sections with the same path, and
    for more than `MAX_LEVELS`.
    """
    keys: set[str] = set()
    for section in sections:
        if not isinstance(section, MarkdownSection):
            raise PromptValidationError(f"found {section!r:.80}, expected a section", section=above)
        path = (*above, section.key)
        if section.key in keys:
            raise PromptValidationError("two sections have the same path", section=path)
        if len(path) > MAX_LEVELS:
            raise PromptValidationError(
                f"nested deeper than {MAX_LEVELS} levels: Markdown has headings of 6 levels",
                section=path,
            )
        keys.add(section.key)
        yield Placed(section, path)
        yield from placed(section.children, path)


def written(value: object) -> str:
    """A value as text: None is empty."""
    return "" if value is None else str(value)
