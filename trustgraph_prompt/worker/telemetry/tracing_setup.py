"""Sets up tracing as OpenTelemetry's environment variables say (docs/how-to/tracing.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from trustgraph_prompt import http_urls
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing

EXPORTERS: Final = ("otlp", "console")

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def from_environment(environment: Mapping[str, str] = os.environ) -> Tracing:
    """Set up the tracing that `OTEL_…` variables request, if any.

    Raises `ConfigError` for an invalid variable, and if the extra `tracing` is not installed.
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
            "the OTEL_… variables request traces, which need the extra `tracing`: "
            "pip install 'trustgraph-prompt[tracing]'"
        ) from None
    except ValueError as error:
        raise ConfigError(f"an OTEL_… variable is not valid: {error}") from error


def _exporters(environment: Mapping[str, str]) -> list[str]:
    """The exporters in `OTEL_TRACES_EXPORTER`, or "otlp" if only an endpoint is given."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    named = environment.get("OTEL_TRACES_EXPORTER", "")
    wanted = [name for part in named.split(",") if (name := part.strip().lower())]
    for name in wanted:
        if name not in (*EXPORTERS, "none"):
            raise ConfigError(
                "unknown exporter of traces",
                where="OTEL_TRACES_EXPORTER",
                found=name,
                expected="otlp, console or none",
            )
    if not wanted and any(environment.get(name, "").strip() for name in _ENDPOINTS):
        return ["otlp"]
    return [] if "none" in wanted else list(dict.fromkeys(wanted))


def _check(environment: Mapping[str, str]) -> None:
    """Check what the exporter would otherwise reject later, with every batch. Raises `ConfigError`."""
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
