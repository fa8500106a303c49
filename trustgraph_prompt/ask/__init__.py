"""How an answer is got: the loop of attempts, feedback and continuation, within a budget."""

from __future__ import annotations

from trustgraph_prompt.ask.cache import Cache, MemoryCache
from trustgraph_prompt.ask.cache_redis import RedisCache
from trustgraph_prompt.ask.hearing import Listen, Piece
from trustgraph_prompt.ask.loop import ask

__all__ = ["Cache", "Listen", "MemoryCache", "Piece", "RedisCache", "ask"]
