"""A response schema told in words, for who cannot be held to it any other way (seed 2, section 8.5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trustgraph_prompt.llm.openai.encoding import encode
from trustgraph_prompt.llm.records import Message, TextBlock

_DIRECTIVE = (
    "Your answer is one JSON value that is valid against the JSON Schema below, and nothing besides it: "
    "no explanation, no Markdown, no code fence.\n\n{schema}"
)


def told(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """The messages with a directive at the end of the system message; of their own where there is none.

    The schema keeps its order of keys. Raises `ProviderInvalidRequest` for a schema that is no JSON.
    """
    directive = _DIRECTIVE.format(schema=encode(schema).decode())
    if not messages or messages[0].role != "system":
        return [Message("system", directive), *messages]
    system, *rest = messages
    if isinstance(system.content, str):
        return [replace(system, content=f"{system.content}\n\n{directive}"), *rest]
    return [replace(system, content=(*system.content, TextBlock(directive))), *rest]
