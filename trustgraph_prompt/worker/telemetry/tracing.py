"""Traces, which are off unless OpenTelemetry's own variables say otherwise (docs/tracing.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from trustgraph_prompt import http_urls
from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow

Tell = Callable[[Outcome | Exception], None]
"""Takes in what came of something."""

EXPORTERS: Final = ("otlp", "console")

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Tracing:
    """What a worker does so that its traces can be seen: nothing. `spans.py` has the other one."""

    def broker(self, broker: Broker) -> Broker:
        """The broker, whose messages carry the trace that they belong to."""
        return broker

    def provider(self, provider: Provider) -> Provider:
        """The provider, whose calls are spans."""
        return provider

    def request(self, flow: Flow, message: Message) -> AbstractContextManager[Tell]:
        """The time in which a message is worked on; gives what is to be told of the result."""
        return nullcontext(_ignore)

    def asking(self, prompt: PromptDefinition) -> AbstractContextManager[Tell]:
        """The time in which a prompt is asked; gives what is to be told of the outcome."""
        return nullcontext(_ignore)

    async def close(self) -> None:
        """Send what has not been sent, for some seconds at most."""


def from_environment(environment: Mapping[str, str] = os.environ) -> Tracing:
    """The tracing that `OTEL_…` variables ask for; none where they ask for none.

    Raises `ConfigError` for a variable that nobody understands, and where the extra is not installed.
    """
    exporters = _exporters(environment)
    if not exporters:
        return Tracing()
    if "otlp" in exporters:
        _check(environment)
    try:
        from trustgraph_prompt.worker.telemetry import spans

        return spans.start(exporters, environment)
    except ImportError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise ConfigError(
            "OpenTelemetry's variables ask for traces, and these need the extra `tracing`: "
            "pip install 'trustgraph-prompt[tracing]'"
        ) from None
    except ValueError as error:
        raise ConfigError(f"OpenTelemetry does not understand one of its variables: {error}") from error


def _exporters(environment: Mapping[str, str]) -> list[str]:
    """Where traces go: what `OTEL_TRACES_EXPORTER` says, or "otlp" where only an endpoint is named."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    named = environment.get("OTEL_TRACES_EXPORTER", "")
    wanted = [name for each in named.split(",") if (name := each.strip().lower())]
    for name in wanted:
        if name not in (*EXPORTERS, "none"):
            raise ConfigError(
                "traces cannot go there",
                where="OTEL_TRACES_EXPORTER",
                found=name,
                expected="otlp, console or none",
            )
    if not wanted and any(environment.get(name, "").strip() for name in _ENDPOINTS):
        return ["otlp"]
    return [] if "none" in wanted else list(dict.fromkeys(wanted))


def _check(environment: Mapping[str, str]) -> None:
    """What the exporter would stumble over later, and without end."""
    for name in _ENDPOINTS:
        endpoint = environment.get(name, "").strip()
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"the URL is not valid: {http_urls.why_invalid(endpoint)}",
                where=name,
                found=endpoint,
                expected="http://localhost:4318 or the like",
            )
    for name in _PROTOCOLS:
        protocol = environment.get(name, "").strip()
        if protocol not in ("", "http/protobuf"):
            raise ConfigError("unknown protocol", where=name, found=protocol, expected="http/protobuf")


def _ignore(result: Outcome | Exception) -> None:
    """Nobody looks."""
