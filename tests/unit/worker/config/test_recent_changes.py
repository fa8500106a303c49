"""The last changes of config, as the status shows them."""

from __future__ import annotations

import json

from trustgraph_prompt.broker import Message
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker.config.recent_changes import CHANGES, RecentChanges, author_properties

SAY = json.dumps({"prompt": "Say it."}).encode()


def message(key: str, published: float, by: str = "", why: str = "") -> Message:
    return Message(SAY, "persistent://t/n/config", "1", author_properties(by, why), key, published)


def prompts(*ids: str) -> dict[str, PromptSet]:
    return {"w": PromptSet.build({f"template.{id}": SAY for id in ids})}


def test_topic_that_is_read_again_changes_nothing() -> None:
    changes = RecentChanges()
    for _ in range(2):
        for number in range(3):
            changes.received(message(f"w/template.p{number}", 10.0 + number, "ada"))
        changes.applied({f"w/template.p{number}": SAY for number in range(3)}, (), prompts("p0", "p1", "p2"))
    assert [(change.at, change.entry, change.by) for change in changes.newest] == [
        (12.0, "template.p2", "ada"),
        (11.0, "template.p1", "ada"),
        (10.0, "template.p0", "ada"),
    ]


def test_newest_changes_of_served_workspaces_are_kept() -> None:
    changes, ids = RecentChanges(), [f"p{number}" for number in range(50)]
    for number, id in enumerate(ids):
        changes.received(message(f"w/template.{id}", 1.0 + number))
    changes.received(message("other/template.p", 99.0))
    changes.applied({f"w/template.{id}": SAY for id in ids} | {"other/template.p": SAY}, (), prompts(*ids))
    assert [change.entry for change in changes.newest] == [f"template.{id}" for id in ids[::-1][:CHANGES]]


def test_deleted_or_rejected_entry_has_no_version() -> None:
    changes = RecentChanges(clock=lambda: 5.0)
    changes.applied({"w/template.a": b"", "w/template.b": b"{"}, {"w/template.b"}, prompts("b"))
    assert {change.action for change in changes.newest} == {"delete", "rejected"}
    assert {change.prompt for change in changes.newest} == {None}
    assert {change.at for change in changes.newest} == {5.0}


def test_snapshots_are_compared_where_entries_have_no_messages() -> None:
    changes, now = RecentChanges(clock=lambda: 5.0), prompts("a", "b")["w"]
    changes.replaced("w", None, now)
    assert {(change.entry, change.action) for change in changes.newest} == {
        ("template.a", "push"),
        ("template.b", "push"),
    }


def test_names_and_reasons_are_cut_and_can_be_encoded() -> None:
    properties = author_properties("ada\udce4", "y" * 1_000)
    assert properties["by"].encode() == b"ada?"
    assert len(properties["why"]) == 200
    assert author_properties("", "") == {}
