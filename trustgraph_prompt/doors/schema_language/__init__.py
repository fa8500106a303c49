"""The run time of the schema language (StreetRace): asks a model the prompts of a text."""

from __future__ import annotations

from trustgraph_prompt.doors.schema_language.pydantic_models import schema_to_pydantic
from trustgraph_prompt.doors.schema_language.question import (
    MAX_SCHEMA_RETRIES,
    WORDING,
    EscalationEvent,
    EscalationSpec,
    OnEscalation,
    PromptSpec,
)
from trustgraph_prompt.doors.schema_language.types import DSL_TYPE_MAP, type_expr_to_python_type
from trustgraph_prompt.doors.schema_language.workflow import Workflow
from trustgraph_prompt.errors import JSONParseError, SchemaValidationError
from trustgraph_prompt.language.nodes import SchemaDef, TypeExpr

__all__ = [
    "DSL_TYPE_MAP",
    "MAX_SCHEMA_RETRIES",
    "WORDING",
    "EscalationEvent",
    "EscalationSpec",
    "JSONParseError",
    "OnEscalation",
    "PromptSpec",
    "SchemaDef",
    "SchemaValidationError",
    "TypeExpr",
    "Workflow",
    "schema_to_pydantic",
    "type_expr_to_python_type",
]
