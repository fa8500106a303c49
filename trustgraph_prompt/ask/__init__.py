"""Asks a model: attempts, feedback and continuation, within a budget, and with a cache."""

from __future__ import annotations

from trustgraph_prompt.ask.cache import Cache, MemoryCache
from trustgraph_prompt.ask.call_stream import Listen, Piece
from trustgraph_prompt.ask.loop import ask
from trustgraph_prompt.ask.messages import Feedback
from trustgraph_prompt.ask.redis_cache import RedisCache
from trustgraph_prompt.ask.try_examples import try_example, try_examples
from trustgraph_prompt.ask.typed_extraction import aextract, extract

__all__ = [
    "Cache",
    "Feedback",
    "Listen",
    "MemoryCache",
    "Piece",
    "RedisCache",
    "aextract",
    "ask",
    "extract",
    "try_example",
    "try_examples",
]
