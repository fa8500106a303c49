"""Where dead letters are looked for, and what is known of their prompts."""

from __future__ import annotations

from trustgraph_prompt.cli.chosen_letters import ChosenLetters, check_terms
from trustgraph_prompt.cli.dead_options import TermOptions
from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter


def test_any_term_is_accepted_where_no_prompt_can_be_looked_up() -> None:
    nowhere = TermOptions(broker="embedded:", config_topic="t", templates=None, admin_url=None)
    check_terms(ChosenLetters(nowhere, DeadLetterFilter(), [], "of no flow"), nowhere, {"any": "text"})
