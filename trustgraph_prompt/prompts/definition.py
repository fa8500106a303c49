"""Compiles one prompt: its templates, the contract of its answer, the settings of the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from trustgraph_prompt.config_files import check
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import (
    ConfigError,
    PromptError,
    RenderError,
    RequestError,
    excerpt,
)
from trustgraph_prompt.graph import ontology
from trustgraph_prompt.graph.graph_clause import GraphClause
from trustgraph_prompt.graph.ontology_answer import AnswerReading
from trustgraph_prompt.llm.records import RuntimeConfig
from trustgraph_prompt.prompts import answer_format
from trustgraph_prompt.prompts.entry_parts import (
    cache_seconds,
    check_attempts,
    check_native,
    check_sources,
    check_texts,
    config_of,
    contract_of,
)
from trustgraph_prompt.prompts.entry_schema import SCHEMA, SYSTEM_SCHEMA
from trustgraph_prompt.prompts.escalation import Escalation
from trustgraph_prompt.prompts.match_clause import MatchClause
from trustgraph_prompt.prompts.pool import Pool, PoolClause
from trustgraph_prompt.prompts.shown_examples import ExampleChooser, Turn, own_examples, pool_examples
from trustgraph_prompt.prompts.template import Template

SYSTEM = Template.compile("Be helpful.", where="system")
"""The system message of a workspace without one, which is TrustGraph's default."""

TRUSTGRAPH_KEYS = ("prompt", "response-type", "schema", "object-schema", "answer-format")
"""The keys that are read of an entry without a dialect. All but the last are TrustGraph's own."""

TRUSTGRAPH_ALIASES = {
    "extract-with-ontologies": ["ontology-extract"],
    "ontology-extract": ["extract-with-ontologies"],
}
"""Two names of one prompt: the first is that of TrustGraph's code, the second that of its documents."""

AnswerFormat = Literal["none", "append", "needed"]


