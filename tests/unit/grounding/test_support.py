"""Whether a value only repeats its relation, and whether a statement has a word of its quote's sentences."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile_passages import HOSTILE
from tests.support.steps import is_linear
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.grounding.support import only_repeats, shares_no_word, stands_near

ENGLISH = (
    "Salt was dear in the old town. The saw hung on the wall of his workshop. Father Paul met Anna at noon. "
    "He painted her on 3 May 1999. The World Health Organization said so."
)
FRENCH = "Paris est la plus grande ville du pays. Il est né à Lyon, où il est mort en 1901."


def unsupported(text: str, quote: str, statement: str, but_of: str = "") -> bool:
    start = text.index(quote)
    return shares_no_word(Passage(text), [(start, start + len(quote))], statement, but_of=but_of)


def near(text: str, quote: str, value: str) -> bool:
    start = text.index(quote)
    return stands_near(Passage(text), [(start, start + len(quote))], value)


@pytest.mark.parametrize(
    ("relation", "value"),
    [
        ("worked at Delft", "Delft"),
        ("worked at DELFT,", "the Delft"),
        ("worked at Delft University", "University of Delft"),
        ("runs a company", "companies"),
        ("born in 1999", "1999"),
        ("has 1,230 members", "1230"),
        ("pracował w Warszawie", "Warszawa"),
        ("работал в Варшаве", "Варшава"),
        ("ولد في القاهرة", "القاهرة"),
        ("عمل في دلفت", "دلفت"),
        ("在代尔夫特工作", "代尔夫特"),
        ("デルフトで働いた", "デルフト"),
        ("ทำงานในบางกอก", "บางกอก"),
        ("서울에서 일했다", "서울"),
    ],
)
def test_value_whose_words_all_stand_in_its_relation_only_repeats_it(relation: str, value: str) -> None:
    assert only_repeats(value, relation)


@pytest.mark.parametrize(
    ("relation", "value"),
    [
        ("worked at Delft", "Delft University"),
        ("educated at university", "University of Oxford"),
        ("director", "Jean Director"),
        ("member of the band", "The Who"),
        ("wrote", "It"),
        ("number 7", "7"),
        ("born in 1999", "1998"),
        ("located in Nigeria", "Niger"),
        ("работал в Варшаве", "Варшавский университет"),
        ("ولد في القاهرة", "جامعة القاهرة"),
        ("位于中国", "北京"),
        ("母", "母"),
        ("", "Delft"),
        ("worked at", ""),
    ],
)
def test_value_with_a_word_of_its_own_repeats_nothing(relation: str, value: str) -> None:
    assert not only_repeats(value, relation)


def test_long_value_is_not_compared_with_its_relation() -> None:
    assert only_repeats("Delft " * 100, "Delft")
    assert not only_repeats("Delft " * 1_000, "Delft")


@pytest.mark.parametrize(
    ("text", "quote", "statement"),
    [
        (ENGLISH, "The saw hung on the wall", "a tool used to cut wood"),
        (ENGLISH, "Salt was dear", "white metallic element"),
        (ENGLISH, "Father Paul met Anna", "spouse Salt"),
        (ENGLISH, "He painted her", "born in 1998"),
        (
            "Соль была дорога в городе. Пила висела на стене.",
            "Пила висела",
            "инструмент для резки дерева",
        ),
        ("كان الملح غاليا. المنشار معلق على الحائط.", "المنشار معلق", "أداة لقطع الخشب"),
        ("白垩是一种柔软的石灰岩。锯子挂在墙上。", "锯子挂在墙上", "用于切割木材的工具"),
        ("のこぎりは壁に掛かっていた。塩は高価だった。", "塩は高価だった", "木を切る道具です"),
        ("톱이 벽에 걸려 있었다. 소금은 비쌌다.", "톱이 벽에", "나무를 자르는 도구"),
        ("เลื่อยแขวนอยู่บนผนัง\n\nเกลือมีราคาแพง", "เกลือมีราคา", "เครื่องมือตัดไม้"),
        (FRENCH, "Il est né à Lyon", "une grande ville du pays"),
        (FRENCH, "Il est né à Lyon", "grande capitale"),
    ],
)
def test_statement_without_a_word_of_the_sentence_is_unsupported(
    text: str, quote: str, statement: str
) -> None:
    assert unsupported(text, quote, statement)


@pytest.mark.parametrize(
    ("text", "quote", "statement"),
    [
        (ENGLISH, "The saw hung", "stood in a workshop"),
        (ENGLISH, "The saw hung", "walls"),
        (ENGLISH, "He painted her", "occupation painter"),
        (ENGLISH, "He painted her", "born 1999"),
        ("Соль была дорога. Пила висела на стене.", "Пила", "находилась на стенах"),
        ("كان الملح غاليا. المنشار معلق على الحائط.", "المنشار", "معلق على حائط"),
        ("白垩是一种柔软的石灰岩。锯子挂在墙上。", "白垩是一种", "白色的岩石"),
        ("のこぎりは壁に掛かっていた。塩は高価だった。", "のこぎり", "壁の道具です"),
        ("톱이 벽에 걸려 있었다. 소금은 비쌌다.", "톱이", "벽에 걸린 것"),
        ("เลื่อยแขวนอยู่บนผนัง", "เลื่อย", "อยู่บนผนังห้อง"),
    ],
)
def test_form_of_a_word_around_the_quote_supports_a_statement(text: str, quote: str, statement: str) -> None:
    assert not unsupported(text, quote, statement)


@pytest.mark.parametrize(
    ("text", "quote", "statement"),
    [
        (ENGLISH, "Salt was dear", "ein weißes Metall aus der Erde"),
        (ENGLISH, "Salt was dear", "белый металл"),
        (ENGLISH, "Salt was dear", "白色的金属"),
        ("Сіль була дорога в місті. Пила висіла на стіні.", "Пила висіла", "это был инструмент"),
        ("كان الملح غاليا في المدينة. المنشار معلق.", "المنشار معلق", "ابزاری که برای بریدن است"),
        (FRENCH, "Il est né à Lyon", "a river of the north"),
        (FRENCH, "Il est né à Lyon", "painter"),
        (FRENCH, "Il est né à Lyon", "Paris"),
        ("白垩是柔软的岩石。锯子挂在墙上。", "锯子挂在墙上", "のこぎりの道具です"),
        ("Delft: Leiden, Utrecht.", "Delft", "a town in the north"),
    ],
)
def test_statement_in_another_script_or_language_is_left_alone(text: str, quote: str, statement: str) -> None:
    assert not unsupported(text, quote, statement)


@pytest.mark.parametrize("statement", ["", "7", "is of the", "…", "的"])
def test_statement_without_content_words_is_left_alone(statement: str) -> None:
    assert not unsupported(ENGLISH, "Salt was dear", statement)


def test_words_of_what_is_defined_do_not_support_its_definition() -> None:
    assert unsupported(ENGLISH, "Salt was dear", "salt is a mineral", but_of="Salt")
    assert not unsupported(ENGLISH, "Salt was dear", "salt was a dear mineral", but_of="Salt")
    assert unsupported("锯子挂在墙上。", "锯子挂在墙上", "锯子用于切割", but_of="锯子")


def test_sentence_before_and_after_that_of_the_quote_do_not_support_it() -> None:
    assert unsupported(ENGLISH, "Father Paul met Anna at noon.", "hung in a workshop")
    assert unsupported(ENGLISH, "Father Paul met Anna at noon.", "painted")
    assert not unsupported(ENGLISH, "met Anna at noon. He", "painted")


def test_each_place_of_a_short_quote_may_be_meant() -> None:
    text = "The tower is old. Nobody knew why. The tower burned in the war."
    assert not unsupported(text, "The tower", "destroyed in war")


def test_text_without_sentence_ends_is_read_only_around_the_quote() -> None:
    text = f"vineyard {'filler words and more ' * 100} The saw hung here {'filler words and so on ' * 100}"
    assert unsupported(text, "The saw hung", "vineyard")


@pytest.mark.parametrize("value", ["Father Paul", "Anna", "Paul Meier"])
def test_value_that_the_sentence_names_stands_near(value: str) -> None:
    assert near(ENGLISH, "Father Paul met", value)


@pytest.mark.parametrize(("quote", "value"), [("He painted", "1999-05-03"), ("said so", "WHO")])
def test_date_and_initials_stand_near_in_another_form(quote: str, value: str) -> None:
    assert near(ENGLISH, quote, value)


@pytest.mark.parametrize("value", ["Father Paul", "Otto", "WHO"])
def test_value_of_another_sentence_does_not_stand_near(value: str) -> None:
    assert not near(ENGLISH, "The saw hung", value)


@pytest.mark.parametrize("word", ["wood ", "木 a", "木材ab ", "1234 ", "дерево ", "ไม้ไผ่ "])
def test_effort_grows_with_the_length_of_statement_and_text(word: str) -> None:
    def judge(size: int) -> None:
        passage = Passage(f"The saw hung here. {'and so on ' * size}")
        for quote in [(0, 12), (4, 7)]:
            shares_no_word(passage, [quote], word * size, but_of=word[::-1] * size)
            stands_near(passage, [quote], word * size)
        only_repeats(word * size, word[::-1] * size)

    assert is_linear(judge, 500)


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_and_values_take_linear_time(made: Callable[[int], tuple[str, str]]) -> None:
    def judge(size: int) -> None:
        text, value = made(size)
        passage = Passage(text)
        for span in [(0, 1), (0, min(300, len(text))), (len(text) // 2, len(text) // 2 + 9)]:
            shares_no_word(passage, [span], f"zz {value}", but_of=value[:50])
            shares_no_word(passage, [span], text[-size // 2 :])
            stands_near(passage, [span], value)
        only_repeats(value, text)

    judge(2_000)  # fills the cache of base forms
    assert is_linear(judge, 500)


@given(st.text(min_size=1), st.text(), st.text(), st.integers(0, 30), st.integers(1, 30))
def test_any_text_is_judged_the_same_way_twice(
    text: str, statement: str, other: str, start: int, length: int
) -> None:
    passage, start = Passage(text), min(start, len(text) - 1)
    spans = [(start, min(start + length, len(text)))]

    def judge() -> list[bool]:
        said = shares_no_word(passage, spans, statement, but_of=other)
        return [said, stands_near(passage, spans, statement), only_repeats(statement, other)]

    assert judge() == judge()
