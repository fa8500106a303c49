"""What is said to the model: the question, what was wrong with its answer, where to go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import held_to
from trustgraph_prompt.errors import Reason, excerpt
from trustgraph_prompt.json_text import locate
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.llm import Message
from trustgraph_prompt.prompts import Question
from trustgraph_prompt.reader import Outcome, Rejected

#: What the model is told of an answer that is no good, in somebody's own words.
Feedback = Callable[[Outcome], str]

#: How many objects of a cut answer are shown, so that the model finds its place again. All of them would
#: make the tokens of a long answer grow with the square of its length.
OBJECTS_SHOWN = 5

#: How many characters are shown of values that were refused: the model has to put them right.
VALUES_SHOWN = 10_000

#: How many characters are shown of an answer without any: it only has to see what it did.
HEAD_SHOWN = 400

#: How many refused objects are asked for again in one call, of `VALUES_SHOWN` characters in all.
MOST_REFUSED_SHOWN = 50

#: How many characters are shown before the place where JSON breaks, and after it.
_BEFORE, _AFTER = 80, 40

#: How many of the issues of one object are told, and how many characters of each.
_ISSUES_TOLD, _ISSUE_TOLD = 3, 200

_AGAIN = "That answer cannot be used: {problem}. Answer the question again, completely, with that put right."
_BREAKS = "{problem}. The JSON breaks first where `{before}` is followed by `{after}`"
_CUT = "it ends before it is complete"
_WITHOUT_OBJECTS = (Reason.EMPTY, Reason.EXTRACTION_FAILED)
_OR_NOTHING = " If there is nothing to give, answer with []."
_EMPTY = "An earlier answer to this was empty. Give the answer itself."
_REST = (
    "Your answer was cut off after {objects}; the end of it stands above. Go on with the object that comes "
    "next: whole JSON objects of the same kind, one per line, none of those you gave already, and "
    "nothing else. If there are no more, answer with []."
)
_PUT_RIGHT = (
    "Of your answer, the {objects} above cannot be used; the others are fine, do not repeat them. What is "
    "wrong:\n{problems}\nGive the {objects} again, with that put right, in the same order: whole JSON "
    "objects, one per line, and nothing else."
)
_NOT_THERE = (
    "Of your answer, the {objects} above cannot be used; the others are fine, do not repeat them. What is "
    "wrong:\n{problems}\nGive again only what is in the passage, as the passage has it, in the same order: "
    "whole JSON objects, one per line, and nothing else. Leave out what is not there; if nothing is left, "
    "answer with []."
)
_UNTRUE = frozenset((Reason.UNGROUNDED, Reason.ECHOED))
_REPAIR = (
    "An answer that somebody gave is not in the form that was asked for. What is wrong: {problem}\n\n"
    "<answer>\n{answer}\n</answer>\n\n"
    "Write that answer again in the form below. Change how it is written, not what it says, and add nothing. "
    "Where it does not hold what is to be in that form, say `no answer`.\n\n{form}"
)


def opening(question: Question) -> list[Message]:
    """The question itself."""
    system = [Message("system", question.system)] if question.system.strip() else []
    return [*system, Message("user", question.prompt)]


def correction(
    question: Question, answer: str, said: Outcome, feedback: Feedback | None = None
) -> list[Message]:
    """The question, the answer that was no good, and why. Earlier ones than the last are not carried.

    Shown are the values that were refused, or the beginning of an answer without any that can be read; where
    somebody else gives the `feedback`, what it is about: the answer.
    """
    *system, user = opening(question)
    form = "" if feedback else _form(said.contract)
    may_mean_nothing = said.contract.format == "jsonl" and said.reason in _WITHOUT_OBJECTS
    or_nothing = _OR_NOTHING if may_mean_nothing else ""
    if not answer.strip():
        # an assistant has to have said something, and some servers want the roles to alternate
        form = "" if form.strip() in user.text else form
        problem = feedback(said) if feedback else _EMPTY + or_nothing
        return [*system, Message("user", f"{user.text}\n\n{problem}{form}")]
    shown = excerpt(answer, VALUES_SHOWN) if feedback else _shown_of(answer, said)
    problem = feedback(said) if feedback else _AGAIN.format(problem=_problem(said).rstrip(".")) + or_nothing
    return [*system, user, Message("assistant", shown), Message("user", f"{problem}{form}")]


def continuation(question: Question, objects: Sequence[Any]) -> list[Message]:
    """The question, the last objects of a cut answer, and the demand for the rest."""
    shown = b"\n".join(encode(value) for value in objects[-OBJECTS_SHOWN:]).decode()
    return [
        *opening(question),
        Message("assistant", shown),
        Message("user", _REST.format(objects=_number(objects))),
    ]


def shown(rejected: Sequence[Rejected]) -> tuple[Rejected, ...]:
    """Of the refused objects those that one call asks for again: the first, as many as there is room for."""
    kept: list[Rejected] = []
    room = VALUES_SHOWN
    for one in rejected:
        if len(one.raw) <= room and len(kept) < MOST_REFUSED_SHOWN:
            kept.append(one)
            room -= len(one.raw)
    return tuple(kept)


def putting_right(question: Question, refused: Sequence[Rejected], contract: Contract) -> list[Message]:
    """The question, objects of the answer that were refused, and why."""
    reasons = {issue.reason for one in refused for issue in one.issues}
    wording = _NOT_THERE if reasons and reasons <= _UNTRUE else _PUT_RIGHT
    demand = wording.format(objects=_number(refused), problems=_problems(refused))
    return [
        *opening(question),
        Message("assistant", _raw(refused)),
        Message("user", f"{demand}{_form(contract)}"),
    ]


def repair(answer: str, said: Outcome, refused: Sequence[Rejected]) -> list[Message]:
    """An answer that is no good, or what was `refused` of it, and what it must be; not the question."""
    problem = f"\n{_problems(refused)}" if refused else _problem(said)
    return [
        Message(
            "user",
            _REPAIR.format(
                problem=problem,
                answer=_raw(refused) if refused else answer,
                form=said.contract.instructions(),
            ),
        )
    ]


def _form(contract: Contract) -> str:
    """What the answer must be, unless its provider is told the schema: that tells the model, if need be."""
    instructions = contract.instructions() if held_to(contract) is None else ""
    return f"\n\n{instructions}" if instructions else ""


def _raw(refused: Sequence[Rejected]) -> str:
    return "\n".join(one.raw for one in refused)


def _problems(refused: Sequence[Rejected]) -> str:
    """What is wrong with each, in a line of its own."""
    return "\n".join(
        f"{number}. {'; '.join(excerpt(str(issue), _ISSUE_TOLD) for issue in one.issues[:_ISSUES_TOLD])}"
        for number, one in enumerate(refused, 1)
    )


def _shown_of(answer: str, said: Outcome) -> str:
    if not said.rejected or said.reason is Reason.INVALID_JSON:
        return excerpt(answer, HEAD_SHOWN)
    return excerpt("\n".join(rejected.raw for rejected in said.rejected), VALUES_SHOWN)


def _problem(said: Outcome) -> str:
    if said.ok:
        return _CUT
    problem = said.explain()
    if said.reason is not Reason.INVALID_JSON:
        return problem
    raw = said.rejected[0].raw
    breaks = locate.breaks(raw, said.contract.limits.depth) or 0
    before, after = raw[max(breaks - _BEFORE, 0) : breaks], raw[breaks : breaks + _AFTER]
    return _BREAKS.format(problem=problem, before=before, after=after)


def _number(objects: Sequence[object]) -> str:
    return "1 object" if len(objects) == 1 else f"{len(objects)} objects"
