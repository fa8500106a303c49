"""One prompt: how the question is written, what the answer must be, how the model is set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from trustgraph_prompt.config_files import check
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.errors import (
    ContractError,
    PromptError,
    RenderError,
    RequestError,
    TemplateError,
    excerpt,
)
from trustgraph_prompt.llm.records import RuntimeConfig
from trustgraph_prompt.prompts import answer_format
from trustgraph_prompt.prompts.entry import SCHEMA, SYSTEM_SCHEMA
from trustgraph_prompt.prompts.escalation import Escalation
from trustgraph_prompt.prompts.render_limits import RenderMeter, check_terms
from trustgraph_prompt.prompts.template import Template

SYSTEM = Template.compile("Be helpful.", where="system")
"""The system message of a workspace that says none, as TrustGraph has it."""

TRUSTGRAPH_KEYS = ("prompt", "response-type", "schema", "object-schema", "answer-format")
"""What is read of an entry without a dialect, which is TrustGraph's; whatever else it holds is ignored.

All but the last are TrustGraph's own keys.
"""

TRUSTGRAPH_ALIASES = {
    "extract-with-ontologies": ["ontology-extract"],
    "ontology-extract": ["extract-with-ontologies"],
}
"""Two names of one prompt: the first in TrustGraph's code, the second in its documents."""

CACHE_SECONDS = 3600.0
"""How long answers may be given again where a prompt says `cache: true`."""

_JUDGING_KEYS = ("repair", "extra", "coerce", "invariants", "versions", "many", "fences")

_FORMATS_OF = {
    **dict.fromkeys(("schema", *_JUDGING_KEYS), ("json", "jsonl")),
    "object-schema": ("jsonl",),
    "many": ("json",),
    "fences": ("json",),
    "repair-by-model": ("json", "jsonl"),
    "echoes": ("json", "jsonl"),
    "answer-format": ("json", "jsonl"),
    "native": ("jsonl",),
}

_CONFIG_KEYS = {
    "name": "model",
    "temperature": "temperature",
    "max-tokens": "max_tokens",
    "top-p": "top_p",
    "seed": "seed",
    "frequency-penalty": "frequency_penalty",
    "presence-penalty": "presence_penalty",
    "stop": "stop_sequences",
}


AnswerFormat = Literal["none", "append", "needed"]


