"""The prompt of `extract --schema`: made from a schema or a class, and a question, without a prompt file."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from trustgraph_prompt.prompts import PromptSet

_EXPECTED = "a file, or MODULE:CLASS, such as machines:Machine for the class in machines.py"


def prompts_of(schema: str, question: str) -> PromptSet:
    """The prompt that asks for the objects of a JSON Schema in a file, or of a class, as `MODULE:CLASS`.

    The module is imported, from the current folder first. Raises `ConfigError`, `ContractError`.
    """
    from trustgraph_prompt.ask.typed_extraction import extraction_prompt
    from trustgraph_prompt.prompts import PromptSet

    if not question.strip() or question.startswith("-") or os.path.exists(question):
        raise ConfigError(
            "a question follows the schema",
            where=f"--schema {schema}",
            found=question,
            expected='a question, such as "find machines with maker and year"',
        )
    try:
        prompt = extraction_prompt(_wanted(schema), question, many=True)
    except ContractError as error:
        raise error.at(f"--schema {schema}") from None
    return replace(PromptSet.build({}), prompts={prompt.id: prompt})


def _wanted(schema: str) -> Any:
    module, _, name = schema.partition(":")
    if not name and (meant := _class_meant(schema)):
        raise ConfigError(
            f"names no class, did you mean {meant}?", where="--schema", found=schema, expected=_EXPECTED
        )
    if os.path.exists(schema) or not name:
        return options.read_json(Path(schema))
    sys.path.insert(0, "")
    try:
        return attrgetter(name)(import_module(module))
    except Exception as error:  # of the user's code, too
        raise ConfigError(
            f"cannot be imported: {type(error).__name__}: {error}",
            where="--schema",
            found=schema,
            expected=_EXPECTED,
        ) from error
    finally:
        sys.path.remove("")


def _class_meant(name: str) -> str | None:
    """The MODULE:CLASS that a name without a colon may stand for, such as models.py or models.Building."""
    module, _, last = name.rpartition(".")
    if module and last == "py":
        return f"{os.path.relpath(module).replace(os.sep, '.').lstrip('.')}:CLASS"
    is_dotted = module and name.replace(".", "").isidentifier() and not os.path.exists(name)
    return f"{module}:{last}" if is_dotted and last[0].isupper() else None
