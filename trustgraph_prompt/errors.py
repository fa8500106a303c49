"""Every error of the package, and the records that describe what is wrong.

    TrustgraphPromptError
    ├── ConfigError                      an invalid file, entry or option
    │   ├── ContractError                  an invalid schema or contract
    │   ├── LanguageError                  an invalid text in the schema language
    │   ├── TemplateError                  a template that does not compile or uses something forbidden
    │   ├── PromptError                    an incomplete or invalid prompt definition
    │   │   └── PromptValidationError        an invalid prompt in sections (weakincentives)
    │   └── FlowError                      an invalid flow file
    ├── RenderError                      a template that fails with the given terms
    │   ├── RenderTooLong                  its output or its work exceeds the limits
    │   └── PromptRenderError              sections with missing parameters (weakincentives)
    ├── RequestError                     an invalid request, or one for something that does not exist
    ├── StructuredOutputInvalid          an answer that does not meet its contract
    │   ├── OutputParseError               the same for weakincentives
    │   ├── JSONParseError                 the same for StreetRace: an answer without JSON
    │   └── SchemaValidationError          the same for StreetRace: JSON that does not meet its schema
    ├── ProviderError                    a failed call to a model; one class for each category
    │   ├── ProviderAuthentication · ProviderInvalidModel
    │   ├── ProviderUnavailable (transient), ProviderUnexplained
    │   ├── ProviderModelNotLoaded (transient) · ProviderModelAway (transient)
    │   ├── ProviderRateLimit (transient, retry_after), ProviderPaused
    │   └── ProviderInvalidResponse · ProviderInvalidRequest · ProviderUnsupportedContentBlock
    ├── StoreError                       a graph store that is busy, or that the disk fails
    └── BrokerError                      a failed operation of the message broker
        ├── BrokerUnavailable · TopicInvalid · SubscriptionBusy
        └── MessageTooLarge · BrokerClosed · CallTimeout

Errors of libraries are mapped to one of these where the library is called.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from trustgraph_prompt.cost import Usage

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
    "StoreError",
    "StructuredOutputInvalid",
    "SubscriptionBusy",
    "TemplateError",
    "TopicInvalid",
    "TrustgraphPromptError",
]

E = TypeVar("E", bound=BaseException)


class Reason(StrEnum):
    """Why a value, or one object of an answer, was rejected; `SUCCESS` if the value may be used."""

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
    UNSUPPORTED = "unsupported"
    REPETITIVE = "repetitive"
    UNSUPPORTED_VERSION = "unsupported_version"
    TOO_LARGE = "too_large"
    PROVIDER_ERROR = "provider_error"
    BUDGET_SPENT = "budget_spent"
    EFFORT_SPENT = "effort_spent"


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem of a value; `path` is a JSON Pointer (RFC 6901) into the value, "" for all of it.

    `keyword` is a JSON Pointer to the rule that the value breaks, "" if none is known. It begins with the
    part of the contract: `/schema`, `/versions/1.0`, `/invariants/0` or `/extra`. `advice` is what the model
    is told to do about it, and only the model.
    """

    reason: Reason
    message: str
    path: str = ""
    keyword: str = field(default="", compare=False)
    advice: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    @property
    def for_model(self) -> str:
        """The text of the issue with the advice."""
        return f"{self}{self.advice}"


class TrustgraphPromptError(Exception):
    """The base class of all errors of this package."""


