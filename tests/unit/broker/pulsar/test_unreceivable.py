"""Which entries of a topic a subscription still has before it, from what the admin API tells."""

from __future__ import annotations

from itertools import islice

from trustgraph_prompt.broker.pulsar.unreceivable import Backlog, EntryPosition

INTERNAL = {
    "currentLedgerEntries": 3,
    "ledgers": [
        {"ledgerId": 5, "entries": 4},
        {"ledgerId": 6, "entries": 0},
        {"ledgerId": 9, "entries": 0},  # the one that is written to says nothing yet
    ],
    "cursors": {
        "s": {"markDeletePosition": "5:0", "individuallyDeletedMessages": "[(5:1..5:3],(9:0..9:1]]"},
        "new": {"markDeletePosition": "5:-1", "individuallyDeletedMessages": "[]"},
    },
}


def backlog(subscription: str) -> Backlog:
    found = Backlog.of(INTERNAL, subscription)
    assert found is not None
    return found


def test_entries_go_on_in_the_next_ledger_that_has_any() -> None:
    entries = backlog("s").entries(EntryPosition(5, 2))
    assert list(entries) == [
        EntryPosition(5, 2),
        EntryPosition(5, 3),
        EntryPosition(9, 0),
        EntryPosition(9, 1),
        EntryPosition(9, 2),
    ]


def test_a_subscription_that_has_acknowledged_nothing_begins_at_the_first() -> None:
    new = backlog("new")
    assert new.after(new.begin) == EntryPosition(5, 0)
    assert not new.is_done(EntryPosition(5, 0))


def test_what_was_acknowledged_one_by_one_is_done() -> None:
    done = [
        entry for entry in islice(backlog("s").entries(EntryPosition(5, 0)), 7) if backlog("s").is_done(entry)
    ]
    assert done == [EntryPosition(5, 0), EntryPosition(5, 2), EntryPosition(5, 3), EntryPosition(9, 1)]


def test_the_end_is_known() -> None:
    assert backlog("s").after(EntryPosition(9, 2)) is None


def test_a_subscription_that_is_not_there_has_none() -> None:
    assert Backlog.of(INTERNAL, "other") is None


def test_what_is_not_done_is_given_in_order() -> None:
    assert list(backlog("s").undone(EntryPosition(5, 0))) == [
        EntryPosition(5, 1),
        EntryPosition(9, 0),
        EntryPosition(9, 2),
    ]
