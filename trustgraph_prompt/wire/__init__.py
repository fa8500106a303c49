"""TrustGraph's records as they are on topics: flat JSON objects in UTF-8 with every field present.

Decoding ignores unknown keys and gives missing ones their defaults, so either side can add fields (TrustGraph
2.4 to 2.11). Our own fields follow those of TrustGraph.
"""

from __future__ import annotations

from trustgraph_prompt.json_text.encoding import canonical, encode
from trustgraph_prompt.wire.chunk import Chunk, Metadata
from trustgraph_prompt.wire.config import (
    ConfigKey,
    ConfigPush,
    ConfigRequest,
    ConfigResponse,
    ConfigValue,
    WorkspaceChanges,
)
from trustgraph_prompt.wire.prompt import PromptRequest, PromptResponse
from trustgraph_prompt.wire.records import MAX_MESSAGE_BYTES, Error, decode
from trustgraph_prompt.wire.text_completion import ModelInfo, TextCompletionRequest, TextCompletionResponse

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Chunk",
    "ConfigKey",
    "ConfigPush",
    "ConfigRequest",
    "ConfigResponse",
    "ConfigValue",
    "Error",
    "Metadata",
    "ModelInfo",
    "PromptRequest",
    "PromptResponse",
    "TextCompletionRequest",
    "TextCompletionResponse",
    "WorkspaceChanges",
    "canonical",
    "decode",
    "encode",
]
