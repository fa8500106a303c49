"""How a response schema is sent to an OpenAI-compatible server: in the request, or in words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cachetools import LRUCache

from trustgraph_prompt.llm.openai import denials
from trustgraph_prompt.llm.openai.refusal import ServerRefusal
from trustgraph_prompt.llm.openai.request_body import encode, goes_on
from trustgraph_prompt.llm.openai.strict_schema import is_strict
from trustgraph_prompt.llm.records import Call, Message, SchemaPath, TextBlock

_DIRECTIVE = (
    "Your answer is one JSON value that is valid against the JSON Schema below, and nothing besides it: "
    "no explanation, no Markdown, no code fence.\n\n{schema}"
)


def told_in_words(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Append the schema and a directive to the system message, or add one.

    The schema keeps its order of keys. Raises `ProviderInvalidRequest` for a schema that is not JSON.
    """
    directive = _DIRECTIVE.format(schema=encode(schema).decode())
    if not messages or messages[0].role != "system":
        return [Message("system", directive), *messages]
    system, *rest = messages
    if isinstance(system.content, str):
        return [replace(system, content=f"{system.content}\n\n{directive}"), *rest]
    return [replace(system, content=(*system.content, TextBlock(directive))), *rest]


#: The paths, the strictest first.
PATHS: tuple[SchemaPath, ...] = ("strict", "native", "prompt")
_STRICT, _NATIVE, _PROMPT = range(3)

#: What OpenAI accepts as the name of a schema.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

#: Schemas whose paths are remembered.
_REMEMBERED = 1_000


@dataclass(slots=True)
class Wanted:
    """A schema that calls ask for, and what is known of it.

    `first` is the index of the first path worth trying, `is_alone` False with tools or a prefill beside it.
    """

    digest: str
    name: str
    first: int
    is_alone: bool

    def response_format(self, schema: Mapping[str, Any], path: SchemaPath | None) -> dict[str, Any] | None:
        """The value of `response_format`, with the schema as written; None where it is sent in words."""
        if path == "prompt":
            return None
        asked = {"name": self.name, "schema": schema, "strict": path == "strict"}
        return {"type": "json_schema", "json_schema": asked}


class SchemaPaths:
    """Learns on which paths a model accepts schemas, from all calls of a provider.

    A refusal counts only once the same call was answered on a less strict path; then the refused path is not
    tried again for this schema. Nor is it for any other schema if the refusal says that the feature is not
    supported, or if a second schema is refused in the same words; unless the model has accepted one on that
    path, or the call had tools or a prefill. `native` True: the first path or an error; False: words only.
    """

    def __init__(self, native: bool | None) -> None:
        self.seen: SchemaPath | None = "prompt" if native is False else None
        self._native = native
        self._first = _PROMPT if native is False else _STRICT
        self._wanted: LRUCache[object, Wanted] = LRUCache(_REMEMBERED)
        self._refused: dict[SchemaPath, tuple[str, str]] = {}  # last digest, server's words

    def wanted(self, call: Call, schema: Mapping[str, Any]) -> Wanted:
        """What is known of the schema of a call. Raises `ProviderInvalidRequest` where it is not JSON."""
        digest = hashlib.sha256(encode(schema)).hexdigest()
        # what a server accepts may depend on what else it has to do
        key = digest, bool(call.tools), call.stream, goes_on(call)
        if key not in self._wanted:
            first = _STRICT if is_strict(schema) else _NATIVE
            is_alone = not call.tools and not goes_on(call)
            self._wanted[key] = Wanted(digest, _name(schema, digest), first, is_alone)
        return self._wanted[key]

    def to_try(self, wanted: Wanted) -> tuple[SchemaPath, ...]:
        """The paths for a call; each is tried after the server has refused the one before."""
        paths = PATHS[max(self._first, wanted.first) :]
        return paths[:1] if self._native else paths

    def answered(
        self, wanted: Wanted, path: SchemaPath, refusals: Sequence[tuple[SchemaPath, ServerRefusal]]
    ) -> list[SchemaPath]:
        """Note that a call was answered on `path`, after these refusals of stricter ones.

        Returns the paths that are no longer tried for the schema.
        """
        given_up = [refused for refused, _ in refusals if PATHS.index(refused) >= wanted.first]
        for refused, refusal in refusals:
            self._learn(wanted, refused, refusal)
        if not self._has_taken(path):
            self.seen = path
            self._first = min(self._first, PATHS.index(path))
        return given_up

    def _learn(self, wanted: Wanted, refused: SchemaPath, refusal: ServerRefusal) -> None:
        less_strict = PATHS.index(refused) + 1
        wanted.first = max(wanted.first, less_strict)
        if not wanted.is_alone or self._has_taken(refused):
            return
        digest, words = self._refused.get(refused, ("", ""))
        is_second = digest != wanted.digest and words == refusal.words
        if is_second or denials.denies_schemas(refusal.words):
            self._first = max(self._first, less_strict)
        self._refused[refused] = wanted.digest, refusal.words

    def _has_taken(self, path: SchemaPath) -> bool:
        return self.seen is not None and PATHS.index(self.seen) <= PATHS.index(path)


def _name(schema: Mapping[str, Any], digest: str) -> str:
    title = schema.get("title")
    return title if isinstance(title, str) and _NAME.fullmatch(title) else f"schema_{digest[:16]}"