@dataclass(frozen=True, slots=True)
class Question:
    """What goes to the model, and the terms that it was written with; None where nobody knows them."""

    system: str
    prompt: str
    terms: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class PromptDefinition:
    """One prompt, compiled.

    `terms` are values of terms that a request leaves out. `system` is the prompt's own if `own_system`, else
    its workspace's. `cache` is for how many seconds an answer may be given again, None for never.
    `escalation` says which answers are for somebody else to deal with; `repair_by_model` that after an answer
    of a wrong form an attempt shows that alone; `keeps_echoes` that an example of its texts may be an answer;
    `native_items` that a server may be asked for the objects of a jsonl answer as `{"items": […]}`.

    `answer_format` says whether the question ends with what its answer must be: "append", "none", or where it
    is "needed" because no template names the keys. It never does where a template has that elsewhere, as the
    term of that name; for "none" this is a term like others.
    """

    id: str
    template: Template
    contract: Contract
    config: RuntimeConfig = RuntimeConfig()
    attempts: int = 1
    aliases: tuple[str, ...] = ()
    system: Template = SYSTEM
    own_system: bool = False
    terms: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    cache: float | None = None
    escalation: Escalation | None = None
    repair_by_model: bool = False
    keeps_echoes: bool = False
    answer_format: AnswerFormat = "none"
    native_items: bool = False

    @classmethod
    def from_entry(cls, id: str, entry: Mapping[str, Any], *, where: str | None = None) -> PromptDefinition:
        """A prompt from its entry: decoded JSON, or YAML. `where` names it in errors.

        An entry that names its `dialect` is ours, and each of its keys is checked; one that does not is
        TrustGraph's (template in ibis, four keys, others ignored). Raises `PromptError`, `TemplateError` or
        `ContractError`, which say where, under which key, what was found and what was expected.
        """
        where = where or f"template.{id}"
        theirs = isinstance(entry, Mapping) and "dialect" not in entry
        if theirs:
            known = {key: entry[key] for key in TRUSTGRAPH_KEYS if key in entry}
            entry = {"dialect": "ibis", "aliases": TRUSTGRAPH_ALIASES.get(id, []), **known}
        check(entry, SCHEMA, where, PromptError)
        if not entry["prompt"].strip():
            raise PromptError("the prompt has no text", where=where, path="/prompt", found=entry["prompt"])
        dialect = entry["dialect"]
        model = {_CONFIG_KEYS[key]: value for key, value in entry.get("model", {}).items()}
        if "stop_sequences" in model:
            model["stop_sequences"] = tuple(model["stop_sequences"])
        own_system = entry.get("system")
        try:
            check_terms(entry.get("terms", {}), RenderMeter())
        except RenderError as error:
            raise PromptError(str(error), where=where, path="/terms") from error
        if answer_format.TERM in entry.get("terms", {}) and entry.get("answer-format") != "none":
            path = f"/terms/{answer_format.TERM}"
            found, expected = answer_format.TERM, "another name"
            raise PromptError(answer_format.RESERVED, where=where, path=path, found=found, expected=expected)
        contract, attempts = _contract(id, entry, where, strict=not theirs), entry.get("attempts", 1)
        if entry.get("repair-by-model") and attempts < 2:
            raise PromptError(
                "repair by a model is another attempt",
                where=where,
                path="/attempts",
                found=attempts,
                expected="2 or more",
            )
        template = _template(entry["prompt"], dialect, where, "/prompt")
        system = SYSTEM if own_system is None else _template(own_system, dialect, where, "/system")
        _check_sources(contract, template.needs.named | system.needs.named, entry, where)
        if "native" in entry and server_schema(contract, items=True) is None:
            raise PromptError(
                "no server can be held to this",
                where=where,
                path="/native",
                found=entry["native"],
                expected="a schema, one for all versions, of objects without a key `items`",
            )
        return cls(
            id=id,
            template=template,
            contract=contract,
            config=RuntimeConfig(**model),
            attempts=attempts,
            aliases=tuple(entry.get("aliases", ())),
            system=system,
            own_system=own_system is not None,
            terms=entry.get("terms", {}),
            description=entry.get("description", ""),
            cache=_seconds(entry.get("cache", False)),
            escalation=Escalation(**entry["escalate"]) if "escalate" in entry else None,
            repair_by_model=entry.get("repair-by-model", False),
            keeps_echoes=entry.get("echoes") == "keep",
            native_items="native" in entry,
            answer_format=entry.get("answer-format", "none" if theirs else "needed"),
        )

    def under(self, system: Template) -> PromptDefinition:
        """The same prompt in a workspace with this system message."""
        return self if self.own_system or self.system is system else replace(self, system=system)

    def judging(self, contract: Contract) -> PromptDefinition:
        """The same prompt, of the same version, whose answers this contract judges: one made of its own."""
        judging = replace(self, contract=contract)
        judging.__dict__["version"] = self.version
        return judging

    def missing(self, terms: Iterable[str]) -> list[str]:
        """The terms that its templates need and that neither `terms` nor the prompt itself has."""
        required = self.template.needs.required | self.system.needs.required
        return sorted(required.difference(terms, self.terms, self._reserved))

    def require(self, terms: Iterable[str]) -> None:
        """Raise `RequestError` (type `missing-term`) where a template of our own dialect needs more terms.

        TrustGraph's writes nothing there.
        """
        if self.template.dialect == "jinja" and (missing := self.missing(terms)):
            given = excerpt(", ".join(sorted(terms)) or "none")
            raise RequestError(f"{self._needing(missing)}; given: {given}", type="missing-term")

    def _needing(self, missing: Iterable[str]) -> str:
        """Who needs these terms: the prompt, or the system message that it shares with others."""
        own = self.template.needs.required | (self.system.needs.required if self.own_system else frozenset())
        whose = {
            f"the prompt `{self.id}`": [term for term in missing if term in own],
            f"the system message of the workspace, under which `{self.id}` is asked,": [
                term for term in missing if term not in own
            ],
        }
        return "; ".join(f"{who} needs the term {', '.join(terms)}" for who, terms in whose.items() if terms)

    @property
    def named(self) -> frozenset[str]:
        """The terms that its templates name, and others give."""
        return (self.template.needs.named | self.system.needs.named) - self._reserved

    def question(self, terms: Mapping[str, object], *, share: float = 1.0) -> Question:
        """The question with `terms` filled in, over the prompt's own, and with what its answer must be.

        Raises as `Template.render`, and `RenderError` for a term of a reserved name.
        """
        if not self._reserved.isdisjoint(terms):
            raise RenderError(f"{self.id}: {answer_format.RESERVED}")
        merged = {**self.terms, **terms}
        written = {**merged, **dict.fromkeys(self._reserved, self._instructions)}
        system, prompt = self.system.render(written, share=share), self.template.render(written, share=share)
        at_end = "" if self._says_format else self._instructions
        return Question(system, answer_format.ending(prompt, at_end), merged)

    @cached_property
    def unnamed_keys(self) -> list[str]:
        """The keys for whose sake the question ends with what its answer must be; none where it does not.

        They are those that the answer must have and no template names.
        """
        if self.answer_format != "needed" or self._says_format:
            return []
        return answer_format.unnamed(self.contract, f"{self.system.needs.fixed}\n{self.template.needs.fixed}")

    @cached_property
    def _instructions(self) -> str:
        """What the answer must be, where the question says it."""
        is_said = self.answer_format == "append" or self._says_format or self.unnamed_keys
        return self.contract.instructions() if is_said else ""

    @property
    def _says_format(self) -> bool:
        """Whether a template has it where its author wants it."""
        return not self._reserved.isdisjoint(self.template.needs.named | self.system.needs.named)

    @property
    def _reserved(self) -> frozenset[str]:
        """Terms that nobody else gives."""
        return frozenset() if self.answer_format == "none" else frozenset((answer_format.TERM,))

    @cached_property
    def version(self) -> str:
        """A hash (sha256, hex) over everything that decides the answer.

        Made when it is first asked for: a new system message makes a new version of every prompt.
        """
        decides = {
            "prompt": [self.template.dialect, self.template.source],
            "system": [self.system.dialect, self.system.source],
            "contract": self.contract.fingerprint,
            "schema": [self.contract.schema, self.contract.versions],  # a model sees its descriptions
            "config": asdict(self.config),
            "attempts": self.attempts,
            "escalation": None if self.escalation is None else asdict(self.escalation),
            "repair-by-model": self.repair_by_model,
            **({"echoes": "keep"} if self.keeps_echoes else {}),
            **({"answer-format": self._instructions} if self._instructions else {}),
            **({"native": "items"} if self.native_items else {}),
            "terms": self.terms,
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def system_template(value: object) -> Template:
    """The system message of a workspace: TrustGraph's, a mere string, or ours. Raises `ConfigError`."""
    if isinstance(value, str):
        return Template.compile(value, dialect="ibis", where="system")
    check(value, SYSTEM_SCHEMA, "system", PromptError)
    assert isinstance(value, dict)
    return _template(value["prompt"], value["dialect"], "system", "/prompt")


def _check_sources(contract: Contract, named: frozenset[str], entry: Mapping[str, Any], where: str) -> None:
    """Raise `PromptError` for a term that values are said to be from, and that the question does not hold."""
    known = (named - {answer_format.TERM}) | entry.get("terms", {}).keys()
    unknown = contract.sources.terms - known if contract.sources else ()
    for term in sorted(unknown):
        raise PromptError(
            "values are said to be from a term that the prompt does not have",
            where=where,
            path="/object-schema" if entry.get("object-schema") is not None else "/schema",
            found=term,
            expected=", ".join(sorted(known)) or "a term of the prompt",
        )


def _seconds(cache: bool | Mapping[str, float]) -> float | None:
    if isinstance(cache, bool):
        return CACHE_SECONDS if cache else None
    return cache["seconds"]


def _template(source: str, dialect: Literal["jinja", "ibis"], where: str, path: str) -> Template:
    try:
        return Template.compile(source, dialect=dialect, where=where)
    except TemplateError as error:
        raise error.at(where, path) from error


def _contract(id: str, entry: Mapping[str, Any], where: str, *, strict: bool) -> Contract:
    format = entry.get("response-type", "text")
    for key, formats in _FORMATS_OF.items():
        if strict and entry.get(key) is not None and format not in formats:
            raise PromptError(
                f"`{key}` says nothing about an answer of type {format}",
                where=where,
                path="/response-type",
                found=format,
                expected=" or ".join(formats),
            )
    key = "object-schema" if format == "jsonl" and entry.get("object-schema") is not None else "schema"
    schema = None if format == "text" else entry.get(key)
    try:
        judging = {name: entry[name] for name in _JUDGING_KEYS if name in entry}
        return Contract.from_schema(schema, format=format, name=id, **judging)
    except ContractError as error:
        is_schema = not error.path.startswith(tuple(f"/{name}" for name in _JUDGING_KEYS))  # no keywords
        raise error.at(where, f"/{key}" if is_schema else "") from error
