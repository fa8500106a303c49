"""The versions that prompts have had, from records that are made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.workers import entry
from trustgraph_prompt.broker import Message
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.worker.config.history import CANARY, DELETE, FOUND, PUSH, ROLLBACK, Change
from trustgraph_prompt.worker.config.source import DEFAULT_SYSTEM
from trustgraph_prompt.worker.config.versions import EntryVersions, version_of

A, B, C = entry("A {{ text }}"), entry("B {{ text }}"), entry("C {{ text }}")
KEY, OTHER, SYSTEM = "template.say", "template.other", "system"
BRIEF = json.dumps("Be brief.")


def change(push: str, text: str, key: str = KEY, action: str = PUSH, system: str = DEFAULT_SYSTEM) -> Change:
    return Change(key, push, action, text, version_of(key, text, system) if text else None, by="ann")


def message(data: bytes, published: float) -> Message:
    return Message(data, topic="", id="", published=published)


def history(*records: tuple[Change, float], **present: tuple[str, float]) -> EntryVersions:
    """The history of these records and entries, each with its time; `say` stands for `template.say`."""
    kept = {f"{each.key}@{each.push}": message(each.encode(), time) for each, time in records}
    keys = {"say": KEY, "other": OTHER, "system": SYSTEM}
    now = {keys[name]: message(text.encode(), time) for name, (text, time) in present.items()}
    return EntryVersions.of(kept, now, {})


def test_changes_are_in_the_order_of_the_topic_whatever_their_clocks_say() -> None:
    found = history((change("1", A), 100), (change("2", B), 40), (change("3", C), 90), say=(C, 90))
    assert [each.entry for each in found.changes] == [A, B, C]
    assert found.previous(KEY).entry == B


def test_entry_found_without_a_record_has_the_version_of_its_time() -> None:
    stern = Change(SYSTEM, "2", PUSH, BRIEF, "s", versions={"say": version_of(KEY, A, BRIEF) or ""})
    found = history((change("1", B, OTHER), 10), (stern, 30), say=(A, 20), other=(B, 10), system=(BRIEF, 30))

    assert [(each.key, each.action) for each in found.changes] == [
        (OTHER, PUSH),
        (KEY, FOUND),
        (SYSTEM, PUSH),
    ]
    versions = [each.version_of(KEY) for each in found.of_entry(KEY)]
    assert versions == [version_of(KEY, A, DEFAULT_SYSTEM), version_of(KEY, A, BRIEF)]
    assert (found.text(KEY).system, found.previous(KEY).system) == (BRIEF, DEFAULT_SYSTEM)


def test_new_prompt_has_no_previous_version_where_workers_have_files() -> None:
    present = {KEY: message(A.encode(), 1), OTHER: message(B.encode(), 2)}
    new = change("1", B, OTHER)
    found, pushed = EntryVersions.of(
        {f"{OTHER}@1": message(new.encode(), 2)}, present, {SYSTEM: BRIEF}
    ).changes
    assert (found.action, found.version) == (FOUND, version_of(KEY, A, BRIEF))
    assert (pushed.version, pushed.replaced) == (version_of(OTHER, B, BRIEF), None)


def test_second_rollback_goes_further_back_and_skips_what_was_rolled_back() -> None:
    pushes = [(change("1", A), 1.0), (change("2", B), 2.0), (change("3", C), 3.0)]
    once = history(*pushes, (change("4", B, action=ROLLBACK), 4), say=(B, 4))
    assert once.previous(KEY).entry == A
    twice = history(
        *pushes,
        (change("4", B, action=ROLLBACK), 4),
        (change("5", A, action=ROLLBACK), 5),
        say=(A, 5),
    )
    with pytest.raises(ConfigError, match="no version before the present one"):
        twice.previous(KEY)
    pushed = history(*pushes, (change("4", A, action=ROLLBACK), 4), (change("5", C), 5), say=(C, 5))
    assert pushed.previous(KEY).entry == A


def test_push_that_was_never_published_is_no_version_to_return_to() -> None:
    first = change("1", A)
    later = replace(change("3", C), replaced=first.version)
    found = history((first, 1), (change("2", B), 2), (later, 3), say=(C, 3))
    assert found.previous(KEY).entry == A

    deleted = Change(KEY, "3", DELETE, "", None, replaced=first.version)
    assert history((first, 1), (change("2", B), 2), (deleted, 3)).previous(KEY).entry == A


def test_system_message_gives_versions_to_published_entries_only() -> None:
    version = version_of(KEY, A, BRIEF) or ""
    brief = Change(SYSTEM, "3", PUSH, BRIEF, "s", versions={"say": version})
    dead_push, dead_deletion = change("2", B), Change(KEY, "2", DELETE, "", None)
    for dead in (dead_push, dead_deletion):
        later = replace(change("4", C, system=BRIEF), replaced=version)
        records = ((change("1", A), 1), (dead, 2), (brief, 3), (later, 4))
        found = history(*records, say=(C, 4), system=(BRIEF, 3))
        assert found.find(KEY, version).entry == found.previous(KEY).entry == A


def test_text_of_a_canary_is_found_and_is_no_change_of_the_prompt() -> None:
    canary = change("c", B, action=CANARY)
    found = history((change("1", A), 1), (canary, 2), (change("2", C), 3), say=(C, 3))

    assert [each.action for each in found.of_entry(KEY)] == [PUSH, CANARY, PUSH]
    assert found.find(KEY, str(canary.version)[:10]).entry == B
    assert found.previous(KEY).entry == A
    assert found.unpublished == []
    assert found.on_topic[KEY] is found.changes[-1]

    standing = history((change("1", A), 1), (canary, 2), say=(A, 1))
    assert (standing.unpublished, standing.text(KEY).entry) == ([], A)
    with pytest.raises(ConfigError, match="no version before the present one"):
        standing.previous(KEY)


def test_promoted_canary_is_a_change_whose_previous_version_is_the_old_one() -> None:
    found = history((change("1", A), 1), (change("c", B, action=CANARY), 2), (change("2", B), 3), say=(B, 3))
    assert (found.on_topic[KEY].push, found.previous(KEY).entry) == ("2", A)


def test_canary_published_without_a_record_is_found() -> None:
    found = history((change("1", A), 1), (change("c", B, action=CANARY), 2), say=(B, 3))
    assert [each.action for each in found.changes] == [PUSH, CANARY, FOUND]


def test_version_of_a_canary_under_another_system_message_leads_to_its_text() -> None:
    found = history((change("1", A), 1), (change("c", B, action=CANARY), 2), say=(A, 1), system=(BRIEF, 3))
    later = version_of(KEY, B, BRIEF)
    assert later is not None
    assert found.find(KEY, later).entry == B
