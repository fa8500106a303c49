"""Endings that names take in languages with cases, and the words by which such a language is recognised.

All words are folded, so without accents. A name is expected in its base form: Niger is no form of Nigeria,
though a stemmer of a search engine makes them one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from trustgraph_prompt.grounding.words import STOP_WORDS_BY_LANGUAGE

_SHORTEST = 3  # letters of a stem
_MOST_ENGLISH = 0.25  # share of English stop words in a text of another language
_SAMPLE = 1_000  # characters whose letters tell the language
_ACCENTED = re.compile("[\u00df-\u024f]")


class Family:
    """How names change in languages that are alike.

    `endings` has rules, divided by semicolons: what a base form ends in, with alternatives, and patterns of
    what may stand there instead. `changes` has patterns of what may change at the end of a stem, and what it
    becomes. `words` are frequent words and letters.
    """

    def __init__(self, endings: str, changes: str = "", words: str = "") -> None:
        self._endings = endings
        self._changes = changes
        self.words = frozenset(words.split())

    def stems(self, base: str) -> Iterator[tuple[str, re.Pattern[str]]]:
        """The possible stems of a base form, each with the endings that may follow it."""
        endings, changes = self._patterns
        for last, after in endings:
            stem = base.removesuffix(last)
            if len(stem) >= _SHORTEST and base.endswith(last):
                changed = (pattern.sub(instead, stem) for pattern, instead in changes)
                yield from ((each, after) for each in dict.fromkeys((stem, *changed)))

    @cached_property
    def _patterns(self) -> tuple[list[tuple[str, re.Pattern[str]]], list[tuple[re.Pattern[str], str]]]:
        rules = (rule.split(":", 1) for rule in self._endings.split(";"))
        compiled = ((last, re.compile("|".join(after.split()))) for last, after in rules)
        changes = (each.split(">") for each in self._changes.split())
        return (
            [(each, after) for last, after in compiled for each in last.strip().split("|")],
            [(re.compile(before), instead) for before, instead in changes],
        )


_FINNIC = r"(?:e?n|ssa|sta|lla|lta|lle|ksi|na|s|st|l|lt|le|ga)"
_LATIN = (
    Family(  # Slavic
        r""": a u i e (?<![rlkgj])ie (?<=[nsczwpm])i[au] y owi ovi evi em iem om u ou ju jem ja ami
           ach ech ima; a: y i e (?<![rlkgj])ie ovi ou o u om oj ej iej ami ach am ama ah; o: a u em om ie e
           im ech ach ima; e: a u em im ich ego iego eho emu iemu ym ami iami iach ach ih ima ama o am m mu
           mi go ych ch; i|y: iego ego eho iemu emu im ym ich ych em om og oga ome omu ach ech iach am ami i
           mi ih u""",
        "k$>c k$>cz g$>z g$>dz h$>z ch$>s r$>rz t$>c d$>dz i?e(?=.$)> a(?=[cr]$)>",
        """w z v ve we na nie nije nic sie s o i a to do by oraz przez dla po od za ze jest sa byl byla bylo
           bilo je se si su so pro pri ku k u iz ki koji bio bila kao jako jak ale nebo alebo ili ali tak tako
           co sto kde gdzie ktory bi in ich jeho jej przy tym tego ta te ten ą ć ę ł ń ś ź ż č ď ě ň ř š ť ů ž
           đ ľ""",
    ),
    Family(  # Baltic
        """as: o ui a u e ai ams us ais uose; is|ys: io iui i iu yje iuje iai iams ius iais ies im imi iem a
           am u; us: aus ui u umi uje iaus iui iumi iuje um; a: os ai oje u oms omis ose as am i;
           e: es ei eje emis ese u i em; ai: u ams us ais uose; os: u oms ose; s: a am u i is im iem os us;
           i: u iem us os""",
        words="""ir yra buvo su i apie po kad bet kaip kas tai jo jos ji jis savo metu nuo uz prie del iki is
           mes cia dar un bija no par ar pec ka tika gada pie lidz tas ta vins vina vai ari tad to ą č ė
           ę į š ų ū ž ā ē ģ ī ķ ļ ņ""",
    ),
    Family(  # Finnic
        rf""": [aeiouy]?(?:{_FINNIC}|tta|ta|seen|h[aeiouy]n|ks|ni|sse|de) (?<=[aeiouy])[at] (?<=linn)a [eiu];
           at: o(?:i(?:{_FINNIC}|hin)|jen); i: e{_FINNIC}; us: (?:uks|ukse|ude|utee){_FINNIC}
           use(?:{_FINNIC})? ust; is|os|as: [aio]kse{_FINNIC} [aio]se(?:{_FINNIC})?; nen: se{_FINNIC} sta""",
        """nk(?=.?$)>ng nt(?=.?$)>nn mp(?=.?$)>mm lt(?=.?$)>ll rt(?=.?$)>rr (?<=[aeiouylrh])k(?=.?$)>
           (?<=[kpt])[kpt](?=.?$)> (?<=[aeiouyh])t(?=.?$)>d (?<=[aeiouylr])p(?=.?$)>v""",
        """ja on oli ei se he han etta mita mutta kun joka jossa myos ovat olivat tai sen siita siella kuin
           asti silloin ennen jalkeen ta mis aga kui kes ka oma ning ole sellest selle parast ma see siis seal
           mitte et nii voi ä ö õ š ž""",
    ),
    Family(  # Hungarian
        r""": [oa]?(?:n|tt?|k) (?<!a.)(?<!a..)e(?:n|tt?|k) b[ae]n? b[oe]l r[ae] r[oe]l t[oe]l n[ae][lk] h[oe]z
           ert ig kent v[ae]l? ul (?<=(.))\1[ae]l?""",
        words="""a az es hogy nem volt van egy is meg ez ki mint de utan csak ami aki vagy azt ezt sem szo ott
           akkor mar ahol amely ő ű""",
    ),
    Family(  # Turkish
        r""": (?<=[aeiou])(?:[yn][aeiu]|n[iu]n) n?[dt][ae]n?(?:ki)? [iu]n y?l[ae]
           l[ae]r(?:[iu]n?|d[ae]n?|[ae])? l[iu] s[iu] n?c[ae]""",
        "k$>g",
        """ve bir bu o da ile icin olan olarak cok daha ne gibi kadar sonra yil belli degil var oldu zaman
           once ise ama hem onun bunu ğ ı ş""",
    ),
    Family(  # Romanian
        "a: ei ii; ea: ii elei ei; ia: iei; e: ei ii elor; u: ului; i: ului ilor lor; : ului ul ilor lui",
        words="""si in la de din cu pe nu este e a fost care pentru sau mai sa se o un al ale lui intre dupa
           ca despre pana catre lor sunt era ă ș ț ş ţ""",
    ),
    Family(  # German
        "e|er|es: e en em er es",
        words=f"{STOP_WORDS_BY_LANGUAGE['de']} er sie es war so nicht man wir uber hat ä ö ü ß",
    ),
    Family(  # Scandinavian
        ": s (?<=.{5})e[nt]s?",
        words="""och i att det som en pa ar av for med til er den ikke de var vi han om men fra og inte sa ej
           har blev å ä ö æ ø""",
    ),
)
_BY_ALPHABET = {
    "\u0370\u03ff": Family(  # Greek
        """οσ|ο|ον: ου ο ε οι ων ουσ ον; ον: α; ασ|ησ|εσ|ουσ: α η ου ουσ εσ ων; α|η: ασ ησ εσ ων εωσ;
           ι: ιου ια ιων; ων: ωνα ωνοσ; οι: ων ουσ"""
    ),
    "\u0400\u052f": Family(  # Cyrillic
        """: та те то а у ю ом ым ем єм е і и ї ові еві єві ами ах ам ою ът ят ата ите ове овете я;
           й: я ю ем єм ї е и і еві єві; ь: я ю і и ем єм ям ях ями ью; а|ая: и і ы у ую ою ой ої е ата та;
           я: і ї и ю ею єю ей е ята ям; о: а у ом ові е і и ами ах то; е: я ю ем і и єм го му м то ого ому;
           ий|ій|ый|ой|и: ем ого ому его ему им ым ім ом их ых ими ыми ия ият;
           и|ы|і: ів ов ам ах ами ей ям ях их ых им ым""",
        "і(?=.$)>о і(?=.$)>е ї(?=.$)>є [ое](?=.$)> а(?=[цр]$)> к$>ц г$>з х$>с",
    ),
    "\u0530\u058f": Family(": ը ի ին ից ում ով ն յի յից յում յով"),  # Armenian
    "\u10a0\u10ff": Family(": ს ში ზე თი დან მ სთან; ი: ის ს მა ში ზე ად ით იდან თან ისა"),  # Georgian
}
WORDS_OF_FAMILIES: Final = tuple(family.words for family in _LATIN)
"""The frequent words of each family of languages in Latin letters."""

_UNINFLECTED = [frozenset(STOP_WORDS_BY_LANGUAGE[each].split()) for each in ("fr", "es", "it", "pt", "nl")]
_ENGLISH = frozenset(
    f"{STOP_WORDS_BY_LANGUAGE['en']} i am did me my us no so see man men if up out all one can could would "
    "more some about after over only other new said now just may must also any each both most very".split()
)


def families_of(at: Mapping[str, Sequence[int]], text: str) -> tuple[Family, ...]:
    """The families of which a text in Latin letters has the most frequent words and letters.

    There are several if they have equally many, and none if English, or another language whose names do not
    change, has as many words. `at` has the places of each word.
    """

    def said(words: frozenset[str]) -> int:
        return sum(len(at[word]) for word in words & at.keys())

    english = said(_ENGLISH)
    if english > _MOST_ENGLISH * sum(map(len, at.values())):  # saves time
        return ()
    letters = Counter(_ACCENTED.findall(text[:_SAMPLE].lower()))
    by_family = [said(each.words) + sum(map(letters.__getitem__, each.words)) for each in _LATIN]
    most = max(by_family)
    if max(english, *map(said, _UNINFLECTED)) >= most:
        return ()
    return tuple(family for family, count in zip(_LATIN, by_family, strict=True) if count == most)


def family_of_alphabet(letter: str) -> tuple[Family, ...]:
    """The family of a text with this letter, if it is not Latin and its endings are known."""
    return tuple(family for ends, family in _BY_ALPHABET.items() if ends[0] <= letter <= ends[1])