class ConfigError(TrustgraphPromptError):
    """A file, an entry or an option is invalid: says where, which key, what was found and what was expected.

    `where` names the file or entry, `path` is a JSON Pointer into it. `others` are further errors of the same
    file or entry.
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
        """Return the error as one of the enclosing file or entry: `where` names it, `path` comes first."""
        return self.moved(self.where or where, path + self.path)

    def moved(self, where: str | None, path: str) -> ConfigError:
        """Return the same error at another place and path."""
        return type(self)(self.message, where=where, path=path, found=self.found, expected=self.expected)

    def __str__(self) -> str:
        place = " ".join(part for part in (self.where, self.path) if part)
        text = f"{place}: {self.message}" if place else self.message
        if self.found is None and self.expected is None:
            return text
        expected = "" if self.expected is None else f", expected {self.expected}"
        return f"{text} (found {excerpt(repr(self.found), 80)}{expected})"


class ContractError(ConfigError):
    """A schema, or another part of a contract, is invalid."""


class LanguageError(ConfigError):
    """A text in the schema language is invalid; `where` ends with line and column (StreetRace)."""


class TemplateError(ConfigError):
    """The template does not compile, or uses something forbidden; `line` and `column` count from 1."""

    line: int | None = None
    column: int | None = None

    @classmethod
    def in_line(cls, line: int, message: str, column: int | None = None) -> TemplateError:
        """Make the error for a line of the template; the message names the line."""
        error = cls(f"line {line}: {message}")
        error.line, error.column = line, column
        return error

    def at(self, where: str, path: str = "") -> ConfigError:
        """Return the error as one of the enclosing file or entry; the `line` is kept."""
        error = super().at(where, path)
        assert isinstance(error, TemplateError)
        error.line, error.column = self.line, self.column
        return error


class PromptError(ConfigError):
    """A prompt definition is incomplete or invalid."""


class PromptValidationError(PromptError):
    """A prompt in sections is invalid; raised by its constructor (weakincentives).

    `dataclass_type` is the type that is not a dataclass, or that of the invalid section; `section` is the
    path of the section.
    """

    def __init__(self, message: str, *, dataclass_type: object = None, section: tuple[str, ...] = ()) -> None:
        self.dataclass_type = dataclass_type
        self.section = section
        super().__init__(message, where="/".join(section) or None)


class FlowError(ConfigError):
    """A flow file is invalid."""


class RenderError(TrustgraphPromptError):
    """A template failed with the given terms."""


class RenderTooLong(RenderError):
    """The output of a template, or the work that it takes, exceeds the limits."""


class PromptRenderError(RenderError):
    """The parameters of sections are missing or given twice (weakincentives)."""

    def __init__(self, message: str, *, dataclass_type: object = None, section: tuple[str, ...] = ()) -> None:
        self.message = message
        self.dataclass_type = dataclass_type
        self.section = section
        super().__init__(f"{'/'.join(section)}: {message}" if section else message)


class RequestError(TrustgraphPromptError):
    """A request is invalid, and a retry would not help. `type` becomes the `error.type` of the response."""

    def __init__(self, message: str, *, type: str = "invalid-request") -> None:
        self.type = type
        super().__init__(message)


class StructuredOutputInvalid(TrustgraphPromptError):
    """An answer does not meet its contract (OpenArmature, section 7; category `structured_output_invalid`).

    OpenArmature defines `response_schema`, `output_content` (the answer, byte for byte), `error_message`,
    `finish_reason` and `usage` (of all calls). `issues` are the problems of the answer, `outcome` is the
    `Outcome` with all details, `calls` are its `CallReport`s.
    """

    # An outcome raises this error: naming the classes of outcome.py here would close a circle of imports.

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
        outcome: Any = None,
    ) -> None:
        self.error_message = error_message
        self.response_schema = response_schema
        self.output_content = output_content
        self.finish_reason = finish_reason
        self.usage = usage
        self.issues = issues
        self.outcome = outcome
        self.calls: tuple[Any, ...] = () if outcome is None else outcome.calls
        super().__init__(error_message)


class OutputParseError(StructuredOutputInvalid):
    """An answer is not of the type that its prompt declares (weakincentives).

    `dataclass_type` is that type, or that of the elements of a list; None if nothing is declared. `index` is
    the first invalid element, `path` a JSON Pointer to the first issue. `issues` are all of them,
    `output_content` is the answer.
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
        super().__init__(message, **_details(cause) | {"output_content": output_content})


class JSONParseError(StructuredOutputInvalid):
    """An answer holds no JSON value, or several (StreetRace)."""

    def __init__(
        self, raw_response: str, parse_error: str, *, cause: StructuredOutputInvalid | None = None
    ) -> None:
        self.raw_response = raw_response
        self.parse_error = parse_error
        super().__init__(
            f"Failed to parse JSON from response: {parse_error}",
            **_details(cause, raw_response),
        )


