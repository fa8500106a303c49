"""A prompt worker for knowledge-graph ingestion: asks a model and publishes typed, validated objects."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trustgraph_prompt.ask import aextract, extract
    from trustgraph_prompt.contract import Contract
    from trustgraph_prompt.doors import MarkdownSection, Prompt, PromptManager, parse_structured_output
    from trustgraph_prompt.errors import Reason, StructuredOutputInvalid
    from trustgraph_prompt.extraction import aextract_document, extract_document
    from trustgraph_prompt.prompts import PromptDefinition, PromptSet
    from trustgraph_prompt.reader import Outcome, Stage, StreamReader, read

__version__ = "0.1.0"

__all__ = [
    "Contract",
    "MarkdownSection",
    "Outcome",
    "Prompt",
    "PromptDefinition",
    "PromptManager",
    "PromptSet",
    "Reason",
    "Stage",
    "StreamReader",
    "StructuredOutputInvalid",
    "aextract",
    "aextract_document",
    "extract",
    "extract_document",
    "parse_structured_output",
    "read",
]

_PACKAGES = {
    "Contract": "contract",
    "MarkdownSection": "doors",
    "Outcome": "reader",
    "Prompt": "doors",
    "PromptDefinition": "prompts",
    "PromptManager": "doors",
    "PromptSet": "prompts",
    "Reason": "errors",
    "Stage": "reader",
    "StreamReader": "reader",
    "StructuredOutputInvalid": "errors",
    "aextract": "ask",
    "aextract_document": "extraction",
    "extract": "ask",
    "extract_document": "extraction",
    "parse_structured_output": "doors",
    "read": "reader",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: validators and templates take long to import."""
    if name in _PACKAGES:
        return getattr(import_module(f"{__name__}.{_PACKAGES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
