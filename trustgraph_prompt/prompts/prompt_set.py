"""Builds the prompts of one workspace: an immutable snapshot of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from trustgraph_prompt.errors import ConfigError, PromptError, RequestError, excerpt, without_frames
from trustgraph_prompt.prompts.answer_format import TERM
from trustgraph_prompt.prompts.definition import SYSTEM, PromptDefinition, Question, system_template
from trustgraph_prompt.prompts.pool import POOL, Pools, pools_in
from trustgraph_prompt.prompts.template import Template

MAX_PROMPTS = 1_000
"""The maximum number of prompts in a workspace."""

MAX_ENTRY = 512 * 1024
"""The maximum size of an entry, in bytes."""

MANY_PROMPTS = MAX_PROMPTS * 9 // 10
"""With more prompts, a note warns of the limit."""

_NAMED_IN_NOTE = 5
"""The number of prompts that a note names."""

SYSTEM_KEY = "system"
PREFIX = "template."


class _BuiltEntry(NamedTuple):
    """The text of an entry, what was last built from it, and why the present text was rejected.

    `pool` is the key of the pool that it names, and `pool_text` the text of that, empty if it is not there.
    """

    text: bytes
    built: Template | PromptDefinition | None
    error: ConfigError | None = None
    pool: str = ""
    pool_text: bytes = b""

    def under(self, system: Template) -> _BuiltEntry:
        """The entry with its prompt in a workspace that has this system message."""
        if not isinstance(self.built, PromptDefinition):
            return self
        return self._replace(built=self.built.with_system(system))


@dataclass(frozen=True, slots=True)
class PromptSet:
    """A snapshot of the prompts of a workspace.

    `prompts` by id; `refused` has the error of each invalid entry, by its key. The last valid version of such
    an entry, if any, stays in use. `notes` are warnings about entries in use, by key.
    """

    prompts: Mapping[str, PromptDefinition]
    refused: Mapping[str, ConfigError]
    _entries: Mapping[str, _BuiltEntry]
    _aliases: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        entries: Mapping[str, str | bytes],
        previous: PromptSet | None = None,
        *,
        pools: bool = True,
    ) -> PromptSet:
        """Build a snapshot of the entries `system`, `template.<id>` and `pool.<sha256>`, each JSON text.

        Ignores other keys. An error in an entry affects only that entry, and a pool that is missing or not
        valid the prompts that name it. Without `pools`, prompts lack theirs, and have their versions.
        Entries that have not changed since `previous` are not built again, nor are their pools. An entry
        without text is deleted. If there are more than `MAX_PROMPTS`, the entries that `previous` has take
        precedence, then the others in their order.
        """
        texts = {
            key: text.encode(errors="surrogatepass") if isinstance(text, str) else text
            for key, text in entries.items()
            if text and (key == SYSTEM_KEY or key.startswith((PREFIX, POOL)))
        }
        before = previous._entries if previous else {}
        known = (each.built.pool for each in before.values() if isinstance(each.built, PromptDefinition))
        named = pools_in(texts)
        others = {key: text for key, text in texts.items() if key not in named}
        there = Pools(named, filter(None, known)) if pools else None
        read, too_many = _read_all(others, before, there)
        system = read[SYSTEM_KEY].built if SYSTEM_KEY in read else None
        system = system if isinstance(system, Template) else SYSTEM
        read = {key: entry.under(system) for key, entry in read.items()}
        valid = {built.id: built for _, built, *_ in read.values() if isinstance(built, PromptDefinition)}
        prompts, conflicts = _with_own_aliases(valid, system, previous)
        aliases = {alias: id for id in prompts for alias in prompts[id].aliases if alias not in prompts}
        invalid = {key: entry.error for key, entry in read.items() if entry.error is not None}
        notes = {SYSTEM_KEY: _note_of_missing_terms(system, prompts), f"{PREFIX}*": _note_of_limit(len(read))}
        said = {key: note for key, note in notes.items() if note}
        return cls(prompts, {**invalid, **too_many, **conflicts}, read, aliases, said)

    def find(self, prompt_id: str) -> PromptDefinition | None:
        """The prompt with that id or alias."""
        return self.prompts.get(prompt_id) or self.prompts.get(self._aliases.get(prompt_id, ""))

    def get(self, prompt_id: str) -> PromptDefinition:
        """The prompt with that id or alias. Raises `RequestError` (type `unknown-prompt`)."""
        prompt = self.find(prompt_id)
        if prompt is None:
            error = self.refused.get(PREFIX + prompt_id)
            reason = f": its definition was refused: {error}" if error else ""
            raise RequestError(f"there is no prompt `{prompt_id:.100}`{reason}", type="unknown-prompt")
        return prompt

    def question(
        self, prompt_id: str, terms: Mapping[str, object], *, share: float = 1.0
    ) -> tuple[PromptDefinition, Question]:
        """The prompt with that id or alias, and its question, rendered with `terms`.

        Raises `RequestError` (type `unknown-prompt`, or `missing-term` as `PromptDefinition.require`),
        `RenderError` for unsuitable terms, and `RenderTooLong` beyond `share` (0 to 1) of the limits.
        """
        prompt = self.get(prompt_id)
        prompt.require(terms)
        return prompt, prompt.question(terms, share=share)


def _note_of_missing_terms(system: Template, prompts: Mapping[str, PromptDefinition]) -> str:
    """A note about prompts that do not name the terms which the system message of the workspace needs.

    Requests usually contain the terms that their prompt names. They may contain more, so this is no error.
    """
    served = [prompt for prompt in prompts.values() if prompt.system is system]
    needed = system.needs.required - {TERM}
    lacking = {
        prompt.id: needed.difference(prompt.template.needs.named, prompt.terms)
        for prompt in served
        if prompt.template.dialect == "jinja"
    }
    without = sorted(id for id, terms in lacking.items() if terms)
    terms = sorted(frozenset().union(*lacking.values()))
    return _in_words(terms, without, len(served)) if without else ""


def _in_words(terms: list[str], without: list[str], served: int) -> str:
    """The note that of the `served` prompts those `without` lack some of these terms."""
    named = excerpt(", ".join(f"`{term}`" for term in terms))
    needs, it = (f"the term {named}", "it") if len(terms) == 1 else (f"the terms {named}", "them")
    some = excerpt(", ".join(without[:_NAMED_IN_NOTE])) + (", …" if len(without) > _NAMED_IN_NOTE else "")
    do = "does" if len(without) == 1 else "do"
    return (
        f"needs {needs}; {len(without):,} of {served:,} prompts {do} not mention {it}, "
        f"and requests without {it} fail with missing-term ({some})"
    )


def _note_of_limit(count: int) -> str:
    if count <= MANY_PROMPTS:
        return ""
    return (
        f"has more than {MANY_PROMPTS:,} prompts; a workspace has at most {MAX_PROMPTS:,}, others are refused"
    )


def _read_all(
    texts: Mapping[str, bytes], before: Mapping[str, _BuiltEntry], pools: Pools | None
) -> tuple[dict[str, _BuiltEntry], dict[str, ConfigError]]:
    """The entries, those that were there before first, and the errors of those beyond the limit, by key."""
    keys = sorted(texts, key=lambda key: (key != SYSTEM_KEY, key not in before))
    limit = MAX_PROMPTS + (SYSTEM_KEY in texts)
    message = f"the workspace has more than {MAX_PROMPTS:,} prompts"
    return (
        {key: _read(key, texts[key], before.get(key), pools) for key in keys[:limit]},
        {key: PromptError(message, where=key) for key in keys[limit:]},
    )


def _read(key: str, text: bytes, before: _BuiltEntry | None, pools: Pools | None) -> _BuiltEntry:
    there = pools.texts if pools else {}
    if before is not None and before.text == text and before.pool_text == there.get(before.pool, b""):
        return before
    name = ""
    try:
        built = _build(key, text)
        if pools and isinstance(built, PromptDefinition) and built.pool_clause:
            name = f"{POOL}{built.pool_clause.pool}"
            built = built.with_pool(pools.get(built.pool_clause, key))
        return _BuiltEntry(text, built, None, name, there.get(name, b""))
    except ConfigError as invalid:
        error = without_frames(invalid)
    except Exception as defect:  # a defect of this project must not affect other entries either
        error = PromptError(f"the entry cannot be used: {type(defect).__name__}: {defect}", where=key)
    return _BuiltEntry(text, before.built if before else None, error, name, there.get(name, b""))


def _build(key: str, text: bytes) -> Template | PromptDefinition:
    if len(text) > MAX_ENTRY:
        raise PromptError(
            "the entry is too long", where=key, found=len(text), expected=f"at most {MAX_ENTRY:,} bytes"
        )
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PromptError(f"the entry is not JSON: {error}", where=key) from error
    if key == SYSTEM_KEY:
        return system_template(value)
    if key == PREFIX:
        raise PromptError("the key has no prompt id", where=key, found=key, expected=f"{PREFIX}<id>")
    return PromptDefinition.from_entry(key.removeprefix(PREFIX), value)


def _with_own_aliases(
    prompts: Mapping[str, PromptDefinition], system: Template, previous: PromptSet | None
) -> tuple[dict[str, PromptDefinition], dict[str, ConfigError]]:
    """The prompts without an alias that another one owns, and the errors of those with one, by key.

    Instead of such a prompt its previous version stays in use, if no other prompt owns an alias of that.
    """
    owners = _owners(prompts, previous._aliases if previous else {})
    served: dict[str, PromptDefinition] = {}
    errors: dict[str, ConfigError] = {}
    for id, prompt in prompts.items():
        if (alias := _taken_alias(prompt, owners)) is None:
            served[id] = prompt
            continue
        errors[PREFIX + id] = PromptError(
            f"the alias `{alias}` is that of another prompt",
            where=PREFIX + id,
            path="/aliases",
            found=alias,
            expected=f"no alias of `{owners[alias]}`",
        )
        last = previous.prompts.get(id) if previous else None
        if last is not None and not _taken_alias(last, owners):
            served[id] = last.with_system(system)
    return served, errors


def _owners(prompts: Mapping[str, PromptDefinition], before: Mapping[str, str]) -> dict[str, str]:
    """The owner of each alias: its previous one if it still has it, else the first id that has it."""
    owners: dict[str, str] = {}
    for id in sorted(prompts):
        for alias in prompts[id].aliases:
            if alias not in prompts and (alias not in owners or before.get(alias) == id):
                owners[alias] = id
    return owners


def _taken_alias(prompt: PromptDefinition, owners: Mapping[str, str]) -> str | None:
    """An alias of the prompt that another prompt owns."""
    return next((alias for alias in prompt.aliases if owners.get(alias, prompt.id) != prompt.id), None)
