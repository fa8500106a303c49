"""The worker: serves flows from a broker, with prompts that change while it runs."""

from __future__ import annotations

from trustgraph_prompt.worker.config.source import Prompts
from trustgraph_prompt.worker.flow import Flow, GraphOptions, Input, Outputs
from trustgraph_prompt.worker.messages.answer_record import Answer
from trustgraph_prompt.worker.service import Service
from trustgraph_prompt.worker.timeouts import Timeouts

__all__ = ["Answer", "Flow", "GraphOptions", "Input", "Outputs", "Prompts", "Service", "Timeouts"]
