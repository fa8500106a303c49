"""Decides on the calls after the first one (docs/reference/asking.md has the table)."""

from __future__ import annotations

from dataclasses import replace

from trustgraph_prompt.ask import messages
from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.ask.step import Reply, Step, is_about_form
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Rejected

#: How often the token limit is doubled for an answer that has reached it.
MOST_DOUBLINGS = 2


class FollowUps:
    """Decides on the steps of one pass after its `first`, with up to `attempts` of the answer in all.

    With `feedback`, the question describes the schema to the model; otherwise the provider may do it.
    """

    def __init__(
        self,
        prompt: PromptDefinition,
        provider: Provider,
        first: Step,
        attempts: int,
        feedback: messages.Feedback | None,
    ) -> None:
        self._feedback = feedback
        self._prompt = prompt
        self._opening = first.conversation
        self._about = messages.about(prompt)
        self._provider = provider
        self._attempts_left = attempts - 1
        self._doublings_left = MOST_DOUBLINGS
        self._config = first.config
        self._has_just_repaired = False

    def rest(self, collected: Collected) -> Step | None:
        """The step that gets the rest of a truncated answer, or all of it with more room for it."""
        last = collected.last
        if not last.is_truncated:
            return None
        return self._continue_objects(collected) or self._continue_text(last) or self._double_the_limit(last)

    def _continue_objects(self, collected: Collected) -> Step | None:
        """The rest of an answer that was truncated after new objects, of which the last ones are shown."""
        if not collected.has_fresh_objects:
            return None
        conversation = messages.continuation(self._opening, collected.objects, self._about)
        return Step("continue", conversation, self._config)

    def _continue_text(self, last: Reply) -> Step | None:
        """The rest of an answer that was truncated within its value, or its first object, by prefill."""
        as_long_as_wanted = last.outcome.contract.format == "text" and last.filled
        may_continue = last.is_unfinished and last.may_continue and not as_long_as_wanted
        if not may_continue or not self._provider.prefill:
            return None
        return replace(last.step, why="continue", prefill=last.next_prefill, more_than=0)

    def _double_the_limit(self, last: Reply) -> Step | None:
        """The same question with twice the token limit, if the limit of the prompt was too small.

        A text has been passed on already, so it is only asked for again if there was only thinking.
        """
        in_vain = last.outcome.contract.format != "text" or not last.text.strip()
        if not (last.is_unfinished and last.filled and in_vain and self._doublings_left):
            return None
        self._doublings_left -= 1
        limit, self._config = self._config.answer_limit, self._config.doubled()
        return replace(last.step, why="room", config=self._config, prefill="", more_than=limit or 0)

    def attempt(self, collected: Collected) -> Step | None:
        """The question again, or only the rejected ones of several objects, with feedback."""
        if self._attempts_left < 1:
            return None
        last = collected.last
        rejected = messages.select_rejected(collected.rejected) if collected.has_objects else ()
        only_thought = last.is_truncated and not last.text.strip()
        if not rejected and (collected.has_all or only_thought):
            return None
        self._attempts_left -= 1
        self._has_just_repaired = not self._has_just_repaired and self._may_be_repaired(last, rejected)
        if self._has_just_repaired:
            conversation = messages.repair(last.text, last.outcome, rejected)
            return Step("repair", conversation, self._config, rejected=rejected)
        if rejected:
            contract = last.outcome.contract
            conversation = messages.object_correction(self._opening, rejected, contract, self._about)
        else:
            conversation = messages.correction(
                self._opening, last.text, last.outcome, self._feedback, self._about
            )
        in_words = self._feedback is None and last.outcome.contract.format == "json"
        return Step("invalid", conversation, self._config, rejected=rejected, schema_in_words=in_words)

    def _may_be_repaired(self, last: Reply, rejected: tuple[Rejected, ...]) -> bool:
        """Whether the model can rewrite what was rejected without the question, and without loss."""
        if not self._prompt.repair_by_model:
            return False
        if rejected:
            return all(is_about_form(item.issues) for item in rejected)
        return last.is_malformed and len(last.text) <= messages.VALUES_SHOWN
