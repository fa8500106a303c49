"""Processes one chunk for a flow with an ontology: asks in the terms of the part that the text needs."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.reader import read
from trustgraph_prompt.worker.request.journal import AskResult
from trustgraph_prompt.worker.request.prompt import PromptWork

log = logging.getLogger(__name__)

ATTEMPTS = 2
"""At least, so that an object that violates the ontology is asked for again. TrustGraph's entries say one."""


class OntologyWork(PromptWork):
    """Asks a prompt about a chunk; an object that violates the ontology is rejected with the reason."""

    async def ask(self) -> AskResult:
        """Ask, unless the text has no word of a large ontology. Raises `RequestError`, `RenderError`."""
        ontology, prompt, terms = self._flow.ontology, self._prompt(), self._request.terms
        assert ontology is not None
        if prompt.contract.versions:
            raise RequestError(f"prompt {prompt.id} has versions, which cannot keep to an ontology")
        part = await beside(partial(ontology.choose, str(terms.get("text", ""))))
        prompt = replace(
            prompt.with_contract(prompt.contract.checked(part.check)),
            attempts=max(ATTEMPTS, prompt.attempts),
        )
        if not part and prompt.contract.format == "jsonl":
            log.info("the model is not asked: the text has no word of the ontology")
            self._entry.result = AskResult(prompt, replace(read("[]", prompt.contract), calls=()))
            return self._entry.result
        return await self._ask(prompt, {**terms, **part.terms}, self._entry)
