"""When there are traces: what the environment says, and what is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.worker.telemetry.spans import Spans
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing
from trustgraph_prompt.worker.telemetry.tracing_setup import from_environment

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class TestTheEnvironmentDecides:
    @pytest.mark.parametrize(
        "environment",
        [
            {},
            {"OTEL_TRACES_EXPORTER": ""},
            {"OTEL_TRACES_EXPORTER": "none"},
            {"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://localhost:4318"},
            {ENDPOINT: "  "},
            {ENDPOINT: "http://localhost:4318", "OTEL_SDK_DISABLED": "True"},
            {"OTEL_SERVICE_NAME": "worker", "OTEL_METRICS_EXPORTER": "otlp"},
        ],
    )
    async def test_environment_without_or_with_disabled_tracing_gives_no_traces(
        self, environment: dict[str, str]
    ) -> None:
        assert type(from_environment(environment)) is Tracing

    @pytest.mark.parametrize(
        "environment",
        [
            {"OTEL_TRACES_EXPORTER": "console"},
            {"OTEL_TRACES_EXPORTER": "OTLP, console"},
            {ENDPOINT: "http://localhost:4318", "OTEL_SDK_DISABLED": "false"},
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"},
            {ENDPOINT: "http://localhost:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        ],
    )
    async def test_environment_with_exporter_or_endpoint_gives_traces(
        self, environment: dict[str, str]
    ) -> None:
        tracing = from_environment(environment)

        assert isinstance(tracing, Spans)
        await tracing.close()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            (ENDPOINT, "localhost:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ],
    )
    def test_unsupported_variable_is_refused_by_name(self, name: str, value: str) -> None:
        with pytest.raises(ConfigError, match=f"{name}.*{value}"):
            from_environment({"OTEL_TRACES_EXPORTER": "otlp", name: value})

    def test_variable_refused_by_opentelemetry_is_a_config_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")

        with pytest.raises(ConfigError, match="OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"):
            from_environment({"OTEL_TRACES_EXPORTER": "console"})

    @pytest.mark.parametrize(
        ("exporter", "missing"),
        [
            ("console", "opentelemetry.sdk.trace"),
            ("otlp", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
        ],
    )
    def test_missing_extra_is_named(
        self, exporter: str, missing: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delitem(sys.modules, "trustgraph_prompt.worker.telemetry.spans")
        monkeypatch.delattr("trustgraph_prompt.worker.telemetry.spans")
        monkeypatch.setitem(sys.modules, missing, None)

        with pytest.raises(ConfigError, match=r"trustgraph-prompt\[tracing\]"):
            from_environment({"OTEL_TRACES_EXPORTER": exporter})

    def test_extra_is_not_imported_without_traces(self) -> None:
        code = (
            "import sys, trustgraph_prompt.cli.run, trustgraph_prompt.worker, trustgraph_prompt.ask\n"
            "from trustgraph_prompt.worker.telemetry.tracing_setup import from_environment\n"
            "from_environment({})\n"
            "print([name for name in sys.modules if name.startswith(('opentelemetry', 'redis'))])"
        )

        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert found.stdout.strip() == "[]"
