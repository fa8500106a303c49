"""The examples that a model is shown before its question: turns of the conversation, or text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from trustgraph_prompt.config_files import MAX_ERRORS
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.alternatives import branches_of
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.errors import ConfigError, Issue, PromptError, Reason, RenderError, raise_first
from trustgraph_prompt.prompts.answer_format import RESERVED, TERM
from trustgraph_prompt.prompts.nearest_texts import CHOOSING, READING, By, NearestTexts
from trustgraph_prompt.prompts.render_limits import RenderMeter, check_terms

if TYPE_CHECKING:
    from trustgraph_prompt.prompts.definition import PromptDefinition
    from trustgraph_prompt.prompts.pool import Pool, PoolClause

MOST_SHOWN: Final = 20
"""The maximum number of examples that a prompt shows."""

MOST_CHARACTERS: Final = 80_000
"""The maximum length of their passages and answers; about 20,000 tokens."""

MOST_OF_A_TEXT: Final = 20_000
"""The maximum length of the passage and the answer of one text of a pool."""

SHARE: Final = 0.005
"""The share of the rendering limits for one passage: 20,000 characters."""

SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "maxItems": MOST_SHOWN,
    "items": {
        "type": "object",
        "required": ["terms", "reads"],
        "additionalProperties": False,
        "properties": {
            "terms": {"type": "object", "description": "The terms of its passage."},
            "reads": {"description": "The text, the value, or the list of objects (jsonl) of its answer."},
        },
    },
    "description": "Examples that the model is shown before the question; in a *.prompt file, an `example` "
    "with `show: true`.",
}
"""The format of an entry's `shown`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One example: what the user says, and what the assistant answers to it, before it has a form.

    `answer` is the text, the value, or the list of objects (jsonl); its keys are in the order of the schema.
    `id` names the text of a pool that was chosen for the question; an example of the prompt itself has none.
    """

    passage: str
    answer: Any
    id: str = ""


def written(turns: Sequence[Turn], contract: Contract, *, in_items: bool = False) -> list[tuple[str, str]]:
    """The passages, each with its answer as a model writes it."""
    return [(turn.passage, answer_text(turn.answer, contract, in_items=in_items)) for turn in turns]


def answer_text(answer: Any, contract: Contract, *, in_items: bool = False) -> str:
    """The answer as a model writes it: a text, a value, an object a line, or `in_items` a list as `items`."""
    if contract.format == "text":
        return str(answer)
    if in_items:
        return _json({"items": answer})
    return "\n".join(map(_json, answer if contract.format == "jsonl" and answer else [answer]))


def in_text(asked: str, shown: Sequence[tuple[str, str]]) -> str:
    """What the user says after the examples as they are written, all in one text; as it is without any."""
    if not shown:
        return asked
    parts = [f"Passage:\n{passage}\n\nAnswer:\n{answer}" for passage, answer in (*shown, (asked, ""))]
    return "\n\n".join(parts).rstrip()


def _json(value: Any) -> str:
    """JSON with blanks after commas and colons, as models write it."""
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples of which a question shows at most `count`. `term` is the term in which its passage stands.

    `index` has their passages, at the positions of `turns`.
    """

    term: str
    turns: Sequence[Turn]
    index: NearestTexts
    count: int
    by: By = "first"

    def choose(self, terms: Mapping[str, object]) -> tuple[list[Turn], int]:
        """Choose those to show, the nearest last, and count those that are left out for their passage."""
        if not self.turns:
            return [], 0
        passage = terms.get(self.term)
        rows, left_out = self.index.choose(passage if isinstance(passage, str) else "", self.count, self.by)
        return [self.turns[row] for row in (rows if self.by == "first" else reversed(rows))], left_out


NO_EXAMPLES: Final = Examples("", (), NearestTexts(()), 0)


@dataclass(frozen=True, slots=True)
class ExampleChooser:
    """Chooses examples for the questions of one prompt: of its `own`, and of its `pool`."""

    own: Examples = NO_EXAMPLES
    pool: Examples = NO_EXAMPLES

    def examples(self, terms: Mapping[str, object]) -> tuple[Turn, ...]:
        """The examples to show before a question with these terms, in order."""
        return (*self.own.choose(terms)[0], *self.nearest(terms))

    def nearest(self, terms: Mapping[str, object]) -> tuple[Turn, ...]:
        """Those of the pool."""
        return tuple(self.pool.choose(terms)[0])

    def left_out(self, terms: Mapping[str, object]) -> int:
        """How many examples are not shown because they have the passage of the terms, or it has them."""
        return self.own.choose(terms)[1] + self.pool.choose(terms)[1]

    def effort(self, terms: Mapping[str, object]) -> int:
        """About how many steps it takes to choose, as `compute_thread.beside` counts them."""
        passages = [terms.get(each.term) for each in (self.own, self.pool) if each.turns]
        return sum(CHOOSING + READING * len(passage) for passage in passages if isinstance(passage, str))