class SchemaValidationError(StructuredOutputInvalid):
    """The JSON of an answer does not meet its schema (StreetRace).

    `schema_name` is that of the prompt, with `[]` for a list. Each of `errors` begins with a JSON Pointer
    into the answer, which begins with the index of the element for a list; or says that the last attempt held
    no JSON.
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
            **_details(cause, raw_response),
        )


def _details(cause: StructuredOutputInvalid | None, raw: str = "") -> dict[str, Any]:
    """The arguments of `StructuredOutputInvalid`, copied from the error that is presented as another one."""
    if cause is None:
        return {"output_content": raw}
    names = ("response_schema", "finish_reason", "usage", "issues", "outcome")
    return {"output_content": cause.output_content or raw, **{name: getattr(cause, name) for name in names}}


class ProviderError(TrustgraphPromptError):
    """A call to a model failed. `category` is OpenArmature's name for the reason.

    `calls` are those that `complete` made, the failed one last, and `usage` is their usage. `loggable` is a
    text that is safe to log: the address and the HTTP status or the cause, without the server's own message,
    which may quote prompts and answers. `retry_after` is in seconds. `status` is the HTTP status of a
    rejection, if there was one.
    """

    category: ClassVar[str]
    transient: ClassVar[bool] = False
    status: int | None = None

    def __init__(self, message: str, *, retry_after: float | None = None, loggable: str = "") -> None:
        self.retry_after = retry_after
        self.loggable = loggable
        self.calls: tuple[Any, ...] = ()  # `CallReport`s
        self.usage: Usage | None = None
        super().__init__(message)


class ProviderAuthentication(ProviderError):
    """The credentials are invalid, expired or missing."""

    category = "provider_authentication"


class ProviderUnavailable(ProviderError):
    """A network or DNS error, a timeout, or an HTTP status of 5xx."""

    category = "provider_unavailable"
    transient = True


class ProviderUnexplained(ProviderUnavailable):
    """A completion worker failed without saying whether a retry may succeed."""


class ProviderInvalidModel(ProviderError):
    """The provider does not know the model."""

    category = "provider_invalid_model"


class ProviderModelNotLoaded(ProviderError):
    """The model is known but not loaded yet."""

    category = "provider_model_not_loaded"
    transient = True


class ProviderModelAway(ProviderError):
    """A completion worker is waiting for its model, which is unreachable."""

    category = "provider_model_away"
    transient = True


class ProviderRateLimit(ProviderError):
    """Too many requests; `retry_after` in seconds, if the provider gave it."""

    category = "provider_rate_limit"
    transient = True


class ProviderPaused(ProviderRateLimit):
    """No call was made: the provider asked for a pause, of which `retry_after` seconds are left."""


class ProviderInvalidResponse(ProviderError):
    """The response is not a valid completion."""

    category = "provider_invalid_response"


class ProviderInvalidRequest(ProviderError):
    """The request is invalid, as found before it was sent or by the provider."""

    category = "provider_invalid_request"


class ProviderUnsupportedContentBlock(ProviderError):
    """The model does not support a content block, media type or source."""

    category = "provider_unsupported_content_block"


PROVIDER_ERRORS: Mapping[str, type[ProviderError]] = {
    error.category: error for error in ProviderError.__subclasses__()
}
"""The provider errors by category."""


class StoreError(TrustgraphPromptError):
    """A graph store is held by another process, or cannot be read or written."""


class BrokerError(TrustgraphPromptError):
    """An operation of the message broker failed."""


class BrokerUnavailable(BrokerError):
    """The broker cannot be reached, or did not answer in time."""


class TopicInvalid(BrokerError):
    """The topic name is invalid, or its namespace does not exist."""


class SubscriptionBusy(BrokerError):
    """An exclusive subscription already has a consumer."""


class MessageTooLarge(BrokerError):
    """The message exceeds the size limit of the broker."""


class BrokerClosed(BrokerError):
    """The broker, consumer or producer has been closed."""


class CallTimeout(BrokerError):
    """No response came in time."""


def raise_first(errors: Iterable[ConfigError]) -> None:
    """Raise the first of `errors`, if any, with the rest as its `others`."""
    if flat := [each for error in errors for each in (error, *error.others)]:
        raise first_of(flat)


def first_of(errors: Sequence[ConfigError]) -> ConfigError:
    """Return the first of `errors`, with the rest as its `others`."""
    first, *others = errors
    for other in others:
        other.others = ()
    first.others = tuple(others)
    return first


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean …?` if one of the known names is similar, else ""."""
    near = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def excerpt(text: str | bytes, limit: int = 200) -> str:
    """Return the beginning of a text, at most `limit` characters, to quote it in a message."""
    if isinstance(text, bytes):
        text = text[: 4 * limit + 4].decode(errors="replace")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_frames(error: E) -> E:
    """Remove the tracebacks of an error and of its causes, and return it.

    A traceback keeps every frame that the error passed alive, with all local variables.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = link.__context__ = None
        link = link.__cause__
    return error
