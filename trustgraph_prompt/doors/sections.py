"""What prompts in sections are made of (seed 4): headings and texts, filled in from dataclasses."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trustgraph_prompt.errors import PromptRenderError, PromptValidationError

if TYPE_CHECKING:  # a section without parameters is one of None, says who checks types
    from typing_extensions import TypeVar as TypeVarWithDefault

    ParamsT = TypeVarWithDefault("ParamsT", default=None)
else:
    ParamsT = TypeVar("ParamsT")

MOST_LEVELS = 5
"""Of sections within sections: Markdown has headings of six levels, and these begin with the second."""

_LINE_ENDS = re.compile("\r\n?")
_NO_KEY = re.compile(r"[\W_]+")
_KEY = re.compile(r"\w[\w.-]*")


class MarkdownSection(Generic[ParamsT]):
    """A heading, a text with `${name}` for each field of its parameters, and sections below it.

    `MarkdownSection[Params](title="Task", template="…")`; without parameters a text has no names. `key` names
    the section in paths, by default its title does. A section for which `enabled` says no is left out with
    all below it. `default_params` are taken where a rendering is given none of their type.

    Raises `PromptValidationError` for parameters that are no dataclass, a name that is no field of theirs,
    default parameters of another type, and a title or key that says nothing.
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
        for name, text in {"title": title, "template": template, "key": key}.items():
            if not isinstance(text, str) and (name, text) != ("key", None):
                raise self._wrong(f"the {name} is no text but {text!r:.80}")
        self.title = " ".join(title.split())
        self.key = _NO_KEY.sub("-", self.title.lower()).strip("-") if key is None else key.strip().lower()
        self.template = dedent(_LINE_ENDS.sub("\n", template)).strip()
        self.children = tuple(children)
        self.enabled = enabled
        self.default_params = default_params
        self._check()
        self._pieces = tuple(self._split())

    @property
    def names(self) -> frozenset[str]:
        """The fields of its parameters that the text names."""
        return frozenset(name for _, name in self._pieces if name)

    def is_enabled(self, params: ParamsT) -> bool:
        """Whether the section is there, for these parameters."""
        return self.enabled is None or bool(self.enabled(params))

    def render(self, params: ParamsT, depth: int) -> str:
        """Heading and text. The heading is of the second level at depth 0, and one lower with each step."""
        return self.fill(depth, lambda name: written(getattr(params, name)))

    def fill(
        self, depth: int, value: Callable[[str], str], literal: Callable[[str], str] = lambda text: text
    ) -> str:
        """Heading and text, as `literal` writes them, with what `value` says of each name."""
        text = "".join(literal(before) + (value(name) if name else "") for before, name in self._pieces)
        return f"{'#' * (depth + 2)} {literal(self.title)}\n\n{text}".rstrip()

    def _split(self) -> Iterator[tuple[str, str | None]]:
        """The text in pieces, each with the name behind it."""
        known = {field.name for field in fields(self.params_type)} if self.params_type else set()
        literal, at = "", 0
        for mark in string.Template.pattern.finditer(self.template):
            literal += self.template[at : mark.start()]
            at = mark.end()
            name = mark["named"] or mark["braced"]
            if name:
                if name not in known:
                    raise self._wrong(f"`${{{name}}}` is no field of its parameters")
                yield literal, name
                literal = ""
            elif mark["escaped"] is not None:
                literal += "$"
            else:
                raise self._wrong("a `$` that begins no `${name}`; write `$$` for one")
        yield literal + self.template[at:], None

    def _check(self) -> None:
        if not (self.title and self.key):
            raise self._wrong("a section has no title, or one that makes no `key`")
        if not _KEY.fullmatch(self.key):
            raise self._wrong("a key has letters, digits, `_`, `-` and `.`, and begins with one of the first")
        if self.default_params is not None and type(self.default_params) is not self.params_type:
            raise self._wrong("the default parameters are of another type than the section's")

    def _wrong(self, what: str) -> PromptValidationError:
        path = (self.key,) if getattr(self, "key", "") else ()
        return PromptValidationError(what, dataclass_type=self.params_type, section=path)


@dataclass(frozen=True, slots=True)
class Placed:
    """A section where it stands in a prompt."""

    section: MarkdownSection[Any]
    path: tuple[str, ...]

    @property
    def depth(self) -> int:
        return len(self.path) - 1

    def text(self, given: Mapping[type[Any], Any]) -> str | None:
        """What it says, None where it is left out. Raises `PromptRenderError`."""
        params = self._params(given)
        try:
            return self.section.render(params, self.depth) if self.section.is_enabled(params) else None
        except Exception as error:  # of the author's own code
            raise PromptRenderError(
                f"{type(error).__name__}: {error}",
                dataclass_type=self.section.params_type,
                section=self.path,
            ) from error

    def _params(self, given: Mapping[type[Any], Any]) -> Any:
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
    """All sections in the order in which they are read.

    Raises `PromptValidationError` for what is no section, a path twice, and more than `MOST_LEVELS`.
    """
    keys: set[str] = set()
    for section in sections:
        if not isinstance(section, MarkdownSection):
            raise PromptValidationError(f"no section: {section!r:.80}", section=above)
        path = (*above, section.key)
        if section.key in keys:
            raise PromptValidationError("two sections of one path", section=path)
        if len(path) > MOST_LEVELS:
            raise PromptValidationError(
                f"Markdown has no headings below {MOST_LEVELS + 1} levels", section=path
            )
        keys.add(section.key)
        yield Placed(section, path)
        yield from placed(section.children, path)


def written(value: object) -> str:
    """How a value stands in a text: nothing for None."""
    return "" if value is None else str(value)
