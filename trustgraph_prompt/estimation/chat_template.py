"""The chat template of a model, which stands beside its `tokenizer.json`: renders messages as one text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import Message

ChatTemplate = Callable[[Sequence[Message]], str]
"""Renders messages as the model reads them. Raises `ConfigError`."""


def beside(tokenizer: Path) -> ChatTemplate | None:
    """Return the template in `chat_template.jinja` or `tokenizer_config.json` beside a file, if any.

    Raises `ConfigError` if it is not valid.
    """
    config_file, file = (
        tokenizer.with_name(name) for name in ("tokenizer_config.json", "chat_template.jinja")
    )
    try:
        config = json.loads(config_file.read_text("utf-8")) if config_file.exists() else {}
        source = file.read_text("utf-8") if file.exists() else _source(config)
        tokens = {name: _text(config.get(name)) for name in ("bos_token", "eos_token")}
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"is not the configuration of a tokenizer: {error}", where=str(config_file)
        ) from error
    return None if source is None else _compiled(source, tokens, file if file.exists() else config_file)


def _source(config: Mapping[str, Any]) -> str | None:
    found = config.get("chat_template")
    if isinstance(found, list):
        found = {each["name"]: each["template"] for each in found}["default"]
    return None if found is None else str(found)


def _text(token: Any) -> str:
    """The text of a special token, which may be an object with more."""
    return str(token["content"] if isinstance(token, dict) else token or "")


def _compiled(source: str, tokens: Mapping[str, str], file: Path) -> ChatTemplate:
    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    try:
        template = environment.from_string(source)
    except TemplateError as error:
        raise ConfigError(f"is not a chat template: {error}", where=str(file)) from error

    def render(messages: Sequence[Message]) -> str:
        said = [{"role": message.role, "content": message.text} for message in messages]
        try:
            return template.render(messages=said, add_generation_prompt=True, **tokens)
        except Exception as error:  # whatever a template does with these messages
            raise ConfigError(f"does not render the messages: {error}", where=str(file)) from error

    return render
