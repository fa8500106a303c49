"""Has a server count the tokens of a question: llama.cpp and vLLM offer that beside chat completions."""

from __future__ import annotations

from typing import Any

import orjson

from trustgraph_prompt.errors import ProviderInvalidRequest
from trustgraph_prompt.llm.openai.refusal import ServerRefusal
from trustgraph_prompt.llm.openai.server import Server, body_of
from trustgraph_prompt.llm.timeout import CallDeadline, Timeout

_TIMEOUT = Timeout(first=5.0, total=10.0)

#: The paths are at the root of the server, beside the `/v1` in which base URLs end.
_TEMPLATE, _TOKENIZE = "/../apply-template", "/../tokenize"

#: What of a request vLLM renders with the chat template.
_RENDERED = ("model", "messages", "tools", "chat_template_kwargs")


async def count_tokens(server: Server, body: bytes) -> int | None:
    """Return the prompt tokens of a request body, with the chat template; None if the server cannot count.

    Raises `REQUEST_ERRORS` if the server cannot be reached.
    """
    request = orjson.loads(body)
    rendered = await _post(server, _TEMPLATE, request)
    if isinstance(rendered.get("prompt"), str):
        content = {"content": rendered["prompt"], "add_special": True, "parse_special": True}
        tokens = (await _post(server, _TOKENIZE, content)).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None
    count = (await _post(server, _TOKENIZE, {k: request[k] for k in _RENDERED if k in request})).get("count")
    return count if isinstance(count, int) else None


async def _post(server: Server, path: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return the object that the server answers with; empty if it does not know the path."""
    deadline = CallDeadline(_TIMEOUT)
    try:
        async with server.send(orjson.dumps(value), deadline, path) as response:
            answer = orjson.loads(await body_of(response, deadline))
    except (ServerRefusal, ProviderInvalidRequest, orjson.JSONDecodeError):
        return {}
    return answer if isinstance(answer, dict) else {}
