"""Every error of the package, and the records that say what was wrong.

    TrustgraphPromptError
    ├── ConfigError                      a file, an entry or an option that an author wrote
    │   ├── ContractError                  a schema that is none
    │   ├── LanguageError                  a text of the schema language that is none
    │   ├── TemplateError                  a template that does not compile, or may not run
    │   ├── PromptError                    a prompt definition that is incomplete or wrong
    │   │   └── PromptValidationError        … one that is written in Python, in sections
    │   └── FlowError                      a flow file
    ├── RenderError                      a template that cannot work with its terms
    │   ├── RenderTooLong                  … that writes or works more than the limits allow
    │   └── PromptRenderError              sections without their parameters
    ├── RequestError                     a message that is no request, or asks for what is not there
    ├── StructuredOutputInvalid          an answer that is not what its contract says
    │   ├── OutputParseError               … as seed 4 names it
    │   ├── JSONParseError                 … as seed 5 does, where no JSON was to be found
    │   └── SchemaValidationError          … and where some was
    ├── ProviderError                    who was asked could not answer; one class a category
    │   ├── ProviderAuthentication · ProviderInvalidModel
    │   ├── ProviderUnavailable (transient), ProviderUnexplained
    │   ├── ProviderModelNotLoaded (transient) · ProviderRateLimit (transient, retry_after), ProviderPaused
    │   └── ProviderInvalidResponse · ProviderInvalidRequest · ProviderUnsupportedContentBlock
    └── BrokerError                      messages could not move
        ├── BrokerUnavailable · TopicInvalid · SubscriptionBusy
        └── MessageTooLarge · BrokerClosed · CallTimeout

Every library error is mapped to one of these at the edge where it appears.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from trustgraph_prompt.cost import Usage
    from trustgraph_prompt.reader import CallReport, Outcome

__all__ = [
    "PROVIDER_ERRORS",
    "BrokerClosed",
    "BrokerError",
    "BrokerUnavailable",
    "CallTimeout",
    "ConfigError",
    "ContractError",
    "FlowError",
    "Issue",
    "JSONParseError",
    "LanguageError",
    "MessageTooLarge",
    "OutputParseError",
    "PromptError",
    "PromptRenderError",
    "PromptValidationError",
    "ProviderAuthentication",
    "ProviderError",
    "ProviderInvalidModel",
    "ProviderInvalidRequest",
    "ProviderInvalidResponse",
    "ProviderModelAway",
    "ProviderModelNotLoaded",
    "ProviderPaused",
    "ProviderRateLimit",
    "ProviderUnavailable",
    "ProviderUnexplained",
    "ProviderUnsupportedContentBlock",
    "Reason",
    "RenderError",
    "RenderTooLong",
    "RequestError",
    "SchemaValidationError",
    "StructuredOutputInvalid",
    "SubscriptionBusy",
    "TemplateError",
    "TopicInvalid",
    "TrustgraphPromptError",
]

E = TypeVar("E", bound=BaseException)


class Reason(StrEnum):
    """Why a value, or one object of an answer, was refused. `SUCCESS` whenever the value may be used."""

    SUCCESS = "success"
    EMPTY = "empty"
    REFUSED = "refused"
    INVALID_JSON = "invalid_json"
    EXTRACTION_FAILED = "extraction_failed"
    AMBIGUOUS = "ambiguous"
    REPAIR_FAILED = "repair_failed"
    TRUNCATED = "truncated"
    WRONG_CONTAINER = "wrong_container"
    SCHEMA_MISSING_FIELD = "schema_missing_field"
    SCHEMA_EXTRA_FIELD = "schema_extra_field"
    SCHEMA_TYPE_ERROR = "schema_type_error"
    SCHEMA_VALUE_ERROR = "schema_value_error"
    INVARIANT_VIOLATION = "invariant_violation"
    UNGROUNDED = "ungrounded"
    ECHOED = "echoed"
    UNSUPPORTED_VERSION = "unsupported_version"
    TOO_LARGE = "too_large"
    PROVIDER_ERROR = "provider_error"
    BUDGET_SPENT = "budget_spent"
    EFFORT_SPENT = "effort_spent"


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong with a value; `path` is a JSON Pointer (RFC 6901) into it, "" for the whole."""

    reason: Reason
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class TrustgraphPromptError(Exception):
    """The base of every error this package raises."""


