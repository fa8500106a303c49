"""What `config apply` publishes, given what is there, what it applied last and what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest

from trustgraph_prompt.worker.config import apply_plan
from trustgraph_prompt.worker.config.apply_plan import ABSENT, Proposal, Record, plan

A, B, C = '"a"', '"b"', '"c"'
DELETED = "another client deleted it since it was last applied"
CHANGED = "another client changed it since it was last applied"
FOREIGN = "another client published it"
OWNED = "it belongs to owner theirs"

Applied = tuple[str, ...] | None
"""What the record of an owner says of an entry: the data whose states it has."""


def states(*data: str) -> tuple[str, ...]:
    return tuple(map(apply_plan.state, data))


def plan_of(
    present: str,
    applied: Applied,
    wanted: str,
    theirs: Applied = None,
    *,
    force: bool = False,
) -> Proposal:
    """The plan for one entry, `k`; '' is no entry."""
    records: dict[str, Record] = {}
    if applied is not None:
        records["ours"] = {"k": states(*applied)}
    if theirs is not None:
        records["theirs"] = {"k": states(*theirs)}
    there = {"k": present.encode()} if present else {}
    return plan("ours", {"k": wanted} if wanted else {}, there, records, force=force)


NOT = "not changed"

#: present, applied last, wanted: what is published ("" deletes), why it is left, what is applied afterwards
TABLE: dict[str, tuple[tuple[str, Applied, str], str, str, Applied]] = {
    "new": (("", None, A), A, "", (A,)),
    "as applied and as wanted": ((A, (A,), A), NOT, "", (A,)),
    "wanted otherwise": ((A, (A,), B), B, "", (B,)),
    "no longer wanted": ((A, (A,), ""), "", "", None),
    "no longer wanted and gone": (("", (A,), ""), NOT, "", None),
    "changed by somebody": ((C, (A,), B), NOT, CHANGED, (A,)),
    "changed by somebody, and we want what we had": ((C, (A,), A), NOT, CHANGED, (A,)),
    "changed by somebody to what we want": ((B, (A,), B), NOT, "", (B,)),
    "changed by somebody, and no longer wanted": ((C, (A,), ""), NOT, CHANGED, (A,)),
    "deleted by somebody": (("", (A,), A), NOT, DELETED, (A,)),
    "deleted by somebody, and we want something new": (("", (A,), B), NOT, DELETED, (A,)),
    "published by somebody": ((C, None, A), NOT, FOREIGN, None),
    "published by somebody as we want it": ((A, None, A), NOT, "", (A,)),
    "killed before the new entry": (("", ("", A), A), A, "", (A,)),
    "killed before the new entry, which is now another": (("", ("", A), B), B, "", (B,)),
    "killed after the new entry": ((A, ("", A), A), NOT, "", (A,)),
    "killed after the new entry, which is now another": ((A, ("", A), B), B, "", (B,)),
    "killed before the change": ((A, (A, B), B), B, "", (B,)),
    "killed after the change": ((B, (A, B), B), NOT, "", (B,)),
    "killed after the change, which is taken back": ((B, (A, B), A), A, "", (A,)),
    "killed after the change, and no longer wanted": ((B, (A, B), ""), "", "", None),
    "killed before the deletion": ((A, (A, ""), ""), "", "", None),
    "killed after the deletion": (("", (A, ""), ""), NOT, "", None),
    "killed after the deletion, and wanted again": (("", (A, ""), B), B, "", (B,)),
    "killed, then changed by somebody": ((C, (A, B), B), NOT, CHANGED, (A, B)),
}


def applied_after(plan: Proposal, before: Applied) -> Applied:
    if plan.after is None:
        return None if before is None else states(*before)
    return tuple(plan.after["k"]) if "k" in plan.after else None


@pytest.mark.parametrize(("given", "published", "left", "applied"), TABLE.values(), ids=TABLE)
def test_each_state_of_an_entry_has_its_action(
    given: tuple[str, Applied, str],
    published: str,
    left: str,
    applied: Applied,
) -> None:
    planned = plan_of(*given)
    assert planned.changes == ({} if published is NOT else {"k": published})
    assert planned.left == ({"k": left} if left else {})
    assert applied_after(planned, given[1]) == (None if applied is None else states(*applied))


@pytest.mark.parametrize("given", [given for given, *_ in TABLE.values()], ids=list(TABLE))
def test_forced_apply_leaves_no_entry_alone(given: tuple[str, Applied, str]) -> None:
    present, applied, wanted = given
    planned = plan_of(*given, force=True)
    assert planned.left == {}
    assert planned.changes == ({"k": wanted} if present != wanted else {})
    assert applied_after(planned, applied) == (states(wanted) if wanted else None)


#: the same, and after what is wanted: what they applied last
TWO_OWNERS: dict[str, tuple[tuple[str, Applied, str, tuple[str, ...]], str, str, Applied]] = {
    "theirs, wanted otherwise": ((A, None, B, (A,)), NOT, OWNED, None),
    "theirs, wanted alike": ((A, None, A, (A,)), NOT, OWNED, None),
    "they are about to publish it": (("", None, A, ("", C)), NOT, OWNED, None),
    "they have it no more": (("", None, A, (C,)), A, "", (A,)),
    "they took it over": ((C, (A,), A, (C,)), NOT, OWNED, (A,)),
    "they took it over, and we no longer want it": ((C, (A,), "", (C,)), NOT, "", None),
    "both have it: who changes it first has it": ((A, (A,), B, (A,)), B, "", (B,)),
    "both have it, and we no longer want it": ((A, (A,), "", (A,)), NOT, "", None),
    "we took it over": ((B, (B,), C, (A,)), C, "", (C,)),
}


@pytest.mark.parametrize(("given", "published", "left", "applied"), TWO_OWNERS.values(), ids=TWO_OWNERS)
def test_entry_with_two_owners_has_its_action(
    given: tuple[str, Applied, str, tuple[str, ...]],
    published: str,
    left: str,
    applied: Applied,
) -> None:
    planned = plan_of(*given)
    assert planned.changes == ({} if published is NOT else {"k": published})
    assert planned.left == ({"k": left} if left else {})
    assert applied_after(planned, given[1]) == (None if applied is None else states(*applied))

    present, ours, wanted, _ = given
    forced = plan_of(*given, force=True)
    assert forced.left == {}
    assert forced.changes == ({"k": wanted} if wanted and wanted != present else {})
    assert applied_after(forced, ours) == (states(wanted) if wanted else None)


def stopped_after(steps: int, planned: Proposal, record: Record) -> tuple[dict[str, bytes], Record]:
    """The topic and the record when the first `steps` messages of a plan are published."""
    there = dict(planned.present)
    messages = [planned.before, *planned.changes.items(), planned.after]
    for message in [message for message in messages if message is not None][:steps]:
        if isinstance(message, Mapping):
            record = apply_plan.decode(apply_plan.encode(message)) if message else {}
        else:
            there[message[0]] = message[1].encode()
    return {key: data for key, data in there.items() if data}, record


def test_next_apply_finishes_wherever_the_last_one_was_killed() -> None:
    before = {"stays": A, "changes": A, "goes": A}
    wanted = {"stays": A, "changes": B, "comes": A}
    record = {key: states(data) for key, data in before.items()}
    there = {key: data.encode() for key, data in before.items()}
    first = plan("ours", wanted, there, {"ours": record})
    later = [wanted, before, {}, dict.fromkeys(("stays", "changes", "goes", "comes"), C)]

    for steps, second_steps, second, third in product(range(6), range(7), later, later):
        present, left = stopped_after(steps, first, record)
        next_plan = plan("ours", second, present, {"ours": left})
        assert next_plan.left == {}
        present, left = stopped_after(second_steps, next_plan, left)
        last = plan("ours", third, present, {"ours": left})
        assert last.left == {}
        present, left = stopped_after(99, last, left)
        assert present == {key: data.encode() for key, data in third.items()}
        assert left == {key: states(data) for key, data in third.items()}


def test_killed_forced_apply_owns_only_what_it_overwrote() -> None:
    forced = plan_of(C, (A,), B, force=True)
    present, record = stopped_after(1, forced, {"k": states(A)})
    assert present == {"k": C.encode()}
    assert plan("ours", {"k": B}, present, {"ours": record}).left == {"k": CHANGED}


def test_apply_that_changes_nothing_publishes_nothing() -> None:
    planned = plan_of(A, (A,), A)
    assert (planned.before, planned.changes, planned.after) == (None, {}, None)
    assert plan("ours", {}, {}, {}).after is None


def test_owner_without_entries_has_no_record() -> None:
    assert plan_of(A, (A,), "").after == {}
    assert apply_plan.encode({}) == b""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": "\\u00e9"}', '{ "b":"é",\n"a":1}', True),
        ('{"a": {"x": 1, "y": 2}}', '{"a": {"y": 2, "x": 1}}', False),
        ('{"a": 1}', '{"a": 2}', False),
        ("no json", "no  json", False),
        ('"\\ud800"', '"\\ud801"', False),
        ("[" * 5000, "[" * 5001, False),
    ],
)
def test_recorded_state_is_that_of_the_parsed_json(one: str, other: str, same: bool) -> None:
    assert (apply_plan.state(one) == apply_plan.state(other.encode())) is same
    assert apply_plan.state(one) == apply_plan.state(one.encode()) != ABSENT


@pytest.mark.parametrize(
    "data",
    [
        b"no json",
        b"\xff",
        b"[" * 5000,
        b"[]",
        b"null",
        b"{}",
        b'{"entries": 1}',
        b'{"entries": {"system": "a"}}',
        b'{"entries": {"system": [1]}}',
    ],
)
def test_malformed_record_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        apply_plan.decode(data)


def test_pool_that_is_no_longer_wanted_is_left_and_forgotten() -> None:
    key = f"pool.{'0' * 64}"
    found = plan("ours", {}, {key: A.encode()}, {"ours": {key: states(A)}})
    assert (found.changes, found.left, found.after) == ({}, {}, {})
