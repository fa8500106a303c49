"""The prompts of one workspace: an immutable snapshot of its configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from trustgraph_prompt.errors import ConfigError, PromptError, RequestError, excerpt, without_frames
from trustgraph_prompt.prompts.answer_format import TERM
from trustgraph_prompt.prompts.definition import SYSTEM, PromptDefinition, Question, system_template
from trustgraph_prompt.prompts.template import Template

MAX_PROMPTS = 1_000
"""Prompts a workspace may have."""

MAX_ENTRY = 512 * 1024
"""Bytes an entry may have."""

CROWDED = MAX_PROMPTS * 9 // 10
"""Prompts beyond which a note says that there is a limit."""

PROMPTS_NAMED = 5
"""How many prompts a note names."""

SYSTEM_KEY = "system"
PREFIX = "template."


class _Entry(NamedTuple):
    """An entry as it was read: its text, what was last built of it, and why its present text was refused."""

    text: bytes
    built: Template | PromptDefinition | None
    error: ConfigError | None = None


@dataclass(frozen=True, slots=True)
class PromptSet:
    """What the entries of a workspace say, as of one moment.

    `prompts` by id; `refused` has the error of each bad entry, by its key. The last good version of a refused
    entry stays in use, where there was one. `notes` say what somebody should look at in entries in use.
    """

    prompts: Mapping[str, PromptDefinition]
    refused: Mapping[str, ConfigError]
    _entries: Mapping[str, _Entry]
    _aliases: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def build(cls, entries: Mapping[str, str | bytes], previous: PromptSet | None = None) -> PromptSet:
        """The snapshot of all entries: `system` and `template.<id>`, each JSON text; other keys are ignored.

        What is wrong with an entry costs that entry alone. What has not changed since `previous` is not built
        again. An entry without text is a deleted one. Of more entries than a workspace may have, those that
        `previous` has come first, then the others in their order; the rest are refused.
        """
        texts = {
            key: text.encode(errors="surrogatepass") if isinstance(text, str) else text
            for key, text in entries.items()
            if text and (key == SYSTEM_KEY or key.startswith(PREFIX))
        }
        read, refused = _read_all(texts, previous._entries if previous else {})
        system = read[SYSTEM_KEY].built if SYSTEM_KEY in read else None
        over = system if isinstance(system, Template) else SYSTEM
        prompts: dict[str, PromptDefinition] = {}
        for key, entry in read.items():
            if isinstance(entry.built, PromptDefinition):
                prompts[entry.built.id] = prompt = entry.built.under(over)
                if prompt is not entry.built:
                    read[key] = entry._replace(built=prompt)
        owners = _owners(prompts, previous._aliases if previous else {})
        for id, error in _claims_to_aliases_of_others(prompts, owners):
            refused[PREFIX + id] = error
            del prompts[id]
            last = previous.prompts.get(id) if previous else None
            if last is not None and not _taken(last, owners):
                prompts[id] = last.under(over)
        aliases = {alias: id for id in prompts for alias in prompts[id].aliases if alias not in prompts}
        notes = {SYSTEM_KEY: _unmet(over, prompts), f"{PREFIX}*": _crowd(read)}
        return cls(prompts, refused, read, aliases, {key: note for key, note in notes.items() if note})

    def find(self, prompt_id: str) -> PromptDefinition | None:
        """The prompt of that id or alias."""
        return self.prompts.get(prompt_id) or self.prompts.get(self._aliases.get(prompt_id, ""))

    def question(
        self, prompt_id: str, terms: Mapping[str, object], *, share: float = 1.0
    ) -> tuple[PromptDefinition, Question]:
        """The prompt of that id or alias, and its question with `terms` filled in.

        Raises `RequestError` (type `unknown-prompt`, or `missing-term` where a template of our own dialect
        needs more than there is; TrustGraph's writes nothing there), and `RenderError` when the terms do not
        do, `RenderTooLong` when it takes more than a `share` of the limits.
        """
        prompt = self.find(prompt_id)
        if prompt is None:
            refusal = self.refused.get(PREFIX + prompt_id)
            because = f": its definition was refused: {refusal}" if refusal else ""
            raise RequestError(f"there is no prompt `{prompt_id:.100}`{because}", type="unknown-prompt")
        prompt.require(terms)
        return prompt, prompt.question(terms, share=share)


def _unmet(system: Template, prompts: Mapping[str, PromptDefinition]) -> str:
    """What prompts lack under the system message of their workspace; nothing where they lack nothing.

    Whoever asks for a prompt sends the terms that it names itself. More may come, so this is no refusal.
    """
    served = {id: prompt for id, prompt in prompts.items() if prompt.system is system}
    lacking = {
        id: system.needs.required.difference(prompt.template.needs.named, prompt.terms, (TERM,))
        for id, prompt in served.items()
        if prompt.template.dialect == "jinja"
    }
    without = sorted(id for id, terms in lacking.items() if terms)
    if not without:
        return ""
    terms = sorted(frozenset().union(*lacking.values()))
    named = excerpt(", ".join(f"`{term}`" for term in terms))
    needs, it = (f"the term {named}", "it") if len(terms) == 1 else (f"the terms {named}", "them")
    more = ", …" if len(without) > PROMPTS_NAMED else ""
    do = "does" if len(without) == 1 else "do"
    return (
        f"needs {needs}; {len(without):,} of {len(served):,} prompts {do} not mention {it}, "
        f"and requests without {it} fail with missing-term "
        f"({excerpt(', '.join(without[:PROMPTS_NAMED]))}{more})"
    )


def _crowd(entries: Collection[str]) -> str:
    if len(entries) <= CROWDED:
        return ""
    return f"are more than {CROWDED:,}; a workspace has {MAX_PROMPTS:,} prompts at most, others are refused"


def _read_all(
    texts: Mapping[str, bytes], before: Mapping[str, _Entry]
) -> tuple[dict[str, _Entry], dict[str, ConfigError]]:
    """The entries as read, and the errors of the bad ones; those that were there before come first."""
    keys = sorted(texts, key=lambda key: (key != SYSTEM_KEY, key not in before))
    limit = MAX_PROMPTS + (SYSTEM_KEY in texts)
    read = {key: _read(key, texts[key], before.get(key)) for key in keys[:limit]}
    refused = {key: entry.error for key, entry in read.items() if entry.error is not None}
    for key in keys[limit:]:
        refused[key] = PromptError(f"the workspace has more than {MAX_PROMPTS:,} prompts", where=key)
    return read, refused


def _read(key: str, text: bytes, before: _Entry | None) -> _Entry:
    if before is not None and before.text == text:
        return before
    try:
        return _Entry(text, _build(key, text))
    except ConfigError as wrong:
        error = without_frames(wrong)
    except Exception as defect:  # an entry costs itself alone, also where the fault is ours
        error = PromptError(f"the entry cannot be used: {type(defect).__name__}: {defect}", where=key)
    return _Entry(text, before.built if before else None, error)


def _build(key: str, text: bytes) -> Template | PromptDefinition:
    if len(text) > MAX_ENTRY:
        raise PromptError(
            "the entry is too long", where=key, found=len(text), expected=f"at most {MAX_ENTRY:,} bytes"
        )
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PromptError(f"the entry is no JSON: {error}", where=key) from error
    if key == SYSTEM_KEY:
        return system_template(value)
    if key == PREFIX:
        raise PromptError("the key names no prompt", where=key, found=key, expected=f"{PREFIX}<id>")
    return PromptDefinition.from_entry(key.removeprefix(PREFIX), value)


def _owners(prompts: Mapping[str, PromptDefinition], before: Mapping[str, str]) -> dict[str, str]:
    """Whose each alias is: whose it was, if it still claims it, else that of the first id that does."""
    owners: dict[str, str] = {}
    for id in sorted(prompts):
        for alias in prompts[id].aliases:
            if alias not in prompts and (alias not in owners or before.get(alias) == id):
                owners[alias] = id
    return owners


def _claims_to_aliases_of_others(
    prompts: Mapping[str, PromptDefinition], owners: Mapping[str, str]
) -> list[tuple[str, PromptError]]:
    return [
        (
            id,
            PromptError(
                f"the alias `{taken}` is that of another prompt",
                where=PREFIX + id,
                path="/aliases",
                found=taken,
                expected=f"no alias of `{owners[taken]}`",
            ),
        )
        for id, prompt in prompts.items()
        if (taken := _taken(prompt, owners))
    ]


def _taken(prompt: PromptDefinition, owners: Mapping[str, str]) -> str | None:
    """An alias of the prompt that is another's already."""
    return next((alias for alias in prompt.aliases if owners.get(alias, prompt.id) != prompt.id), None)