class ConfigError(TrustgraphPromptError):
    """Something an author wrote is wrong: says where, under which key, what was found, what was expected.

    `others` are what else is wrong in the same place.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        path: str = "",
        found: object = None,
        expected: str | None = None,
    ) -> None:
        self.message = message
        self.where = where
        self.path = path
        self.found = found
        self.expected = expected
        self.others: tuple[ConfigError, ...] = ()
        super().__init__(message)

    def at(self, where: str, path: str = "") -> ConfigError:
        """The same error, seen from the file or topic entry that holds the wrong part."""
        return type(self)(
            self.message,
            where=self.where or where,
            path=path + self.path,
            found=self.found,
            expected=self.expected,
        )

    def __str__(self) -> str:
        place = " ".join(part for part in (self.where, self.path) if part)
        text = f"{place}: {self.message}" if place else self.message
        if self.expected is not None:
            text += f" (found {excerpt(repr(self.found), 80)}, expected {self.expected})"
        return text


class ContractError(ConfigError):
    """The schema or another part of a contract is not usable."""


class LanguageError(ConfigError):
    """A text of the schema language is wrong, or something cannot be said in it (seed 5).

    `where` ends with line and column; `path` is a JSON Pointer into a JSON Schema that cannot be said.
    """


class TemplateError(ConfigError):
    """The template does not compile, or uses what templates may not use; `line` is where, if known."""

    line: int | None = None

    @classmethod
    def in_line(cls, line: int, message: str) -> TemplateError:
        """The error in a line of the template, which the message names."""
        error = cls(f"line {line}: {message}")
        error.line = line
        return error

    def at(self, where: str, path: str = "") -> ConfigError:
        """The same error, seen from the file or topic entry that holds the template."""
        error = super().at(where, path)
        assert isinstance(error, TemplateError)
        error.line = self.line
        return error


class PromptError(ConfigError):
    """The definition of a prompt is incomplete or wrong."""


class PromptValidationError(PromptError):
    """A prompt in sections is wrong, which shows when it is made (seed 4).

    `dataclass_type` is the type that is no dataclass, or whose section is wrong; `section` the path of that.
    """

    def __init__(self, message: str, *, dataclass_type: object = None, section: tuple[str, ...] = ()) -> None:
        self.dataclass_type = dataclass_type
        self.section = section
        super().__init__(message, where="/".join(section) or None)


class FlowError(ConfigError):
    """A flow file is wrong."""


class RenderError(TrustgraphPromptError):
    """The template met terms it cannot work with."""


class RenderTooLong(RenderError):
    """The template ran out of its output or iteration budget."""


class PromptRenderError(RenderError):
    """Sections cannot be filled in (seed 4): which parameters are missing, or there twice."""

    def __init__(self, message: str, *, dataclass_type: object = None, section: tuple[str, ...] = ()) -> None:
        self.message = message
        self.dataclass_type = dataclass_type
        self.section = section
        super().__init__(f"{'/'.join(section)}: {message}" if section else message)


class RequestError(TrustgraphPromptError):
    """A message that cannot be served as it is; asking again does not help.

    `type` is what goes into the `error.type` of a response.
    """

    def __init__(self, message: str, *, type: str = "invalid-request") -> None:
        self.type = type
        super().__init__(message)


class StructuredOutputInvalid(TrustgraphPromptError):
    """An answer is not what its contract says (seed 2, section 7; category `structured_output_invalid`).

    The attributes are seed 2's: the schema asked for, the content byte for byte, what is wrong with it,
    why the model stopped and what all `calls` cost. `outcome` is the whole story.
    """

    category: ClassVar[str] = "structured_output_invalid"
    transient: ClassVar[bool] = False

    def __init__(
        self,
        error_message: str,
        *,
        response_schema: Mapping[str, Any] | bool | None = None,
        output_content: str = "",
        finish_reason: str | None = None,
        usage: Usage | None = None,
        issues: tuple[Issue, ...] = (),
        outcome: Outcome | None = None,
    ) -> None:
        self.error_message = error_message
        self.response_schema = response_schema
        self.output_content = output_content
        self.finish_reason = finish_reason
        self.usage = usage
        self.issues = issues
        self.outcome = outcome
        self.calls = () if outcome is None else outcome.calls
        super().__init__(error_message)


class OutputParseError(StructuredOutputInvalid):
    """An answer is not of the type that its prompt declares (seed 4).

    `dataclass_type` is that type, of one element where a list is declared, None where nothing is declared.
    `index` is the element that is wrong, `path` a JSON Pointer to what is wrong in the value. `issues` are
    all that is wrong, `output_content` is the answer.
    """

    def __init__(
        self,
        message: str,
        *,
        dataclass_type: type[Any] | None = None,
        index: int | None = None,
        path: str = "",
        output_content: str = "",
        cause: StructuredOutputInvalid | None = None,
    ) -> None:
        self.message = message
        self.dataclass_type = dataclass_type
        self.index = index
        self.path = path
        told = {} if cause is None else {name: getattr(cause, name) for name in _TOLD}
        super().__init__(message, output_content=output_content, **told)


class JSONParseError(StructuredOutputInvalid):
    """There is no JSON in an answer, or more than one (seed 5)."""

    def __init__(
        self, raw_response: str, parse_error: str, *, cause: StructuredOutputInvalid | None = None
    ) -> None:
        self.raw_response = raw_response
        self.parse_error = parse_error
        super().__init__(f"Failed to parse JSON from response: {parse_error}", **_told(cause, raw_response))


class SchemaValidationError(StructuredOutputInvalid):
    """The JSON of an answer is not as its schema says (seed 5).

    `schema_name` is as the prompt expects it, with `[]` where it is a list; each of `errors` begins with a
    JSON Pointer into the answer, the index of an element first. Where the last of all attempts held no JSON,
    they say so.
    """

    def __init__(
        self,
        schema_name: str,
        errors: Sequence[str],
        raw_response: str,
        *,
        cause: StructuredOutputInvalid | None = None,
    ) -> None:
        self.schema_name = schema_name
        self.errors = list(errors)
        self.raw_response = raw_response
        super().__init__(
            f"Schema validation failed for '{schema_name}': {'; '.join(self.errors)}",
            **_told(cause, raw_response),
        )


def _told(cause: StructuredOutputInvalid | None, raw: str) -> dict[str, Any]:
    """What a view says that is not of its seed."""
    return {"output_content": raw} if cause is None else {name: getattr(cause, name) for name in _TOLD}


_TOLD = ("response_schema", "finish_reason", "usage", "issues", "outcome")


class ProviderError(TrustgraphPromptError):
    """Who was asked could not answer. `category` is seed 2's name for why.

    `calls` are those that `complete` made, this failure the last of them, and `usage` what they cost.
    `loggable` is what of it may stand in a log: the address and the HTTP status or what broke, none of the
    server's own words, which may quote prompts and answers.
    """

    category: ClassVar[str]
    transient: ClassVar[bool] = False

    def __init__(self, message: str, *, retry_after: float | None = None, loggable: str = "") -> None:
        self.retry_after = retry_after
        self.loggable = loggable
        self.calls: tuple[CallReport, ...] = ()
        self.usage: Usage | None = None
        super().__init__(message)


class ProviderAuthentication(ProviderError):
    """Credentials are bad, expired or missing."""

    category = "provider_authentication"


class ProviderUnavailable(ProviderError):
    """Network, DNS, a time-out, a 5xx."""

    category = "provider_unavailable"
    transient = True


class ProviderUnexplained(ProviderUnavailable):
    """A worker over topics that does not say whether it may work later."""


class ProviderInvalidModel(ProviderError):
    """The provider does not know the model."""

    category = "provider_invalid_model"


class ProviderModelNotLoaded(ProviderError):
    """The model is known and not serving yet."""

    category = "provider_model_not_loaded"
    transient = True


class ProviderModelAway(ProviderError):
    """A worker over topics is there, and waits for its model, which is away."""

    category = "provider_model_away"
    transient = True


class ProviderRateLimit(ProviderError):
    """Too many requests; `retry_after` seconds where the provider said so."""

    category = "provider_rate_limit"
    transient = True


class ProviderPaused(ProviderRateLimit):
    """No call was made: the provider wants to be left alone for another `retry_after` seconds."""


class ProviderInvalidResponse(ProviderError):
    """What came back is not the envelope of an answer."""

    category = "provider_invalid_response"


class ProviderInvalidRequest(ProviderError):
    """The request is wrong, seen before it was sent or by the provider."""

    category = "provider_invalid_request"


class ProviderUnsupportedContentBlock(ProviderError):
    """The model cannot take a content block, a media type or a source."""

    category = "provider_unsupported_content_block"


#: The errors of providers by their category.
PROVIDER_ERRORS: Mapping[str, type[ProviderError]] = {
    kind.category: kind for kind in ProviderError.__subclasses__()
}


class BrokerError(TrustgraphPromptError):
    """Messages could not move."""


class BrokerUnavailable(BrokerError):
    """The broker cannot be reached, or did not answer in time."""


class TopicInvalid(BrokerError):
    """The name is no topic, or its namespace does not exist."""


class SubscriptionBusy(BrokerError):
    """An exclusive subscription has a consumer already."""


class MessageTooLarge(BrokerError):
    """The broker takes no message of that size."""


class BrokerClosed(BrokerError):
    """The broker, consumer or producer has been closed."""


class CallTimeout(BrokerError):
    """No response came in time."""


def raise_first(errors: Iterable[ConfigError]) -> None:
    """Raise the first of some errors, if there is one; the others are its `others`."""
    if every := [each for error in errors for each in (error, *error.others)]:
        raise first_of(every)


def first_of(errors: Sequence[ConfigError]) -> ConfigError:
    """The first of some errors; the rest are its `others`."""
    first, *others = errors
    for other in others:
        other.others = ()
    first.others = tuple(others)
    return first


def suggestion(name: str, known: Iterable[str]) -> str:
    """`, did you mean …?` where one of the known names is near, else nothing."""
    near = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def excerpt(text: str | bytes, limit: int = 200) -> str:
    """The beginning of a text that others wrote, at most `limit` characters of it, for a message of ours."""
    if isinstance(text, bytes):
        text = text[: 4 * limit + 4].decode(errors="replace")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_frames(error: E) -> E:
    """The error as a value to keep; its causes stay, and lose their frames as well.

    A traceback keeps every frame that the error passed alive, with all local variables.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = link.__context__ = None
        link = link.__cause__
    return error
