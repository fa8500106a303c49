"""How a question is written: templates, prompt definitions, and the snapshot of a workspace's prompts."""

from __future__ import annotations

from trustgraph_prompt.prompts.definition import PromptDefinition, Question
from trustgraph_prompt.prompts.escalation import Escalation
from trustgraph_prompt.prompts.example import Example
from trustgraph_prompt.prompts.prompt_set import PromptSet
from trustgraph_prompt.prompts.shown_examples import Turn
from trustgraph_prompt.prompts.template import Template

__all__ = ["Escalation", "Example", "PromptDefinition", "PromptSet", "Question", "Template", "Turn"]
