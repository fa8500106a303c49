"""Which names are one by rule, which are left open, and which have nothing to do with each other."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from tests.support.guides import guide_page
from tests.support.name_pairs import hand_judged, name_pairs, said_of, thing
from trustgraph_prompt.graph_store.name_forms import name_form
from trustgraph_prompt.graph_store.name_rules import NameVerdict, Same, Undecided, compare
from trustgraph_prompt.graph_store.same_names import NEIGHBOURS, Pair, resolve_names, things_named
from trustgraph_prompt.graph_store.view import Thing

GUIDE = guide_page("one-name.md")


def compare_names(one: str, other: str, *, is_one_type: bool = False) -> NameVerdict | None:
    form, other_form = name_form(one), name_form(other)
    return compare(form, other_form, is_one_type=is_one_type) if form and other_form else None


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("Ada Lovelace", "ada  lovelace", Same.WRITTEN),
        ("Ada Lovelace", "Lovelace, Ada", Same.WRITTEN),
        ("J.R.R. Tolkien", "J. R. R. Tolkien", Same.WRITTEN),
        ("JRR Tolkien", "J. R. R. Tolkien", Undecided.SHORT),
        ("Ed Smith", "E. D. Smith", Undecided.SHORT),
        ("Jean-Paul Sartre", "Jean Paul Sartre", Same.WRITTEN),
        ("Procter & Gamble", "Procter and Gamble", Same.WRITTEN),
        ("World War II", "World War 2", Same.WRITTEN),
        ("World Health Organization (WHO)", "World Health Organization", Same.WRITTEN),
        ("3,403 miles", "3403 miles", Same.WRITTEN),
        ("Ｗorld_Bank", "World Bank", Same.WRITTEN),
        ("משה כהן", "\u202bמשה  כהן\u202c", Same.WRITTEN),
        ("東京大学", "東京 大学", Same.WRITTEN),
        ("René Descartes", "Rene Descartes", Same.ACCENTS),
        ("Kurt Gödel", "Kurt Goedel", Same.ACCENTS),
        ("Dr. John Watson", "John Watson", Same.BESIDE),
        ("the Crimea", "Crimea", Same.BESIDE),
        ("The Royal Society", "Royal Society", Same.BESIDE),
        ("chalk cliff", "chalk cliffs", Same.PLURAL),
        ("sea-water pump", "seawater pump", Same.DIVIDED),
        ("Royal Observatory of Edinburgh", "Royal Observattory of Edinburgh", Undecided.ALIKE),
        ("turkey", "Turkey", Undecided.WRITTEN),
        ("WHO", "who", Undecided.WRITTEN),
        ("rosé", "rose", Undecided.WRITTEN),
        ("Anna Kovač", "Anna Kováč", Undecided.WRITTEN),
        ("Sammy Davis", "Sammy Davis Jr.", Undecided.BESIDE),
        ("Mrs. John Watson", "John Watson", Undecided.BESIDE),
        ("Dr. Darcy", "Darcy", Undecided.BESIDE),
        ("Apple Inc.", "Apple", Undecided.BESIDE),
        ("Siemens AG", "Siemens Ltd.", Undecided.BESIDE),
        ("The Sun", "Sun", Undecided.BESIDE),
        ("The Mountain Goats", "mountain goats", Undecided.BESIDE),
        ("10 mW", "10 MW", Undecided.WRITTEN),
        ("glass", "glasses", Undecided.ALIKE),
        ("bases", "base", Undecided.ALIKE),
        ("Anna Maria Zimmerman", "Anna Maria Zimmermann", Undecided.ALIKE),
        ("sodium chloride", "sodium chlorate", None),
        ("J. Kennedy", "John F. Kennedy", Undecided.SHORT),
        ("greenhouse", "green house", Undecided.ALIKE),
        ("re-sign a contract", "resign a contract", Undecided.ALIKE),
        ("James Henry", "Henry James", Undecided.ALIKE),
        ("George, Washington", "George Washington", Undecided.ALIKE),
        ("A. Lovelace", "Ada Lovelace", Undecided.SHORT),
        ("John F. Kennedy", "John Kennedy", Undecided.SHORT),
        ("Holmes", "Sherlock Holmes", Undecided.SHORT),
        ("Mr. Holmes", "Sherlock Holmes", Undecided.SHORT),
        ("Needle", "Needles", Undecided.ALIKE),
        ("arms", "arm", Undecided.ALIKE),
        ("absorption", "adsorption", Undecided.ALIKE),
        ("Ada Lovelace", "Ada Lovelаce", Undecided.ALIKE),  # a Cyrillic а
        ("Henry IV", "Henry V", None),
        ("Malcolm X", "Malcolm 10", None),
        ("Jinping Xi", "Jinping 11", None),
        ("10² m", "102 m", None),
        ("Inc., Apple", "Apple, Inc.", Undecided.SHORT),
        ("iPhone 12", "iPhone 13", None),
        ("Paris", "Paris, Texas", Undecided.SHORT),
        ("Census of 1851", "Census of 1861", None),
        ("Python 3.1", "Python 3.10", None),
        ("Section 2.1", "Section 21", None),
        ("Agent 7", "Agent 007", None),
        ("C", "C++", None),
        ("-5 °C", "5 °C", None),
        ("1/2 Hill Lane", "1-2 Hill Lane", None),
        ("£5 note", "$5 note", None),
        ("Ada 🙂", "Ada", None),
        ("John A. Smith", "John B. Smith", None),
        ("George W. Bush", "George H. W. Bush", None),
        ("John Smith Jr.", "John Smith Sr.", None),
        ("Mr. Darcy", "Mrs. Darcy", None),
        ("Wendy's", "Wendy", Undecided.ALIKE),
        ("王明", "王小明", None),
        ("Ada Lovelace", "Charles Babbage", None),
        ("", "Ada", None),
        ("…", "!!!", None),
        ("🙂", "🙂", None),
        ("\ud800", "\ud800", None),
    ],
)  # fmt: skip
def test_two_names_are_same_open_or_different(one: str, other: str, reason: Same | Undecided | None) -> None:
    for a, b in permutations((one, other)):
        verdict = compare_names(a, b)
        assert (verdict and verdict.reason) == reason


def test_legal_form_may_be_left_out_where_both_are_of_one_type() -> None:
    assert compare_names("Siemens AG", "Siemens", is_one_type=True) == (Same.BESIDE, 1.0)
    verdict = compare_names("Siemens AG", "Siemens Ltd.", is_one_type=True)
    assert verdict is not None
    assert verdict.reason is Undecided.BESIDE


@pytest.mark.parametrize("held_out", [False, True])
def test_merges_of_made_up_names_are_right_in_99_percent(held_out: bool) -> None:
    pairs = name_pairs(11, 700, held_out=held_out)
    merged = [pair for pair in pairs if said_of(pair) == "same"]
    assert sum(pair.same for pair in merged) >= 0.99 * len(merged)
    assert len(merged) > len(pairs) / 4


def test_no_two_things_of_a_real_text_are_merged() -> None:
    groups = hand_judged()
    found = resolve_names([thing(name, iri=name) for name in groups])
    assert [pair for pair in found.same if groups[pair.one] != groups[pair.other]] == []
    assert len(found.same) > 30


def things(*names: str | tuple[str, str]) -> list[Thing]:
    return [thing(each, iri=each) if isinstance(each, str) else thing(*each, iri=each[0]) for each in names]


def said(pairs: list[Pair]) -> dict[tuple[str, str], Same | Undecided]:
    return {(pair.one, pair.other): pair.verdict.reason for pair in pairs}


def test_things_of_two_types_are_two_and_an_unknown_type_is_any() -> None:
    found = resolve_names(things(("Jane Lincoln", "person"), ("Jane  Lincoln", "Place")))
    assert (found.same, found.open) == ([], [])
    found = resolve_names(things(("Jane Lincoln", "Person"), ("Jane  Lincoln", "person"), "jane lincoln"))
    assert len(found.same) == 2


def test_chain_whose_ends_differ_stays_open() -> None:
    found = resolve_names(things(("Jane Lincoln", "person"), "jane lincoln", ("JANE LINCOLN", "ship")))
    assert found.same == []
    assert set(said(found.open).values()) == {Undecided.CHAIN}
    found = resolve_names(things("bases", "basis", "base"))
    assert found.same == []


def test_thing_with_two_names_is_merged_only_if_both_are_the_same() -> None:
    two = Thing("urn:twain", "Mark Twain", ("urn:twain",), ("Mark Twain", "Samuel Clemens"))
    found = resolve_names([two, *things("Clemens, Samuel")])
    assert said(found.open) == {("Clemens, Samuel", "urn:twain"): Undecided.CHAIN}
    chalk = Thing("urn:chalk", "chalk", ("urn:chalk",), ("chalk", "Chalk"))
    assert len(resolve_names([chalk, *things("the chalk")]).same) == 1


def test_pair_kept_apart_by_a_person_is_neither_merged_nor_open() -> None:
    three = things("Ada Lovelace", "Lovelace, Ada", "Ada  Lovelace")
    found = resolve_names(three, apart={frozenset(("Ada Lovelace", "Lovelace, Ada"))})
    assert found.same == []
    assert said(found.open) == {
        ("Ada  Lovelace", "Ada Lovelace"): Undecided.CHAIN,
        ("Ada  Lovelace", "Lovelace, Ada"): Undecided.CHAIN,
    }
    assert resolve_names(three[:2], apart={frozenset(("Ada Lovelace", "Lovelace, Ada"))}).open == []


def test_acronym_may_be_short_for_a_name() -> None:
    both = things("WHO", "World Health Organization")
    assert said(resolve_names(both).open) == {("WHO", "World Health Organization"): Undecided.SHORT}
    assert resolve_names(things("WHO", "World Hunger Association")).open == []
    assert resolve_names(things("who", "World Health Organization")).open == []


def test_part_of_too_many_names_is_not_compared() -> None:
    found = resolve_names(things("Smith", *(f"{chr(65 + n)}nna Smith" for n in range(NEIGHBOURS + 1))))
    assert not any("Smith" in pair[:2] for pair in found.open)


def test_number_of_comparisons_is_linear_in_the_names() -> None:
    def compared(count: int) -> int:
        return resolve_names(things(*(f"Ada {n} Lovelace" for n in range(count)))).compared

    assert compared(2_000) <= 2_000 * 2 * NEIGHBOURS
    assert compared(4_000) <= 2.1 * compared(2_000)


def test_hostile_names_are_compared_with_little_work() -> None:
    letters = random.Random(1).choices("ab ", k=1_000_000)
    long = "".join(letters)
    found = resolve_names(
        things(long, long.upper(), long[:-1] + "c", "(" * 190, "A" * 199, "1" * 199, "?", "")
    )
    assert said(found.same) == {(long.upper(), long): Same.WRITTEN}


def test_guide_lists_every_reason() -> None:
    guide = GUIDE.read_text("utf-8")
    assert [each.value for each in (*Same, *Undecided) if f"| {each.value} |" not in guide] == []


def test_text_names_the_only_thing_that_the_rules_find() -> None:
    def one(iri: str, *names: str) -> Thing:
        return Thing(iri, names[0], (iri,), names)

    things = [
        one("http://trustgraph.ai/e/chalk", "Chalk"),
        one("urn:merle", "Merle Cooperative", "Merle Coop"),
        one("urn:planet", "Mercury Star"),
        one("urn:ship", "Mercury Star"),
        one("_:b1", "Norwich"),
    ]
    texts = [
        "chalk",
        "CHALK",
        "The Merle Cooperative",
        "merle coop",
        "Mercury Star",
        "Norwich",
        "chalky",
        "",
        "a" * 300,
    ]
    assert things_named(texts, things) == {
        "chalk": "http://trustgraph.ai/e/chalk",
        "CHALK": "http://trustgraph.ai/e/chalk",
        "The Merle Cooperative": "urn:merle",
        "merle coop": "urn:merle",
        "Norwich": "_:b1",
    }
