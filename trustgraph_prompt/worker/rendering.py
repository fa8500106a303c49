"""Questions are rendered here, and what takes long is out of everybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from trustgraph_prompt.errors import RenderTooLong
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, Question

AT_ONCE = 0.02
"""Share of the limits of a rendering for which nothing else runs: 20 ms, where templates are hostile."""

_aside = ThreadPoolExecutor(1, thread_name_prefix="rendering")
"""Of one thread: several would together leave the event loop little."""


async def question(
    prompts: PromptSet, prompt_id: str, terms: Mapping[str, object]
) -> tuple[PromptDefinition, Question]:
    """As `PromptSet.question`; a long one is begun anew beside the event loop."""
    try:
        return prompts.question(prompt_id, terms, share=AT_ONCE)
    except RenderTooLong:
        at_length = partial(prompts.question, prompt_id, terms)
        return await asyncio.get_running_loop().run_in_executor(_aside, at_length)
