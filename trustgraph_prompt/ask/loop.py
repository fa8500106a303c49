"""`ask`: the loop of calls from a question to its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from trustgraph_prompt.ask.budget_meter import BudgetMeter, BudgetSpent
from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.ask.caching import cached
from trustgraph_prompt.ask.call_stream import CallStream, Listen, Piece
from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.ask.echoes import judging_by_terms
from trustgraph_prompt.ask.follow_ups import FollowUps
from trustgraph_prompt.ask.messages import Feedback, next_pass
from trustgraph_prompt.ask.passes import add_pass, may_have_more
from trustgraph_prompt.ask.step import Reply, Step, first_step
from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import Issue, ProviderError, ProviderPaused, Reason, without_frames
from trustgraph_prompt.graph.ontology_answer import AnswerReading
from trustgraph_prompt.llm import Provider, RetryPolicy
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.llm.retry import LONGEST_WAIT, Sleep
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.reader.stream_reader import reading_effort

#: The part of the token limit from which an answer counts as having filled it: servers count differently.
_FULL = 0.9
_STEPS_TO_READ = 20_000  # for each object, in the terms of an ontology


async def ask(
    prompt: PromptDefinition,
    question: Question,
    provider: Provider,
    *,
    budget: Budget = Budget(),
    price: Price | None = None,
    published: float | None = None,
    listen: Listen | None = None,
    retry: RetryPolicy = RetryPolicy(),
    clock: Callable[[], float] = time.time,
    sleep: Sleep = asyncio.sleep,
    cache: Cache | None = None,
    feedback: Feedback | None = None,
    request: str = "",
) -> Outcome:
    """Ask a question and return its outcome, with every call that was made, its reason and its cost.

    After a transient error a call is retried as `retry` says; a truncated answer is continued; an invalid
    answer is asked for again, with feedback, up to the attempts of prompt and budget; further passes ask for
    objects that are missing (docs/reference/asking.md).
    `published` and `clock` are in seconds since the epoch; without `published` the seconds of the budget
    count from now. `price` converts tokens into the money of the budget. `listen` is awaited with each piece
    of the answer as soon as it is final; its exceptions are raised. `cache` stores the answers of prompts
    that allow it (docs/how-to/caching.md). `feedback` replaces our words about what is wrong with an answer;
    then the question itself must describe the schema to the model. `request` is the id that the calls carry,
    by which a circuit breaker tells requests apart. Objects that are read in the terms of an ontology
    (`PromptDefinition.reading`) are passed on when the answer is complete.

    Raises `ValueError` if `retry` has a deadline or tokens, which belong in the budget, or if the budget has
    money and there is no price.
    """
    if retry.deadline is not None or retry.tokens is not None:
        raise ValueError("retry has a deadline or tokens: ask() takes both from the budget")
    if budget.money is not None and price is None:
        raise ValueError("a budget of money needs a price of the tokens")
    prompt = judging_by_terms(prompt, question)
    meter = BudgetMeter(budget, clock=clock, published=published, price=price)
    attempts = prompt.attempts if budget.attempts is None else min(prompt.attempts, budget.attempts)
    asking = _Asking(
        prompt,
        question,
        provider,
        meter,
        attempts,
        budget.characters,
        None if prompt.reading else listen,
        retry,
        sleep,
        feedback,
        request,
    )
    if cache is None or prompt.cache is None:
        outcome = await asking.outcome()
    else:
        outcome = await cached(
            asking.outcome,
            prompt,
            question,
            provider.identity,
            cache,
            listen=asking.listen,
            seconds_left=meter.seconds_left,
            clock=clock,
        )
    if prompt.reading is not None:
        outcome = await _in_its_terms(outcome, prompt.reading, listen)
    chosen = tuple(turn.id for turn in question.examples if turn.id)
    return replace(outcome, examples=chosen) if chosen else outcome


async def _in_its_terms(outcome: Outcome, reading: AnswerReading, listen: Listen | None) -> Outcome:
    """The outcome in the terms of an ontology. The whole answer decides, so its objects come all at once."""
    effort = _STEPS_TO_READ * len(outcome.value or ())
    outcome = await beside(reading.read, outcome, steps=effort)
    if listen is not None and outcome.value:
        await listen(Piece(objects=tuple(outcome.value), grounding=outcome.grounding))
    return outcome


@dataclass(eq=False, slots=True)
class _Asking:
    """One question while it is asked; its parts read from top to bottom: passes, steps, retries, one call.

    `attempts` and `characters` are those of prompt and budget together; `calls` is how many were made.
    """

    prompt: PromptDefinition
    question: Question
    provider: Provider
    meter: BudgetMeter
    attempts: int
    characters: int | None
    listen: Listen | None
    retry: RetryPolicy
    sleep: Sleep
    feedback: Feedback | None
    request: str
    calls: int = 0

    async def outcome(self) -> Outcome:
        """Ask the question, and then for what is still missing, until a pass brings nothing new or fails."""
        outcome = last = await self._pass(first_step(self.prompt, self.question))
        for _ in range(1, self.prompt.passes):
            if not may_have_more(last):
                break
            conversation = next_pass(self.prompt, self.question, outcome.value)
            step = Step("pass", conversation, self.prompt.config)
            last = await self._pass(step, outcome)
            outcome = add_pass(outcome, last)
        return outcome

    async def _pass(self, first: Step, earlier: Outcome | None = None) -> Outcome:
        """Make the first call and those that follow from its answer, and merge what they bring.

        Ends when nothing more helps, or the budget allows no other call.
        """
        collected = Collected(self.prompt, earlier)
        follow_ups = FollowUps(self.prompt, self.provider, first, self.attempts, self.feedback)
        end, cause = None, None
        step: Step | None = first
        effort_each = reading_effort(1, collected.contract)  # for each character of an answer
        try:
            if self.attempts < 1:
                raise BudgetSpent("the budget allows no attempts")
            while step is not None:
                reply = await self._reply(step, collected)
                effort = len(reply.text) * effort_each
                step = await beside(_follow_up, reply, collected, follow_ups, steps=effort)
        except BudgetSpent as spent:
            end = Issue(Reason.BUDGET_SPENT, str(spent))
        except ProviderError as error:
            end, cause = self._end_by(error), without_frames(error)
        outcome = collected.outcome(end, cause)
        if self.listen is not None and outcome.ok and outcome.contract.format == "json":
            # text and objects were passed on as they came
            await self.listen(Piece(objects=(outcome.value,), grounding=outcome.grounding))
        return outcome

    async def _reply(self, step: Step, collected: Collected) -> Reply:
        """Make a step and return the reply; retried after transient errors, unless some text had arrived.

        Backs off if the call before broke off. Raises the `ProviderError` of the last attempt, or of the call
        before if the wait after it would be too long, and `BudgetSpent` if the budget does not allow a call.
        """
        if (broken := collected.broken) is not None:
            left = self.meter.seconds_left()
            seconds = max(broken.retry_after or 0.0, self.retry.backoff(0))
            if seconds >= (LONGEST_WAIT if left is None else min(left, LONGEST_WAIT)):
                raise broken
            await self.sleep(seconds)
        reasons = iter((step.why,))

        async def attempt() -> Reply:
            return await self._call(next(reasons, "transient"), step, collected)

        return await self.retry.run(attempt, sleep=self.sleep, seconds_left=self.meter.seconds_left)

    async def _call(self, why: str, step: Step, collected: Collected) -> Reply:
        """Make one call, count it, and return the reply. Raises as `_reply`, whose attempt it is."""
        allowed, wanted = self.meter.answer_tokens(step.messages), step.config.answer_limit
        if allowed is not None and allowed <= step.more_than:
            found = f"the budget leaves {allowed} tokens for an answer"
            raise BudgetSpent(f"{found}, which was truncated at {step.more_than}")
        call = step.call(self.prompt, why, number=self.calls + 1, answer_tokens=allowed, request=self.request)
        # not every provider is a `Completer`, which has `thinking`
        thinking = getattr(self.provider, "thinking", None)
        stream = CallStream(step, collected, self.listen, self.characters, self.question.terms, thinking)
        answer, broken = stream.answer, None
        try:
            await stream.receive(self.provider.stream(call), self.meter.seconds_left())
        except (ProviderPaused, ProviderAway):
            raise  # no call was made, or none that counts, so none is reported
        except ProviderError as error:
            broken = without_frames(error)
        cost = self.meter.pay(call, answer, failed=broken is not None)
        outcome = read = None
        if broken is None or answer.text:
            outcome, read = await stream.read()
        report = answer.report(why, f"{broken.category}: {broken}" if broken else None, cost, read)
        if broken or stream.is_loop:
            report = replace(report, usage=answer.usage_of(call))
        collected.calls.append(report)
        self.calls += 1
        if outcome is None:
            assert broken is not None
            raise broken
        await stream.pass_on_rest(outcome)
        room = wanted if wanted is not None and (allowed is None or wanted <= allowed) else None
        return Reply(
            step,
            outcome,
            report,
            step.prefill + answer.text,
            None if answer.has_ended else broken,
            filled=answer.finish_reason == "length" and _fills(room, answer.usage.completion_tokens),
            is_loop=stream.is_loop,
        )

    def _end_by(self, error: ProviderError) -> Issue:
        """The issue of an error that ended the loop: what of the budget is used up, if anything."""
        if spent := self.meter.spent():
            return Issue(Reason.BUDGET_SPENT, spent)
        if isinstance(error, ProviderAway):
            return Issue(Reason.PROVIDER_ERROR, str(error))  # which names the category of the cause
        return Issue(Reason.PROVIDER_ERROR, f"{error.category}: {error}")


def _follow_up(reply: Reply, collected: Collected, follow_ups: FollowUps) -> Step | None:
    """Collect a reply; while the answer is truncated, continue it, else ask again about what was rejected.

    None if the answer is complete, or another call would not help. Raises the error of a reply that failed
    for good, as `Collected.add` does.
    """
    collected.add(reply)
    if collected.is_over or collected.is_escalated:
        return None
    return follow_ups.rest(collected) or follow_ups.attempt(collected)


def _fills(room: int | None, tokens: int | None) -> bool:
    """Whether an answer of so many tokens has filled the room that the prompt gives it.

    One that is much shorter was truncated by a limit of the server's own.
    """
    return room is not None and (tokens is None or tokens >= room * _FULL)
