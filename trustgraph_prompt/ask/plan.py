"""What is put to the model next (docs/asking.md has the table)."""

from __future__ import annotations

from dataclasses import replace

from trustgraph_prompt.ask import messages
from trustgraph_prompt.ask.budget_meter import BudgetSpent
from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.ask.step import Reply, Step, is_about_form
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Rejected

#: How often an answer that filled its room is given twice the room.
MOST_DOUBLINGS = 2


class Plan:
    """Decides, with `attempts` at hand; a prompt's, or what the budget leaves of them.

    Who gives the `feedback` has told the model of the schema, too.
    """

    def __init__(
        self,
        prompt: PromptDefinition,
        question: Question,
        provider: Provider,
        attempts: int,
        feedback: messages.Feedback | None = None,
    ) -> None:
        self._feedback = feedback
        self._prompt = prompt
        self._question = question
        self._provider = provider
        self._attempts_left = attempts - 1
        self._doublings_left = MOST_DOUBLINGS
        self._config = prompt.config
        self._has_just_repaired = False

    def first(self) -> Step:
        """The question itself. Raises `BudgetSpent` where there is no attempt to put it."""
        if self._attempts_left < 0:
            raise BudgetSpent("the budget has no attempts")
        return Step("first", messages.opening(self._question), self._config)

    def next(self, collected: Collected) -> Step | None:
        """What is put next; None where all is there, or nothing more is to be had for what it costs."""
        if collected.is_over or collected.is_escalated:
            return None
        return (
            self._objects_to_come(collected)
            or self._the_same_going_on(collected.last)
            or self._the_same_with_more_room(collected.last)
            or self._another_attempt(collected)
        )

    def _objects_to_come(self, collected: Collected) -> Step | None:
        """The rest of an answer that was cut between objects: shown the last of them, not all."""
        if not collected.may_have_more_objects:
            return None
        return Step("continue", messages.continuation(self._question, collected.objects), self._config)

    def _the_same_going_on(self, last: Reply) -> Step | None:
        """The same answer from where it was cut, where that is within the value, or the first object."""
        as_long_as_wanted = last.outcome.contract.format == "text" and last.filled
        may_go_on = last.is_unfinished and last.may_go_on and not as_long_as_wanted
        if not may_go_on or not self._provider.prefill:
            return None
        return replace(last.step, why="continue", begun=last.beginning, more_than=0)

    def _the_same_with_more_room(self, last: Reply) -> Step | None:
        """The same question with twice the room, where the room that the prompt gives was too small.

        A text is given as it comes: it is asked for again only where the model had done nothing but think.
        """
        in_vain = last.outcome.contract.format != "text" or not last.text.strip()
        if not (last.is_unfinished and last.filled and in_vain and self._doublings_left):
            return None
        self._doublings_left -= 1
        limit, self._config = self._config.answer_limit, self._config.doubled()
        return replace(last.step, why="room", config=self._config, begun="", more_than=limit or 0)

    def _another_attempt(self, collected: Collected) -> Step | None:
        """The question again, or only what was refused of many objects, with what was wrong."""
        if self._attempts_left < 1:
            return None
        last, refused = collected.last, messages.shown(collected.rejected) if collected.objects else ()
        only_thought = last.is_cut and not last.text.strip()
        if not refused and (collected.has_all or only_thought):
            return None
        self._attempts_left -= 1
        self._has_just_repaired = not self._has_just_repaired and self._may_be_repaired(last, refused)
        if self._has_just_repaired:
            conversation = messages.repair(last.text, last.outcome, refused)
            return Step("repair", conversation, self._config, refused=refused)
        if refused:
            conversation = messages.putting_right(self._question, refused, last.outcome.contract)
        else:
            conversation = messages.correction(self._question, last.text, last.outcome, self._feedback)
        in_words = self._feedback is None and last.outcome.contract.format == "json"
        return Step("invalid", conversation, self._config, refused=refused, schema_in_words=in_words)

    def _may_be_repaired(self, last: Reply, refused: tuple[Rejected, ...]) -> bool:
        """Whether what was refused may be written anew without the question, and without losing any of it."""
        if not self._prompt.repair_by_model:
            return False
        if refused:
            return all(is_about_form(rejected.issues) for rejected in refused)
        return last.is_malformed and len(last.text) <= messages.VALUES_SHOWN
