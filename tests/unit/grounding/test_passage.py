"""Whether a value stands in a text, how, and where."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.grounding_corpus import (
    LEAST_NAMES_FOUND,
    MOST_NAMES_WRONG,
    PRECISION,
    RECALL,
    Case,
    Tally,
    cases,
    tallies,
)
from tests.support.hostile_passages import HOSTILE
from tests.support.steps import is_linear
from trustgraph_prompt.grounding import MAX_SPANS, Match, MatchKind, Passage


def found(text: str, value: str) -> tuple[MatchKind, list[str]] | None:
    """The kind of the match, and what stands at its spans."""
    match = Passage(text).find(value)
    return match and (match.kind, [text[start:end] for start, end in match.spans])


@pytest.mark.parametrize(
    ("text", "value", "kind", "stands"),
    [
        ("We met Marie Curie there.", "Marie Curie", MatchKind.EXACT, "Marie Curie"),
        ("We met MARIE\n CURIE there.", "Marie Curie", MatchKind.FOLDED, "MARIE\n CURIE"),
        ("There are companies.", "company", MatchKind.INFLECTED, "companies"),
        ("The University of Tokyo is old.", "Tokyo University", MatchKind.REORDERED, "University of Tokyo"),
        ("On colonisation.", "colonization", MatchKind.FUZZY, "colonisation"),
        ("We met Curie there.", "Marie Curie", MatchKind.PART, "Curie"),
        ("The WHO says so.", "World Health Organization", MatchKind.PART, "WHO"),
        ("The World Health Organization says so.", "WHO", MatchKind.PART, "World Health Organization"),
    ],
)
def test_value_of_each_kind_of_match_is_found_at_its_place(
    text: str, value: str, kind: MatchKind, stands: str
) -> None:
    assert found(text, value) == (kind, [stands])


@pytest.mark.parametrize(
    ("text", "value", "stands"),
    [
        ("The Infor-\n  mation Age.", "information age", "Infor-\n  mation Age"),
        ("𝄞 — the eﬃciency!", "efficiency", "eﬃciency"),
        (unicodedata.normalize("NFD", "Überall in Zürich: Ärger."), "Zürich", "Zu\u0308rich"),
        ("😀😀 Straße", "STRASSE", "Straße"),
        ("人们在北\n京 大学见面。", "北京大学", "北\n京 大学"),
        ("昔、ｶﾒﾗを買った。", "カメラ", "ｶﾒﾗ"),
        ("كان مُحَمَّد هنا", "محمد", "مُحَمَّد"),
        ("It has CO₂ in it.", "CO2", "CO₂"),
        ("At 3\u202f403 m.", "3403", "3\u202f403"),
    ],
)
def test_spans_are_code_points_of_the_text_as_given(text: str, value: str, stands: str) -> None:
    assert found(text, value) == (MatchKind.FOLDED, [stands])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("They concatenate.", "cat"),
        ("It costs 3,403.", "403"),
        ("It costs 1,250,000.", "1,250"),
        ("Pi is 3.14.", "14"),
        ("Nobody could under-\nstand it.", "stand"),
        ("Nobody could under-\n    stand it.", "stand"),
        ("Nobody could under-\nstand it.", "under"),
        ("A micro\u00adscope.", "scope"),
        ("Zu\u0308rich", "Zu"),
        ("Only the rapist.", "therapist"),
    ],
)
def test_part_of_a_word_or_of_a_number_is_not_found(text: str, value: str) -> None:
    assert Passage(text).find(value) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("เกิดที่ลำปาง", "ลำปาง"),
        ("ຢູ່ວຽງຈັນ", "ວຽງຈັນ"),
        ("သည်မန္တလေး", "မန္တလေး"),
        ("នៅខេត្ត្កំពត", "កំពត"),
        ("か\u3099東京", "東京"),
        ("ที่Bangkok", "Bangkok"),
        ("ปี๒๕๖๐", "๒๕๖๐"),
    ],
)
def test_name_after_a_mark_is_found_in_a_script_without_spaces(text: str, value: str) -> None:
    assert found(text, value) == (MatchKind.EXACT, [value])


@pytest.mark.parametrize(
    ("text", "value", "stands"),
    [
        ("เกิดที่BANGKOK", "Bangkok", "BANGKOK"),
        ("か\u3099トヨタ", "ﾄﾖﾀ", "トヨタ"),
        ("ปี๒๕๖๐", "2560", "๒๕๖๐"),
        ("葛\U000e0100城", "葛城", "葛\U000e0100城"),
        ("\u2f47本の", "日本", "\u2f47本"),
    ],
)
def test_name_in_a_script_without_spaces_is_found_in_other_letters(
    text: str, value: str, stands: str
) -> None:
    assert found(text, value) == (MatchKind.FOLDED, [stands])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Mu\u0308ller", "ller"),
        ("Mu\u0308ller", "LLER"),
        ("हिन्दी", "दी"),
        ("किताब", "ताब"),
        ("भारती", "भारत"),
        ("हिन्दीभाषा", "हिन्दी"),
        ("ที่", "ที"),
        ("கோயம்புத்தூர்", "கோ"),
        ("Auf\u200cla\u0308ge", "la\u0308ge"),
    ],
)
def test_letters_between_marks_of_a_word_are_not_found(text: str, value: str) -> None:
    assert Passage(text).find(value) is None


NUMBERS = [
    ("It is 1.500 kg.", "1.5", "1.500"),
    ("It is 1.500 kg.", "1500", "1.500"),
    ("It is 1,500 kg.", "1.5", "1,500"),
    ("It is 1500 kg.", "1.500", "1500"),
    ("It is 1,5 kg.", "1.500", "1,5"),
    ("It is 0.050 kg.", "0.05", "0.050"),
    ("It is 2.000 kg.", "2.0", "2.000"),
    ("It is .5 mm.", "0.5", ".5"),
    ("It is -.5 mm.", "-0.5", "-.5"),
    ("1e6 cells", "1000000.0", "1e6"),
    ("1.5E\u22123 m", "0.0015", "1.5E\u22123"),
    ("½ cup", "0.5", "½"),
    ("1½ cups", "1.5", "1½"),
    ("2 ¾ cups", "2.75", "2 ¾"),
    ("It is 1\u2153 cups", "1 \u2153", "1\u2153"),
    ("It is ٠٫٥ m.", "0.5", "٠٫٥"),
    ("at \u221240 degrees", "-40", "\u221240"),
    ("at \u201340 degrees", "-40", "\u201340"),
    ("at minus 40 degrees", "-40", "minus 40"),
    ("(Minus\u00a040 °C)", "-40", "Minus\u00a040"),
    ("при минус 40", "-40", "минус 40"),
    ("it costs -$40", "-40", "-$40"),
    ("plus or minus 40", "40", "40"),
    ("10 minus 4", "4", "4"),
    ("10 -20 kg", "20", "-20"),
    ("10⁻⁶ m", "10^-6", "10⁻⁶"),
    ("10-6 m", "10⁻⁶", "10-6"),
    ("-0.0", "0", "-0.0"),
    ("pages 3-5", "5", "5"),
    ("the Boeing 747-400", "400", "400"),
]


@pytest.mark.parametrize(("text", "value", "stands"), NUMBERS)
def test_number_is_found_in_each_notation_and_reading(text: str, value: str, stands: str) -> None:
    match = found(text, value)
    assert match is not None
    assert match[0] in (MatchKind.EXACT, MatchKind.FOLDED)
    assert match[1] == [stands]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("It is 0.050 kg.", "50"),
        ("It is .5 mm.", "5"),
        ("1e6 cells", "1"),
        ("1e6 cells", "6"),
        ("1½ cups", "1"),
        ("1½ cups", "0.5"),
        ("40 degrees", "-40"),
        ("at -40 degrees", "40"),
        ("at \u201340 degrees", "40"),
        ("at minus 40 degrees", "40"),
        ("it costs -$40", "$40"),
        ("pages 3-5", "-5"),
        ("pages 3\u20135", "-5"),
        ("10⁶ m, pages 3-6", "1⁻⁶"),
        ("It is 1.250.000 kg.", "1.25"),
        ("It is 1'250 kg.", "1.25"),
    ],
)
def test_number_is_not_found_where_the_text_has_another(text: str, value: str) -> None:
    assert Passage(text).find(value) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("40 degrees below zero", "-40"),
        ("a loss of $3.2 million", "-3.2"),
        ("40 Grad unter Null", "-40"),
        ("in 44 BC", "-44"),
    ],
)
def test_number_whose_sign_is_said_in_words_is_found_in_part(text: str, value: str) -> None:
    match = Passage(text).find(value)
    assert match is not None
    assert match.kind is MatchKind.PART


@pytest.mark.parametrize(
    ("text", "value", "stands"),
    [
        ("این کتاب است", "كتاب", "کتاب"),
        ("به علی گفت", "علي", "علی"),
        ("خانه\u200cهای ما", "خانه", "خانه"),
        ("کتاب\u200cها", "كتاب", "کتاب"),
        ("کتاب\u200cها", "کتابها", "کتاب\u200cها"),
        ("یہ شہر ہے", "شهر", "شہر"),
        ("بھارت میں", "بهارت", "بھارت"),
        ("در خانۀ ما", "خانه", "خانۀ"),
        ("در خانه\u0654 ما", "خانۀ", "خانه\u0654"),
        ("ھەولێر", "هه\u200cولێر", "ھەولێر"),
        ("ګل", "گل", "ګل"),
        ("ٱلله", "الله", "ٱلله"),
        ("װאַרשע", "ווארשע", "װאַרשע"),
        ("\u0958लम", "क\u093cलम", "\u0958लम"),
        ("\u0958लम", "कलम", "\u0958लम"),
        ("അവന്\u200d", "അവൻ", "അവന്\u200d"),
        ("উৎসব", "উত্\u200dসব", "উৎসব"),
        ("เเม่", "แม่", "เเม่"),
        ("ㅎㅏㄴㄱㅜㄱ", "한국", "ㅎㅏㄴㄱㅜㄱ"),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
        ("Камʼянець", "Кам'янець", "Камʼянець"),
        ("paraŀlel", "paral·lel", "paraŀlel"),
    ],
)
def test_letter_in_another_encoding_is_the_same_letter(text: str, value: str, stands: str) -> None:
    match = found(text, value)
    assert match is not None
    assert match[0] in (MatchKind.EXACT, MatchKind.FOLDED)
    assert match[1] == [stands]


def test_letter_of_another_alphabet_that_looks_alike_is_another_letter() -> None:
    assert Passage("М\u006fсква").find("Москва") is None
    assert Passage("\u0421hina").find("China") is None


def test_verb_after_its_prefix_and_a_non_joiner_is_not_a_name() -> None:
    assert Passage("او می\u200cروم").find("روم") is None


@pytest.mark.parametrize(
    ("text", "value", "stands"),
    [
        ("w Warszawie", "Warszawa", "Warszawie"),
        ("Helsingissä", "Helsinki", "Helsingissä"),
        ("בירושלים", "ירושלים", "בירושלים"),
        ("у Львові", "Львів", "Львові"),
        ("v Praze", "Praha", "Praze"),
        ("V Košiciach je zima.", "Košice", "Košiciach"),
        ("u Splitu i Zagrebu", "Split", "Splitu"),
        ("Vilniuje yra", "Vilnius", "Vilniuje"),
        ("Viņš ir Rīgā.", "Rīga", "Rīgā"),
        ("Ta elas Tallinnas.", "Tallinn", "Tallinnas"),
        ("Budapesten van egy.", "Budapest", "Budapesten"),
        ("Ankarada bir", "Ankara", "Ankarada"),
        ("malul Dunării", "Dunărea", "Dunării"),
        ("της Αθήνας", "Αθήνα", "Αθήνας"),
        ("на Дунава", "Дунав", "Дунава"),
        ("თბილისში", "თბილისი", "თბილისში"),
        ("Երևանում", "Երևան", "Երևանում"),
        ("Das Ufer des Schwarzen Meeres", "Schwarzes Meer", "Schwarzen Meeres"),
        ("na Uniwersytecie Jagiellońskim", "Uniwersytet Jagielloński", "Uniwersytecie Jagiellońskim"),
    ],
)
def test_name_is_found_in_another_case(text: str, value: str, stands: str) -> None:
    match = found(text, value)
    assert match is not None
    assert match[0] in (MatchKind.INFLECTED, MatchKind.FOLDED)
    assert match[1] == [stands]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Paula came to the market.", "Paul"),
        ("Paula came to the market.", "Mark"),
        ("The coast of Nigeria, the hills of Georgia.", "Niger"),
        ("The coast of Nigeria, the hills of Georgia.", "Georg"),
        ("Spotkał się z Bernardem w Nigerii.", "Bern"),
        ("Spotkał się z Bernardem w Nigerii.", "Niger"),
        ("Niet ver van de market, met Paula.", "Mark"),
        ("Paula", "Paul"),
        ("market", "Mark"),
        ("Nigeria", "Niger"),
        ("לשרון", "רון"),
        ("Name: Danielle Steel", "Daniel"),
        ("Name: Georgien\nkm: 5", "Georg"),
        ("Ludwig van Marken", "Mark"),
        ("Petrov byl v Praze a v Ostravě.", "Petr"),
        ("Anna Kowalska była w Warszawie", "Kowalski"),
        ("Αλεξάνδρα", "Αλέξανδρος"),
    ],
)
def test_name_that_only_begins_alike_is_not_found(text: str, value: str) -> None:
    assert Passage(text).find(value) is None


def test_names_of_each_language_with_cases_are_found_and_no_others() -> None:
    for language, tally in tallies("inflected_names").items():
        assert tally.recall >= LEAST_NAMES_FOUND, language
        assert tally.wrong_share <= MOST_NAMES_WRONG, language


def test_number_before_its_unit_and_name_behind_a_hyphen_are_found() -> None:
    assert found("It is 3403m high.", "3403") == (MatchKind.EXACT, ["3403"])
    assert found("It fell to -5km.", "-5") == (MatchKind.EXACT, ["-5"])
    assert found("A loss: –$3m.", "-3") == (MatchKind.FOLDED, ["–$3"])
    assert found("It is .5mm.", "0.5") == (MatchKind.FOLDED, [".5"])
    assert found("The Austro-\nHungarian army.", "Hungarian") == (MatchKind.EXACT, ["Hungarian"])
    assert found("Mount Etna's ash.", "Etna") == (MatchKind.EXACT, ["Etna"])


def test_date_is_found_in_each_form_at_its_place() -> None:
    text = "Born on 3 May 2021, baptised on May 3rd, 2022, died 03/05/2023; not 13 May 2021."
    assert found(text, "2021-05-03") == (MatchKind.FOLDED, ["3 May 2021"])
    assert found(text, "2022-05-03") == (MatchKind.FOLDED, ["May 3rd, 2022"])
    assert found(text, "2023-05-03") == found(text, "2023-03-05") == (MatchKind.FOLDED, ["03/05/2023"])
    assert found(text, "2021-05") == (MatchKind.FOLDED, ["3 May 2021", "13 May 2021"])


def test_date_with_a_short_year_is_found_in_part() -> None:
    assert found("Signed on 3/5/21.", "2021-05-03") == (MatchKind.PART, ["3/5/21"])
    assert found("Signed on 3/5/21.", "2022-05-03") is None


def test_wrong_date_is_found_by_its_year_at_most() -> None:
    assert found("Signed on 3 May 2021.", "2021-06-03") == (MatchKind.PART, ["2021"])
    assert found("Signed on 31.02.2021.", "2021-02-31") is None
    assert found("It ended in 2021. May 3 was hot.", "2021-05-03") == (MatchKind.PART, ["2021"])
    assert found("# Part 3\n\nMay 2021 was hot.", "2021-05-03") == (MatchKind.PART, ["2021"])


def test_value_without_words_is_found_only_literally() -> None:
    assert found("What?! No.", "?!") == (MatchKind.EXACT, ["?!"])
    assert Passage("What? No.").find("?!") is None
    assert Passage("What? No.").find(" \n") is None
    assert Passage("").find("What") is None


def test_capital_letter_behind_a_name_is_no_article() -> None:
    assert found("World War II ended.", "World War I") == (MatchKind.PART, ["World", "War"])
    assert found("Much vitamin C.", "vitamin A") == (MatchKind.PART, ["vitamin"])


def test_match_does_not_depend_on_earlier_look_ups() -> None:
    asked = [case.value for case in cases()[::7]]
    text = "\n".join(case.text for case in cases()[::40])
    alone = {value: Passage(text).find(value) for value in asked}
    together = Passage(text)
    random.Random(1).shuffle(asked)
    assert {value: together.find(value) for value in asked} == alone
    assert {value: together.find(value) for value in asked} == alone


def test_first_places_are_listed_where_there_are_many() -> None:
    match = Passage("Etna! " * 300).find("Etna")
    assert match is not None
    assert match.spans == tuple((6 * place, 6 * place + 4) for place in range(MAX_SPANS))
    assert len(Passage("Etna! " * 300).find("ETNA").spans) == MAX_SPANS  # type: ignore[union-attr]


def test_corpus_is_found_with_the_required_precision_and_recall() -> None:
    total = sum(tallies().values(), Tally())
    assert total.precision >= PRECISION
    assert total.recall >= RECALL
    assert total.taken_for_parts == total.parts


def test_value_found_in_the_corpus_has_an_expected_kind_and_all_its_places() -> None:
    for case in (*cases(), *cases("inflected_names")):
        match = Passage(case.text).find(case.value)
        if case.stands == "found" and match is not None and match.kind is not MatchKind.PART:
            assert match.kind in case.kinds, case
            assert _are_at_the_places(match, case), case


def _are_at_the_places(match: Match, case: Case) -> bool:
    return len(match.spans) == len(case.places) and all(
        begin <= start < end <= behind
        for (start, end), (begin, behind) in zip(match.spans, case.places, strict=True)
    )


WORDS = st.text(st.characters(categories=["Lu", "Ll"], max_codepoint=0x24F), min_size=1, max_size=12)
PIECES = st.sampled_from(
    [
        *(
            "a",
            "Etna",
            "the",
            "3",
            "403",
            "1,250",
            ".",
            ",",
            "-",
            "-\n",
            "'",
            "’s",
            " ",
            "\n",
            "京",
            "都",
            "_",
        ),
        *(
            "\u0301",
            "\u200b",
            "\u00ad",
            "\ud800",
            "ﬃ",
            "₂",
            "ß",
            "İ",
            "ᾳ",
            "مُ",
            "가",
            "Ⅷ",
            "①",
            "½",
            "ห",
            "ำ",
        ),
        *("\U0001d11e", "ŉ", "ﷺ"),
    ]
)
ANY_TEXT = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=30).map("".join))


@given(st.lists(WORDS, min_size=1, max_size=20), st.data())
def test_words_cut_out_of_a_text_are_found_where_they_stood(said: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(said) - 1))
    last = data.draw(st.integers(first, len(said) - 1))
    begin = sum(len(word) + 1 for word in said[:first])
    value = " ".join(said[first : last + 1])
    match = Passage(" ".join(said)).find(value)
    assert match is not None
    assert match.kind is MatchKind.EXACT
    assert (begin, begin + len(value)) in match.spans


@given(st.lists(WORDS, min_size=1, max_size=20), st.data())
def test_words_are_found_in_other_case_and_spacing(said: list[str], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([" ", "\n", "  \u00a0"])).join(said)
    first = data.draw(st.integers(0, len(said) - 1))
    value = "\t".join(said[first:]).swapcase()
    match = Passage(text).find(value)
    assert match is not None
    assert match.kind in (MatchKind.EXACT, MatchKind.FOLDED)


@given(ANY_TEXT, ANY_TEXT)
def test_spans_lie_within_the_text_whatever_is_looked_up(text: str, value: str) -> None:
    match = Passage(text).find(value)
    if match is not None:
        assert match.spans
        assert all(0 <= start < end <= len(text) for start, end in match.spans)
        assert 0 < match.score <= 1


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_and_values_take_linear_time(made: Callable[[int], tuple[str, str]]) -> None:
    def look(size: int) -> None:
        text, value = made(size)
        Passage(text).find(value)

    assert is_linear(look, 2_000)


def test_passage_and_value_of_a_million_letters_are_compared() -> None:
    assert Passage("a" * 1_000_000).find("a" * 400_000) is None
    assert Passage("a" * 1_000_000).find("A" * 1_000_000) == Match(MatchKind.FOLDED, 1.0, ((0, 1_000_000),))
