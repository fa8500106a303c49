"""The loop: put the question, keep what stands, ask for the rest or ask again, until there is an outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from trustgraph_prompt.ask.budget_meter import BudgetMeter, BudgetSpent
from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.ask.caching import cached
from trustgraph_prompt.ask.call_stream import CallStream, Listen, Piece
from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.ask.grounding import judging_by_terms
from trustgraph_prompt.ask.merge_calls import verdict
from trustgraph_prompt.ask.messages import Feedback
from trustgraph_prompt.ask.plan import Plan
from trustgraph_prompt.ask.step import Reply, Step
from trustgraph_prompt.background import beside
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import Issue, ProviderError, ProviderPaused, Reason, without_frames
from trustgraph_prompt.llm import Call, Provider, RetryPolicy
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.llm.retry import LONGEST_WAIT, Sleep
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.reader.reading import steps


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
) -> Outcome:
    """What came of a question: always an outcome, with every call that was made, why, and what it cost.

    A call that failed for the moment is sent again as `retry` says; an answer that was cut is continued; what
    is no good is asked for again with what is wrong with it, up to the attempts of prompt and budget
    (docs/asking.md). `published` and `clock` are in seconds since the epoch; without `published` the seconds
    of the budget count from now. `price` turns tokens into the money of the budget. `listen` is awaited with
    each piece of the answer as soon as it stands; what it raises ends the asking. `cache` keeps the answers
    of prompts that let it (docs/caching.md). `feedback` says in its own words what was wrong with an answer
    that is asked for again; then it is the question that tells the model of the schema.

    Raises `ValueError` where `retry` has a deadline or tokens: they are the budget's; and where the budget
    has money and there is no price.
    """
    if retry.deadline is not None or retry.tokens is not None:
        raise ValueError("ask() has a budget for a retry's deadline and tokens")
    if budget.money is not None and price is None:
        raise ValueError("a budget of money needs a price: nobody knows what the tokens cost")
    prompt = judging_by_terms(prompt, question)
    allowance = BudgetMeter(budget, clock=clock, published=published, price=price)
    attempts = prompt.attempts if budget.attempts is None else min(prompt.attempts, budget.attempts)
    plan = Plan(prompt, question, provider, attempts, feedback)
    asking = _Asking(prompt, provider, allowance, retry, listen, sleep, budget.characters)
    converse = partial(_converse, plan, asking)
    if cache is None or prompt.cache is None:
        return await converse()
    return await cached(
        converse,
        prompt,
        question,
        provider.identity,
        cache,
        listen=listen,
        seconds_left=allowance.seconds_left,
        clock=clock,
    )


async def _converse(plan: Plan, asking: _Asking) -> Outcome:
    """Put one step after the other, for as long as the plan has a next one and the budget pays for it."""
    collected, end, cause = asking.collected, None, None
    try:
        step: Step | None = plan.first()
        while step is not None:
            reply = await asking.put(step)
            consider = partial(_consider, plan, collected, reply)
            step = await beside(consider, steps(len(reply.text), collected.contract))
    except BudgetSpent as spent:
        end = Issue(Reason.BUDGET_SPENT, str(spent))
    except ProviderError as error:
        end, cause = asking.end_by(error), without_frames(error)
    outcome = verdict(collected, end, cause)
    await asking.tell_value(outcome)
    return outcome


def _consider(plan: Plan, collected: Collected, reply: Reply) -> Step | None:
    """Take in what a step brought, and say which comes next."""
    collected.add(reply)
    return plan.next(collected)


class _Asking:
    """Puts one question to one provider, as often as it takes."""

    def __init__(
        self,
        prompt: PromptDefinition,
        provider: Provider,
        allowance: BudgetMeter,
        retry: RetryPolicy,
        listen: Listen | None,
        sleep: Sleep,
        characters: int | None,
    ) -> None:
        self.collected = Collected(prompt)
        self._prompt = prompt
        self._provider = provider
        self._allowance = allowance
        self._retry = retry
        self._listen = listen
        self._sleep = sleep
        self._characters = characters

    async def put(self, step: Step) -> Reply:
        """What came back; tried again after failures that pass, unless some text had been given.

        Raises the `ProviderError` of the last try, or of the step before where it is to be left alone for too
        long, and `BudgetSpent` where a call cannot be paid for.
        """
        await self._recover()
        reasons = iter((step.why,))

        async def attempt() -> Reply:
            return await self._call(next(reasons, "transient"), step)

        return await self._retry.run(attempt, sleep=self._sleep, seconds_left=self._allowance.seconds_left)

    async def _recover(self) -> None:
        """Wait, where the last call broke, as before another try. Raises its error where that is too long."""
        broken, left = self.collected.broken, self._allowance.seconds_left()
        if broken is None:
            return
        seconds = max(broken.retry_after or 0.0, self._retry.backoff(0))
        if seconds >= (LONGEST_WAIT if left is None else min(left, LONGEST_WAIT)):
            raise broken
        await self._sleep(seconds)

    def end_by(self, error: ProviderError) -> Issue:
        """What to say where a failure ended the asking: what the budget has run out of, if it has."""
        if spent := self._allowance.spent():
            return Issue(Reason.BUDGET_SPENT, spent)
        if isinstance(error, ProviderAway):
            return Issue(Reason.PROVIDER_ERROR, str(error))  # which names the category of what went wrong
        return Issue(Reason.PROVIDER_ERROR, f"{error.category}: {error}")

    async def tell_value(self, outcome: Outcome) -> None:
        """Give the value of a json answer, now that no better one comes; all else was given as it came."""
        if self._listen is not None and outcome.ok and outcome.contract.format == "json":
            await self._listen(Piece(objects=(outcome.value,), grounding=outcome.grounding))

    async def _call(self, why: str, step: Step) -> Reply:
        contract, messages = self._prompt.contract, step.messages
        allowed, wanted = self._allowance.answer_tokens(messages), step.config.answer_limit
        if allowed is not None and allowed <= step.more_than:
            raise BudgetSpent(f"the budget leaves {allowed} tokens for an answer that took {step.more_than}")
        call = Call(
            messages,
            config=step.config.at_most(allowed),
            response_schema=server_schema(contract, items=self._prompt.native_items),
            schema_in_words=step.schema_in_words,
            labels={"prompt": self._prompt.id, "call": str(len(self.collected.calls) + 1), "why": why},
        )
        hearing = CallStream(step, contract, self.collected.new, self._listen, self._characters)
        broken: ProviderError | None = None
        try:
            await hearing.hear(self._provider.stream(call), self._allowance.seconds_left())
        except (ProviderPaused, ProviderAway):
            raise  # no call was made, or none that counts, and none is reported
        except ProviderError as error:
            broken = without_frames(error)
        cost = self._allowance.pay(call, hearing.usage, hearing.written, failed=broken is not None)
        report = hearing.report(why, broken, cost)
        self.collected.calls.append(report)
        if broken and not hearing.text:
            raise broken
        is_ours = wanted is not None and (allowed is None or wanted <= allowed)
        reply = await hearing.reply(report, broken, room=wanted if is_ours else None)
        self.collected.calls[-1] = reply.report
        return reply
