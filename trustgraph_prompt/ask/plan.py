"""What is put to the model next (docs/asking.md has the table)."""

from __future__ import annotations

from dataclasses import replace

from trustgraph_prompt.ask import messages
from trustgraph_prompt.ask.allowance import BudgetSpent
from trustgraph_prompt.ask.harvest import Harvest
from trustgraph_prompt.ask.step import Reply, Step
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition, Question

#: How often an answer that filled its room is given twice the room.
MOST_DOUBLINGS = 2


class Plan:
    """Decides, with `attempts` at hand; a prompt's, or what the budget leaves of them."""

    def __init__(
        self, prompt: PromptDefinition, question: Question, provider: Provider, attempts: int
    ) -> None:
        self._question = question
        self._provider = provider
        self._attempts_left = attempts - 1
        self._doublings_left = MOST_DOUBLINGS
        self._config = prompt.config

    def first(self) -> Step:
        """The question itself. Raises `BudgetSpent` where there is no attempt to put it."""
        if self._attempts_left < 0:
            raise BudgetSpent("the budget has no attempts")
        return Step("first", messages.opening(self._question), self._config)

    def next(self, harvest: Harvest) -> Step | None:
        """What is put next; None where all is there, or nothing more is to be had for what it costs."""
        if harvest.is_over:
            return None
        return (
            self._objects_to_come(harvest)
            or self._the_same_going_on(harvest.last)
            or self._the_same_with_more_room(harvest.last)
            or self._another_attempt(harvest)
        )

    def _objects_to_come(self, harvest: Harvest) -> Step | None:
        """The rest of an answer that was cut between objects: shown the last of them, not all."""
        if not harvest.may_have_more_objects:
            return None
        return Step("continue", messages.continuation(self._question, harvest.objects), self._config)

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

    def _another_attempt(self, harvest: Harvest) -> Step | None:
        """The question again, or only what was refused of many objects, with what was wrong."""
        if self._attempts_left < 1:
            return None
        last, refused = harvest.last, messages.shown(harvest.rejected) if harvest.objects else ()
        only_thought = last.is_cut and not last.text.strip()
        if refused:
            conversation = messages.putting_right(self._question, refused)
        elif harvest.has_all or only_thought:
            return None
        else:
            conversation = messages.correction(self._question, last.text, last.outcome)
        self._attempts_left -= 1
        return Step("invalid", conversation, self._config, refused=refused, schema_in_words=True)
