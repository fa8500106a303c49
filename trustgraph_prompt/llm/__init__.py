"""Providers of language models: their interface, its records, and the implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.complete.completer import Response
from trustgraph_prompt.llm.limiter import Limiter
from trustgraph_prompt.llm.lost_messages import LostMessages
from trustgraph_prompt.llm.provider import Provider
from trustgraph_prompt.llm.rate_limits import Limits
from trustgraph_prompt.llm.recording_files import ScriptedAnswer
from trustgraph_prompt.llm.records import (
    Call,
    Delta,
    FinishReason,
    Identity,
    ImageBlock,
    Message,
    RuntimeConfig,
    TextBlock,
    Tool,
    ToolCall,
)
from trustgraph_prompt.llm.retry import RetryPolicy
from trustgraph_prompt.llm.scripted import ScriptedProvider
from trustgraph_prompt.llm.timeout import Timeout
from trustgraph_prompt.llm.topic_provider import TopicProvider

if TYPE_CHECKING:
    from trustgraph_prompt.llm.openai import OpenAIProvider

__all__ = [
    "Call",
    "Completer",
    "Delta",
    "FinishReason",
    "Identity",
    "ImageBlock",
    "Limiter",
    "Limits",
    "LostMessages",
    "Message",
    "OpenAIProvider",
    "Provider",
    "Response",
    "RetryPolicy",
    "RuntimeConfig",
    "ScriptedAnswer",
    "ScriptedProvider",
    "TextBlock",
    "Timeout",
    "Tool",
    "ToolCall",
    "TopicProvider",
]


def __getattr__(name: str) -> Any:
    # aiohttp takes a third of a second to import: only users of HTTP wait for it
    if name == "OpenAIProvider":
        from trustgraph_prompt.llm.openai import OpenAIProvider

        return OpenAIProvider
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
