"""What `eval` scores: prompts with a model, and what `--against` names: a version, other files or a model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import broker_options, config_history, prompt_options
from trustgraph_prompt.cli.model_options import recording
from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.cli.broker_options import ReadWorkspaceOptions
    from trustgraph_prompt.cli.model_options import ModelOptions
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.prompts import PromptDefinition, PromptSet

_VERSION = re.compile("[0-9a-f]{4,64}")

_SUFFIXES = (".prompt", ".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Side:
    """What is scored: the prompts in `entries`, by config key, that `ids` names, with a model or a recording.

    Without a system message of their own, prompts get the bundled one, as in a worker.
    """

    entries: Mapping[str, str]
    ids: Sequence[str]
    model: ModelOptions

    @classmethod
    def of(cls, templates: Path | None, ids: Sequence[str], model: ModelOptions) -> Side:
        """Read the prompts of a file or folder, or the bundled ones. Raises `ConfigError`."""
        from trustgraph_prompt import package_data
        from trustgraph_prompt.prompts import files
        from trustgraph_prompt.worker.config.history import bundled_system

        entries = {**bundled_system(), **files.load(templates or package_data.templates())}
        return cls(entries, ids, model)

    @property
    def name(self) -> str:
        """The model, or the recording."""
        return self.model.script or self.model.model or ""

    @cached_property
    def identity(self) -> str:
        """What kept answers depend on, beside the prompts. Raises `ConfigError`."""
        return self.model.identity

    def provider(self) -> Provider:
        """The provider that answers, without limits of time. Raises `ConfigError`."""
        from trustgraph_prompt.llm import ScriptedProvider

        if self.model.script is None:
            return self.model.provider(untimed=True)
        # Not `model.provider()`, which refuses --base-url and so on: these may be for the other side.
        return ScriptedProvider.load(recording(self.model.script))

    @cached_property
    def prompts(self) -> PromptSet:
        """The compiled prompts."""
        from trustgraph_prompt.prompts import PromptSet

        return PromptSet.build(self.entries)

    @cached_property
    def asked(self) -> list[PromptDefinition]:
        """The prompts to score. Raises `ConfigError` for one that is unknown, or that gives no objects."""
        found = [prompt_options.prompt(self.prompts, id) for id in self.ids]
        for definition in found:
            if definition.contract.format == "text":
                raise ConfigError("it answers with text, which contains no objects", where=definition.id)
        return list({definition.id: definition for definition in found}.values())

    def against(self, other: str, state: Path, place: ReadWorkspaceOptions) -> tuple[Side, Side]:
        """Return both sides: of the other, prompts of a path or a version, or the model, differ.

        A version is searched for in the state, then in the history on the broker. Raises `ConfigError`,
        `BrokerError`.
        """
        from trustgraph_prompt.prompts import files
        from trustgraph_prompt.prompts.prompt_set import SYSTEM_KEY

        if Path(other).exists():
            system = {SYSTEM_KEY: self.entries[SYSTEM_KEY]}
            return self, replace(self, entries={**system, **files.load(other)})
        if _VERSION.fullmatch(other):
            return self._against_version(other, state, place)
        if other.endswith(_SUFFIXES) or other.startswith((".", os.sep)):
            raise ConfigError("there is no such file or folder", where="--against", found=other)
        for definition in self.asked:
            if definition.config.model is not None:
                raise ConfigError(
                    f"{definition.id} names its own model, which is asked whatever --model is",
                    where="--against",
                    found=other,
                    expected="a prompt that names no model",
                )
        if other.startswith("scripted:"):
            return self, replace(self, model=self.model.but(script=other, model=None))
        return self, replace(self, model=self.model.but(script=None, model=other))

    def _against_version(self, version: str, state: Path, place: ReadWorkspaceOptions) -> tuple[Side, Side]:
        """A measured version keeps its system message; with one of the history both sides get the present."""
        from trustgraph_prompt.evaluation import measured_prompts
        from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY

        if len(self.asked) > 1:
            raise ConfigError(
                "a version is that of one prompt", where="--against", found=version, expected="one PROMPT"
            )
        id = self.asked[0].id
        if measured := measured_prompts.find(state, id, version):
            return self, replace(self, entries=measured)
        try:
            kept = config_history.look(place)
            text = kept.find(PREFIX + id, version)
        except TrustgraphPromptError as error:
            kind = ConfigError if isinstance(error, ConfigError) else TrustgraphPromptError
            unknown = f"{state} has no answers of the version {version} of {id}, nor is it in the history"
            with broker_options.naming(place.broker):
                raise kind(f"--against: {unknown}: {error}") from error
        new = replace(self, entries={**self.entries, SYSTEM_KEY: kept.system})
        old = {SYSTEM_KEY: text.system or kept.system, PREFIX + id: text.entry}
        return new, replace(self, entries=old)
