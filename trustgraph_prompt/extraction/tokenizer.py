"""Counts the tokens of questions: by the server, with a tokenizer file, or with the bundled tokenizer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from trustgraph_prompt.documents import chunks
from trustgraph_prompt.errors import ConfigError, ProviderError, ProviderInvalidResponse
from trustgraph_prompt.llm import Call, Provider

MESSAGE_TOKENS = 4
"""Tokens that chat templates add to a message, where the server does not count."""

CLOSE, ROUGH = 0.02, 0.2
"""How far a count may be from that of the model, as a share: by its own server, or not."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts the tokens of a call, to `within` a share of the count of the model.

    `name` says with what; `why` says why with nothing better.
    """

    name: str
    count: Callable[[Call], Awaitable[int]]
    within: float = ROUGH
    why: str = ""


async def choose_tokenizer(provider: Provider, file: Path | None, probe: Call) -> Tokenizer:
    """Return the tokenizer of a file, else that of the server if it can count `probe`, else the bundled one.

    Raises `ConfigError` for an unusable file.
    """
    if file is not None:
        return Tokenizer(f"the tokenizer in {file}", _counting(_encoding(file)))
    by_server = getattr(provider, "count_tokens", None)
    if by_server is None:
        return bundled("")

    async def count(call: Call) -> int:
        if (tokens := await by_server(call)) is None:
            raise ProviderInvalidResponse(
                "the server counted the tokens of some questions only and may be busy; --tokenizer counts "
                "without it"
            )
        return int(tokens)

    try:
        if await by_server(probe) is None:
            return bundled(f"{provider.identity.place} does not count tokens")
    except ProviderError as error:
        return bundled(str(error))
    return Tokenizer(f"the tokenizer of {provider.identity.place}", count, CLOSE)


def bundled(why: str) -> Tokenizer:
    """The tokenizer that is always there; `why` says why with nothing better."""
    count = _counting(chunks.count_tokens, with_schema=True)
    return Tokenizer(f"the bundled tokenizer of {chunks.TOKENIZER}", count, why=why)


def _counting(
    tokens_of: Callable[[str], int], *, with_schema: bool = False
) -> Callable[[Call], Awaitable[int]]:
    """Count the messages. OpenAI shows its models the schema, too; servers of other models enforce it."""

    async def count(call: Call) -> int:
        schema = json.dumps(call.response_schema) if with_schema and call.response_schema else ""
        messages = sum(tokens_of(message.text) + MESSAGE_TOKENS for message in call.messages)
        return messages + tokens_of(schema)

    return count


def _encoding(file: Path) -> Callable[[str], int]:
    where = f"--tokenizer {file}"
    try:
        from tokenizers import Tokenizer as FileTokenizer
    except ImportError as error:
        message = "a tokenizer file needs the extra `tokenizer`: pip install 'trustgraph-prompt[tokenizer]'"
        raise ConfigError(message, where=where) from error
    try:
        tokenizer = FileTokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more specific
        message = f"is not a tokenizer: {error}"
        raise ConfigError(message, where=where, expected="a tokenizer.json of Hugging Face") from error
    tokenizer.no_truncation()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
