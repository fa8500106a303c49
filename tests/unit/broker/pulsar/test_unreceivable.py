"""Which entries of a topic a subscription still has before it, according to the admin API."""

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


def test_entries_continue_in_the_next_ledger_that_has_any() -> None:
    entries = backlog("s").entries(EntryPosition(5, 2))
    assert list(entries) == [
        EntryPosition(5, 2),
        EntryPosition(5, 3),
        EntryPosition(9, 0),
        EntryPosition(9, 1),
        EntryPosition(9, 2),
    ]


def test_subscription_without_acknowledgements_begins_at_the_first_entry() -> None:
    new = backlog("new")
    assert new.after(new.begin) == EntryPosition(5, 0)
    assert not new.is_done(EntryPosition(5, 0))


def test_entries_acknowledged_individually_are_done() -> None:
    done = [
        entry for entry in islice(backlog("s").entries(EntryPosition(5, 0)), 7) if backlog("s").is_done(entry)
    ]
    assert done == [EntryPosition(5, 0), EntryPosition(5, 2), EntryPosition(5, 3), EntryPosition(9, 1)]


def test_no_entry_follows_the_last_one() -> None:
    assert backlog("s").after(EntryPosition(9, 2)) is None


def test_unknown_subscription_has_no_backlog() -> None:
    assert Backlog.of(INTERNAL, "other") is None


def test_undone_entries_are_given_in_order() -> None:
    assert list(backlog("s").undone(EntryPosition(5, 0))) == [
        EntryPosition(5, 1),
        EntryPosition(9, 0),
        EntryPosition(9, 2),
    ]
