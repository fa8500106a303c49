"""The messages to the model: question, feedback on invalid answers, continuation.

Their texts are measured behaviour: a change of wording needs the benchmarks (docs/decisions/0010 and 0031).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.errors import Reason, excerpt
from trustgraph_prompt.json_text import positions
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.llm import Message
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.prompts.shown_examples import in_text, written
from trustgraph_prompt.reader import Outcome, Rejected

#: Returns what the model is told of an invalid answer.
Feedback = Callable[[Outcome], str]

#: How many objects of a truncated answer are shown, so that the model knows where to continue. With all of
#: them the tokens of a long answer would grow with the square of its length.
OBJECTS_SHOWN = 5

#: How many characters are shown of rejected values, which the model has to correct, and of objects that were
#: found, which it must not repeat.
VALUES_SHOWN = 10_000

#: How many characters are shown of an answer without such values, as a reminder.
HEAD_SHOWN = 400

#: How many rejected objects one call corrects, of `VALUES_SHOWN` characters in all.
MOST_REFUSED_SHOWN = 50

#: How many characters are shown before and after the position where the JSON is broken.
_BEFORE, _AFTER = 80, 40

#: How many issues of an object are listed, and how many characters of each.
_ISSUES_TOLD, _ISSUE_TOLD = 3, 200

_ANSWER_AGAIN = "That answer cannot be used: {problem}. Answer {again}, completely, with that put right."
_BREAKS = "{problem}. The JSON breaks first where `{before}` is followed by `{after}`"
_INCOMPLETE = "it ends before it is complete"
_WITHOUT_OBJECTS = (Reason.EMPTY, Reason.EXTRACTION_FAILED)
_OR_NOTHING = " If there is nothing to give, answer with []."
_EMPTY = "An earlier answer to this was empty. Give the answer itself."
_CONTINUE = (
    "Your answer{about} was cut off after {objects}; the end of it stands above. Go on with the object that "
    "comes next: whole JSON objects of the same kind, one per line, none of those you gave already, and "
    "nothing else. If there are no more, answer with []."
)
_NEXT_PASS = (
    "That makes {objects}{about} so far{shown}. Look once more for what is still missing, and give only "
    "that: whole JSON objects of the same kind, one per line, none of those you gave already, and nothing "
    "else. If nothing is missing, answer with []."
)
_CORRECT_OBJECTS = (
    "Of your answer{about}, the {objects} above cannot be used; the others are fine, do not repeat them. "
    "What is wrong:\n{problems}\nGive the {objects} again, with that put right, in the same order: whole "
    "JSON objects, one per line, and nothing else."
)
_CORRECT_UNGROUNDED = (
    "Of your answer{about}, the {objects} above cannot be used; the others are fine, do not repeat them. "
    "What is wrong:\n{problems}\nGive again only what is in the passage, as the passage has it, in the same "
    "order: whole JSON objects, one per line, and nothing else. Leave out what is not there; if nothing is "
    "left, answer with []."
)
_UNGROUNDED = frozenset((Reason.UNGROUNDED, Reason.ECHOED, Reason.UNSUPPORTED))
_REPAIR = (
    "An answer that somebody gave is not in the form that was asked for. What is wrong: {problem}\n\n"
    "<answer>\n{answer}\n</answer>\n\n"
    "Write that answer again in the form below. Change how it is written, not what it says, and add nothing. "
    "Where it does not hold what is to be in that form, say `no answer`.\n\n{form}"
)


def opening(prompt: PromptDefinition, question: Question) -> list[Message]:
    """The messages of the question: system, the examples as turns of the conversation, the prompt."""
    system = [Message("system", question.system)] if question.system.strip() else []
    if not question.examples:
        return [*system, Message("user", question.prompt)]
    contract = prompt.contract
    in_items = contract.many and server_schema(contract, items=prompt.native_items) is not None
    shown = written(question.examples, contract, in_items=in_items)
    if prompt.examples_as == "text":
        return [*system, Message("user", in_text(question.prompt, shown))]
    turns: list[Message] = []
    for passage, answer in shown:
        turns.append(Message("user", passage, is_example=True))
        turns.append(Message("assistant", answer, is_example=True))
    return [*system, *turns, Message("user", question.prompt)]


def about(prompt: PromptDefinition) -> str:
    """What the answer is about, for the texts below: said where there are passages of examples, too."""
    return " about this last passage" if prompt.shows_examples else ""


def next_pass(prompt: PromptDefinition, question: Question, found: Sequence[Any]) -> list[Message]:
    """The question, the objects that were found (the last ones that fit), and the request for others."""
    texts = [excerpt(encode(value).decode(), VALUES_SHOWN) for value in found]
    count = sum(total <= VALUES_SHOWN for total in accumulate(map(len, reversed(texts))))
    shown = "" if count == len(texts) else f", of which the last {count} stand above"
    return [
        *opening(prompt, question),
        Message("assistant", "\n".join(texts[-count:])),
        Message("user", _NEXT_PASS.format(objects=_number(found), about=about(prompt), shown=shown)),
    ]


def correction(
    opening: Sequence[Message],
    answer: str,
    outcome: Outcome,
    feedback: Feedback | None = None,
    about: str = "",
) -> list[Message]:
    """The question, the invalid answer and what is wrong with it, without earlier attempts.

    Of the answer, the rejected values are shown, or its beginning if there are none; the whole answer where
    the caller gives the `feedback`.
    """
    *before, user = opening
    form = "" if feedback else _form(outcome.contract)
    may_mean_nothing = outcome.contract.format == "jsonl" and outcome.reason in _WITHOUT_OBJECTS
    or_nothing = _OR_NOTHING if may_mean_nothing else ""
    if not answer.strip():
        # servers reject empty assistant messages, and some want the roles to alternate
        form = "" if form.strip() in user.text else form
        problem = feedback(outcome) if feedback else _EMPTY + or_nothing
        return [*before, Message("user", f"{user.text}\n\n{problem}{form}")]
    if feedback:
        shown, problem = excerpt(answer, VALUES_SHOWN), feedback(outcome)
    else:
        shown = _shown_of(answer, outcome)
        again = f"again{about}" if about else "the question again"
        problem = _ANSWER_AGAIN.format(problem=_problem(outcome).rstrip("."), again=again) + or_nothing
    return [*before, user, Message("assistant", shown), Message("user", f"{problem}{form}")]


def continuation(opening: Sequence[Message], objects: Sequence[Any], about: str = "") -> list[Message]:
    """The question, the last objects of a truncated answer, and the request for the rest."""
    shown = b"\n".join(encode(value) for value in objects[-OBJECTS_SHOWN:]).decode()
    return [
        *opening,
        Message("assistant", shown),
        Message("user", _CONTINUE.format(objects=_number(objects), about=about)),
    ]


def select_rejected(rejected: Sequence[Rejected]) -> tuple[Rejected, ...]:
    """The rejected objects that one call corrects: the first ones that fit."""
    selected: list[Rejected] = []
    room = VALUES_SHOWN
    for candidate in rejected:
        if len(candidate.raw) <= room and len(selected) < MOST_REFUSED_SHOWN:
            selected.append(candidate)
            room -= len(candidate.raw)
    return tuple(selected)


def object_correction(
    opening: Sequence[Message], rejected: Sequence[Rejected], contract: Contract, about: str = ""
) -> list[Message]:
    """The question, objects of the answer that were rejected, and what is wrong with them."""
    reasons = {issue.reason for item in rejected for issue in item.issues}
    wording = _CORRECT_UNGROUNDED if reasons and reasons <= _UNGROUNDED else _CORRECT_OBJECTS
    request = wording.format(objects=_number(rejected), about=about, problems=_problems(rejected))
    return [
        *opening,
        Message("assistant", _raw(rejected)),
        Message("user", f"{request}{_form(contract)}"),
    ]


def repair(answer: str, outcome: Outcome, rejected: Sequence[Rejected]) -> list[Message]:
    """An invalid answer, or the `rejected` objects of it, and the form to write it in; not the question."""
    text = _REPAIR.format(
        problem=f"\n{_problems(rejected)}" if rejected else _problem(outcome),
        answer=_raw(rejected) if rejected else answer,
        form=outcome.contract.instructions(),
    )
    return [Message("user", text)]


def _form(contract: Contract) -> str:
    """The form of the answer, unless the provider receives the schema and tells the model if need be."""
    instructions = contract.instructions() if server_schema(contract) is None else ""
    return f"\n\n{instructions}" if instructions else ""


def _raw(rejected: Sequence[Rejected]) -> str:
    return "\n".join(item.raw for item in rejected)


def _problems(rejected: Sequence[Rejected]) -> str:
    """What is wrong with each object, on a line of its own."""
    return "\n".join(
        f"{number}. {'; '.join(excerpt(each.for_model, _ISSUE_TOLD) for each in item.issues[:_ISSUES_TOLD])}"
        for number, item in enumerate(rejected, 1)
    )


def _shown_of(answer: str, outcome: Outcome) -> str:
    if not outcome.rejected or outcome.reason is Reason.INVALID_JSON:
        return excerpt(answer, HEAD_SHOWN)
    return excerpt(_raw(outcome.rejected), VALUES_SHOWN)


def _problem(outcome: Outcome) -> str:
    if outcome.ok:
        return _INCOMPLETE
    problem = outcome.explain(for_model=True)
    if outcome.reason is not Reason.INVALID_JSON:
        return problem
    raw = outcome.rejected[0].raw
    breaks = positions.breaks(raw, outcome.contract.limits.depth) or 0
    before, after = raw[max(breaks - _BEFORE, 0) : breaks], raw[breaks : breaks + _AFTER]
    return _BREAKS.format(problem=problem, before=before, after=after)


def _number(objects: Sequence[object]) -> str:
    return "1 object" if len(objects) == 1 else f"{len(objects)} objects"