@dataclass(frozen=True, slots=True)
class Question:
    """The messages for the model, and the terms in them, None where unknown.

    `examples` are shown before the prompt, in this order.
    """

    system: str
    prompt: str
    terms: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    examples: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class PromptDefinition:
    """One prompt, compiled.

    `terms` are the defaults of terms that a request leaves out. `system` is the prompt's own if `own_system`,
    else its workspace's. `attempts` is the maximum number of calls until the answer is valid. `passes`
    is the maximum number of passes, each of which asks for objects that are still missing. `cache` is for how
    many seconds an answer may be reused, None for never. `escalation` decides which answers are escalated.
    With `repair_by_model`, the attempt after a malformed answer shows the model only that answer.
    `shown` are the examples that the model is shown (`terms` and `reads`), `examples_as` says how.
    With `keeps_echoes`, an object that repeats an example of the prompt is not rejected. With `native_items`,
    a server that supports schemas is asked for the objects of a jsonl answer as `{"items": […]}`.
    `graph` says how the objects become statements, None if they do not. `match` says which objects are the
    same one when answers are scored; it affects no answer, and is not part of the version. With
    `strict_ontology`, what does not fit an ontology is rejected, where it is otherwise only remarked;
    `reading` reads an answer in the terms of one, None without. `canary` is the id of the canary that this
    version is, None for the served version.
    `pool_clause` says how many texts of which pool are shown before the question; `pool` has them, once it is
    there (`with_pool`). `chooser` has the examples of both kinds, rendered.

    `answer_format` says whether instructions about the answer are appended to the question: "append", "none",
    or "needed", which appends them if the templates do not name the keys. Unless it is "none", the term
    `answer_format` is reserved, and a template that has it places the instructions itself.
    """

    id: str
    template: Template
    contract: Contract
    config: RuntimeConfig = RuntimeConfig()
    attempts: int = 1
    passes: int = 1
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
    shown: tuple[Mapping[str, Any], ...] = ()
    examples_as: Literal["turns", "text"] = "turns"
    graph: GraphClause | None = None
    match: MatchClause = field(default_factory=lambda: MatchClause({}))
    strict_ontology: bool = False
    reading: AnswerReading | None = field(default=None, compare=False, repr=False)
    canary: str | None = None
    pool_clause: PoolClause | None = None
    pool: Pool | None = None
    chooser: ExampleChooser = field(default=ExampleChooser(), compare=False, repr=False)

    @classmethod
    def from_entry(cls, id: str, entry: Mapping[str, Any], *, where: str | None = None) -> PromptDefinition:
        """Compile a prompt from its entry, which is decoded JSON or YAML. `where` names it in errors.

        An entry with a `dialect` is in this project's format, and each of its keys is checked. One without is
        TrustGraph's: its template is in ibis, and unknown keys are ignored. Raises `PromptError`,
        `TemplateError` or `ContractError`.
        """
        where = where or f"template.{id}"
        is_trustgraphs = isinstance(entry, Mapping) and "dialect" not in entry
        if is_trustgraphs:
            known = {key: entry[key] for key in TRUSTGRAPH_KEYS if key in entry}
            entry = {"dialect": "ibis", "aliases": TRUSTGRAPH_ALIASES.get(id, []), **known}
        check(entry, SCHEMA, where, PromptError)
        with _part_of(where):
            check_texts(entry)
            contract = contract_of(id, entry, strict=not is_trustgraphs)
            check_attempts(entry)
        with _part_of(where, "/prompt"):
            template = Template.compile(entry["prompt"], dialect=entry["dialect"], where=where)
        system = SYSTEM
        if "system" in entry:
            with _part_of(where, "/system"):
                system = Template.compile(entry["system"], dialect=entry["dialect"], where=where)
        with _part_of(where):
            check_sources(contract, template.needs.named | system.needs.named, entry)
            check_native(contract, entry)
        with _part_of(where, "/graph"):
            graph = GraphClause.of(entry["graph"], contract) if "graph" in entry else None
        if graph is not None:
            contract = contract.with_roles(graph.roles)
        with _part_of(where, "/match"):
            match = MatchClause.of(entry.get("match"), contract)
        with _part_of(where, "/examples"):
            pool_clause = PoolClause.of(entry.get("examples", {}), contract.format)
        prompt = cls(
            id=id,
            template=template,
            contract=contract,
            config=config_of(entry.get("model", {})),
            **{key: entry[key] for key in ("attempts", "passes", "terms", "description") if key in entry},
            aliases=tuple(entry.get("aliases", ())),
            system=system,
            own_system="system" in entry,
            cache=cache_seconds(entry.get("cache", False)),
            escalation=Escalation(**entry["escalate"]) if "escalate" in entry else None,
            repair_by_model=entry.get("repair-by-model", False),
            keeps_echoes=entry.get("echoes") == "keep",
            native_items="native" in entry,
            shown=tuple(entry.get("shown", ())),
            examples_as=entry.get("examples", {}).get("as", "turns"),
            strict_ontology=entry.get("ontology") == "strict",
            graph=graph,
            match=match,
            pool_clause=pool_clause,
            answer_format=entry.get("answer-format", "none" if is_trustgraphs else "needed"),
        )
        with _part_of(where):
            return replace(prompt, chooser=ExampleChooser(own_examples(prompt)))

    def with_system(self, system: Template) -> PromptDefinition:
        """The same prompt in a workspace with this system message, which one with its own ignores."""
        return self if self.own_system or self.system is system else replace(self, system=system)

    def with_contract(
        self, contract: Contract, *, attempts: int = 1, reading: AnswerReading | None = None
    ) -> PromptDefinition:
        """The same prompt, of the same version, with a contract derived from its own.

        It has at least so many attempts. With `reading`, a server is asked for the objects as a list.
        """
        prompt = replace(
            self,
            contract=contract,
            attempts=max(attempts, self.attempts),
            reading=reading or self.reading,
            native_items=self.native_items or reading is not None,
        )
        prompt.__dict__["_version_without_pool"] = self._version_without_pool
        return prompt

    def with_roles_of(self, clause: GraphClause | None) -> PromptDefinition:
        """The same prompt in a flow with this clause `graph`, which one with its own ignores."""
        if clause is None or self.graph is not None:
            return self
        contract = self.contract.with_roles(clause.roles)
        return self if contract is self.contract else self.with_contract(contract)

    def with_pool(self, pool: Pool) -> PromptDefinition:
        """The same prompt with the pool that it names, checked and indexed.

        Raises `PromptError` for a text that cannot be rendered or whose objects the prompt refuses.
        """
        assert self.pool_clause is not None
        examples = pool_examples(self, pool, self.pool_clause)
        return replace(self, pool=pool, chooser=replace(self.chooser, pool=examples))

    def prefaced(self, preface: str) -> PromptDefinition:
        """The same prompt, with a template before its own. Raises `TemplateError`."""
        template = Template.compile(
            preface + self.template.source, dialect=self.template.dialect, where=self.template.where
        )
        prompt = replace(self, template=template)
        prompt.__dict__["unnamed_keys"] = self.unnamed_keys  # the preface says nothing about the answer
        return prompt

    def missing(self, terms: Iterable[str]) -> list[str]:
        """The terms that its templates need and that neither `terms` nor its own terms contain, sorted.

        Of an ontology each of the `ontology.TERMS` may be missing, but not all unless the template tests one.
        """
        given, needs = {*terms, *self.terms}, (self.template.needs, self.system.needs)
        required, named, tested = (
            frozenset().union(*(getattr(each, kind) for each in needs))
            for kind in ("required", "named", "tested")
        )
        if named >= ontology.TERMS_SHOWN and ontology.TERMS.isdisjoint(given | tested):
            required |= ontology.TERMS
        return sorted(required.difference(given, self._reserved))

    def require(self, terms: Iterable[str]) -> None:
        """Raise `RequestError` (type `missing-term`) if `terms` lack some that its Jinja templates need.

        TrustGraph's templates render missing terms as nothing.
        """
        if self.template.dialect != "jinja" or not (missing := self.missing(terms)):
            return
        own = self.template.needs.required | (self.system.needs.required if self.own_system else frozenset())
        own |= ontology.TERMS  # `missing` has all of them if there is none
        needed_by = {
            f"the prompt `{self.id}`": [term for term in missing if term in own],
            f"the system message of the workspace, which `{self.id}` uses,": [
                term for term in missing if term not in own
            ],
        }
        needs = [f"{owner} needs the term {', '.join(names)}" for owner, names in needed_by.items() if names]
        given = excerpt(", ".join(sorted(terms)) or "none")
        raise RequestError(f"{'; '.join(needs)}; given: {given}", type="missing-term")

    @property
    def named(self) -> frozenset[str]:
        """The terms that its templates name, without reserved ones."""
        return (self.template.needs.named | self.system.needs.named) - self._reserved

    def question(self, terms: Mapping[str, object], *, share: float = 1.0) -> Question:
        """Render the question with the instructions about its answer; `terms` override the prompt's own.

        Unless a template has the instructions, they are the end of the question; of the system message, where
        examples stand between both, each of which is a passage and its answer.

        Raises as `Template.render`, and `RenderError` for a term with a reserved name.
        """
        if not self._reserved.isdisjoint(terms):
            raise RenderError(f"{self.id}: {answer_format.RESERVED}")
        merged = {**self.terms, **terms}
        given = {**merged, **dict.fromkeys(self._reserved, self._instructions)}
        system, prompt = self.system.render(given, share=share), self.passage(merged, share)
        at_end = "" if self._places_instructions else self._instructions
        if self.shows_examples:
            system = answer_format.append(system, at_end)
        else:
            prompt = answer_format.append(prompt, at_end)
        return Question(system, prompt, merged, self.chooser.examples(terms))

    def passage(self, terms: Mapping[str, object], share: float) -> str:
        """Render its template alone, as in examples. Raises as `Template.render`."""
        return self.template.render(
            {**terms, **dict.fromkeys(self._reserved, self._instructions)}, share=share
        )

    @property
    def shows_examples(self) -> bool:
        """Whether a question may show examples."""
        return bool(self.shown or self.pool_clause)

    @property
    def examples(self) -> Sequence[Turn]:
        """Its own examples that the model is shown before a question."""
        return self.chooser.own.turns

    @cached_property
    def unnamed_keys(self) -> list[str]:
        """The keys of the answer that no template names, if the instructions are appended because of them."""
        if self.answer_format != "needed" or self._places_instructions:
            return []
        texts = f"{self.system.needs.fixed}\n{self.template.needs.fixed}"
        return answer_format.unnamed_keys(self.contract, texts)

    @cached_property
    def _instructions(self) -> str:
        """The instructions about the answer; empty if the question does not contain them."""
        is_needed = self.answer_format == "append" or self._places_instructions or self.unnamed_keys
        return self.contract.instructions() if is_needed else ""

    @cached_property
    def _places_instructions(self) -> bool:
        """Whether a template contains the term that stands for the instructions."""
        return not self._reserved.isdisjoint(self.template.needs.named | self.system.needs.named)

    @cached_property
    def _reserved(self) -> frozenset[str]:
        """Terms that requests and the prompt's own terms must not contain."""
        return frozenset() if self.answer_format == "none" else frozenset((answer_format.TERM,))

    @property
    def version(self) -> str:
        """A hash (sha256, hex) of everything that affects the answer."""
        if self.pool_clause is None:
            return self._version_without_pool
        return _hash({"version": self._version_without_pool, "examples": asdict(self.pool_clause)})

    def identity(self, examples: Iterable[Turn]) -> str:
        """A hash of everything that affects the answer to a question that shows these examples.

        The version; of a prompt with a pool, the examples count instead of the pool, so that an answer is
        kept for as long as these stay the same.
        """
        if self.pool_clause is None:
            return self.version
        shown = [[turn.passage, turn.answer] for turn in examples if turn.id]
        return _hash({"version": self._version_without_pool, "shown": shown})

    @cached_property
    def _version_without_pool(self) -> str:
        """Computed on first use: a new system message changes the version of every prompt at once."""
        return _hash(self._decides)

    @property
    def _decides(self) -> dict[str, Any]:
        """What affects all answers alike."""
        schemas = [self.contract.schema, self.contract.versions]
        return {
            "prompt": [self.template.dialect, self.template.source],
            "system": [self.system.dialect, self.system.source],
            "contract": self.contract.fingerprint,
            "schema": schemas,  # a model sees its descriptions
            # a quote is worth most as the first key, and the order of keys is sorted away below
            **({"schema as written": json.dumps(schemas)} if self.contract.quote_keys else {}),
            "config": asdict(self.config),
            "attempts": self.attempts,
            **({"passes": self.passes} if self.passes > 1 else {}),
            "escalation": None if self.escalation is None else asdict(self.escalation),
            "repair-by-model": self.repair_by_model,
            **({"echoes": "keep"} if self.keeps_echoes else {}),
            **({"answer-format": self._instructions} if self._instructions else {}),
            **({"native": "items"} if self.native_items else {}),
            **({"shown": [self.examples_as, *self.shown]} if self.shown or self.pool_clause else {}),
            **({"graph": asdict(self.graph)} if self.graph else {}),
            **({"ontology": "strict"} if self.strict_ontology else {}),
            "terms": self.terms,
        }


def system_template(value: object) -> Template:
    """Compile a workspace's system message: a string (TrustGraph's) or an entry. Raises `ConfigError`."""
    if isinstance(value, str):
        return Template.compile(value, dialect="ibis", where="system")
    check(value, SYSTEM_SCHEMA, "system", PromptError)
    assert isinstance(value, dict)
    with _part_of("system", "/prompt"):
        return Template.compile(value["prompt"], dialect=value["dialect"], where="system")


def _hash(decides: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


@contextmanager
def _part_of(where: str, path: str = "") -> Iterator[None]:
    """Raise the errors of a part of an entry with the name of the entry, and with the path of the part."""
    try:
        yield
    except ConfigError as error:
        raise error.at(where, path) from error