def own_examples(prompt: PromptDefinition) -> Examples:
    """The prompt's own examples, rendered; their values are looked up in their own passages.

    Raises `PromptError` for one whose passage cannot be rendered, or whose answer is invalid.
    """
    turns: list[Turn] = []
    characters = 0
    for index, example in enumerate(prompt.shown):
        at = f"/shown/{index}"
        try:
            turns.append(_turn(prompt, example["terms"], example["reads"], looks_up=True))
        except PromptError as error:
            raise error.at("", at) from error
        characters += _length(turns[-1], prompt.contract)
        if characters > MOST_CHARACTERS:
            problem = "this example and those before it are too long"
            expected = f"at most {MOST_CHARACTERS:,} characters"
            raise PromptError(problem, path=at, found=characters, expected=expected)
    if not turns:
        return NO_EXAMPLES
    term = passage_term(prompt.shown[0]["terms"])
    passages = NearestTexts(str(example["terms"].get(term, "")) for example in prompt.shown)
    return Examples(term, turns, passages, len(turns))


def pool_examples(
    prompt: PromptDefinition, pool: Pool, clause: PoolClause, *, looks_up: bool = False
) -> Examples:
    """The texts of a pool, rendered.

    With `looks_up`, values are looked up in their text, which takes seconds for large pools. Raises
    `PromptError` for texts that cannot be rendered, or whose objects are invalid.
    """
    many = prompt.contract.many
    turns: list[Turn] = []
    errors: list[ConfigError] = []
    for text in pool.texts:
        try:
            if not many and len(text.objects) != 1:
                found, expected = f"{len(text.objects)} objects", "one object, as the answer is one value"
                raise PromptError("the text cannot be shown", path="/objects", found=found, expected=expected)
            reads = text.objects if many else text.objects[0]
            turn = _turn(prompt, text.terms, reads, looks_up=looks_up)
            if (length := _length(turn, prompt.contract)) > MOST_OF_A_TEXT:
                expected = f"at most {MOST_OF_A_TEXT:,} characters"
                raise PromptError("the text is too long to be shown", found=length, expected=expected)
            turns.append(replace(turn, id=text.id))
        except PromptError as error:
            path = error.path.replace("/reads", "/objects" if many else "/objects/0", 1)
            errors.append(error.moved(text.where, path))
    raise_first(errors[:MAX_ERRORS])
    return Examples(pool.term, turns, pool.index, clause.show, clause.by)


def passage_term(terms: Mapping[str, Any]) -> str:
    """The term in which a passage stands: `text`, or else the first one that is a text."""
    named = [name for name, value in terms.items() if isinstance(value, str)]
    return "text" if "text" in named else next(iter(named), "text")


def _turn(prompt: PromptDefinition, own_terms: Mapping[str, Any], reads: Any, *, looks_up: bool) -> Turn:
    """Render an example. Raises `PromptError`, with a path in `/terms` or `/reads`."""
    terms = {**prompt.terms, **own_terms}
    if prompt.answer_format != "none" and TERM in terms:
        raise PromptError(RESERVED, path=f"/terms/{TERM}", found=TERM, expected="another name")
    if missing := sorted(prompt.template.needs.required.difference(terms, (TERM,))):
        found, expected = sorted(terms), ", ".join(missing)
        raise PromptError("terms are missing", path="/terms", found=found, expected=expected)
    with _rejected_at("/reads"):
        check_terms({"reads": reads}, RenderMeter())  # it is plain JSON, of a limited depth
    contract = prompt.contract.with_terms(terms if looks_up else None)
    for issue in _issues(reads, contract.metered()):
        raise PromptError(f"the answer is rejected: {issue.message}", path=f"/reads{issue.path}")
    with _rejected_at("/terms"):
        passage = prompt.passage(terms, SHARE)
        if not passage.strip():  # servers reject empty messages
            raise RenderError("the passage is empty")
    return Turn(passage, _in_schema_order(reads, contract))


@contextmanager
def _rejected_at(path: str) -> Iterator[None]:
    try:
        yield
    except RenderError as error:
        raise PromptError(str(error), path=path) from error


def _issues(reads: Any, contract: Contract) -> Iterator[Issue]:
    """Why a contract rejects an answer, by paths into it."""
    if contract.format == "text":
        if not (isinstance(reads, str) and reads.strip()):
            yield Issue(Reason.WRONG_CONTAINER, "it must be a text that is not empty")
    elif contract.format == "json":
        yield from contract.issues(reads)
    elif not isinstance(reads, list):
        yield Issue(Reason.WRONG_CONTAINER, "it must be a list of objects")
    else:
        for index, value in enumerate(reads):
            for issue in contract.issues(value):
                yield replace(issue, path=f"/{index}{issue.path}")


def _length(turn: Turn, contract: Contract) -> int:
    return len(turn.passage) + len(answer_text(turn.answer, contract))


def _in_schema_order(value: Any, contract: Contract) -> Any:
    """The value, or each object of a list, with its keys in the order of the schema: a quote comes first."""
    if not isinstance(contract.schema, dict):
        return value
    references = References(contract.schema)
    if contract.many:
        return [_ordered(item, contract.schema, references) for item in value]
    return _ordered(value, contract.schema, references)


def _ordered(value: Any, schema: Any, references: References) -> Any:
    """A value, of a limited depth, with the keys of its objects in the order of their schema."""
    top = references.followed(schema) or {}
    if isinstance(value, list):
        return [_ordered(item, top.get("items"), references) for item in value]
    if not isinstance(value, dict):
        return value
    declared = [part.get("properties", {}) for part in (*branches_of(top, references), top)]
    properties = next((each for each in declared if value.keys() <= each.keys()), declared[-1])
    keys = [*(key for key in properties if key in value), *(key for key in value if key not in properties)]
    return {key: _ordered(value[key], properties.get(key), references) for key in keys}
