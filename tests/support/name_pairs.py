"""Pairs of names with known truth: whether both are of one thing. Made from lists, by a seed.

They were written before the rules of `graph_store/same_names.py`. The held-out pairs are of other names and
other kinds; the rules were not written after them.
"""

# ruff: noqa: E501, SIM905 (lists in one text are easier to read)
from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trustgraph_prompt.graph_store.same_names import resolve_names
from trustgraph_prompt.graph_store.view import Thing

PERSON, PLACE, ORGANIZATION, CONCEPT, PRODUCT = "person", "place", "organization", "concept", "product"


class Named(NamedTuple):
    """A name with a type, "" if unknown, and a definition."""

    name: str
    type: str
    definition: str = ""


class NamePair(NamedTuple):
    """Two names, and whether they are of one thing."""

    category: str
    one: Named
    other: Named
    same: bool


class Lists(NamedTuple):
    men: list[str]
    women: list[str]
    surnames: list[str]
    accented: list[str]
    umlauts: list[str]
    cities: list[str]
    kinds: list[str]
    fields: list[str]
    adjectives: list[str]
    nouns: list[str]
    firms: list[str]


SEEN = Lists(
    "John William Henry Charles Robert Edward Thomas Arthur Frederick Alexander Nathaniel Sebastian Patrick "
    "Michael Anthony Christopher Benjamin Leonard".split(),
    "Ada Mary Charlotte Margaret Elizabeth Katherine Florence Caroline Josephine Rosalind Dorothy Isabella "
    "Henrietta Victoria Beatrice Philippa".split(),
    "Lovelace Babbage Huxley Darwin Holmes Watson Rutherford Maxwell Faraday Hamilton Carmichael Butterworth "
    "Nightingale Stephenson Worthington Montgomery Fitzgerald Cunningham Wordsworth Livingstone".split(),
    "José Peña|André Ampère|René Descartes|Antonín Dvořák|François Arago|Søren Kierkegaard|Karel Čapek|"
    "Émile Zola|Niccolò Machiavelli|Frédéric Chopin|Tomáš Masaryk|São Paulo|Malmö Konsthall".split("|"),
    "Georg Müller|Erwin Schrödinger|Kurt Gödel|Heinrich Böll|Carl Jäger|Franz Schütz|Otto Köhler".split("|"),
    "Norwich Lincoln Washington Bristol Sheffield Lancaster Bradford Winchester Cambridge Plymouth "
    "Nottingham Southampton".split(),
    "University,Institute,Academy,Museum,Library,Hospital,Department,Laboratory,Society,Observatory".split(
        ","
    ),
    "Technology,Natural History,Economic Geography,Comparative Anatomy,Mathematics,Theoretical Physics,"
    "Agricultural Research,Oceanography,Mechanical Engineering,Political Science".split(","),
    "white fossil microscopic calcareous volcanic sedimentary marine coastal metamorphic translucent".split(),
    "cliff shell granule deposit chamber skeleton mountain mineral stratum sediment".split(),
    "Acme Widgets,Northern Steel,Globe Instruments,Pioneer Textiles,Baltic Shipping,Sterling Optics".split(
        ","
    ),
)
HELD_OUT = Lists(
    "George Samuel Walter Philip Edmund Oliver Lawrence Matthew Nicholas Theodore Augustus Bartholomew".split(),
    "Emily Jane Harriet Eleanor Georgiana Wilhelmina Agatha Constance Marianne Penelope Theresa".split(),
    "Dickens Tennyson Thackeray Gaskell Trollope Macaulay Shackleton Attenborough Bickersteth Wilberforce "
    "Hetherington Cholmondeley Ravensworth Abercrombie".split(),
    "Béla Bartók|Jean Françaix|Pío Baroja|Aleš Hrdlička|Gaspar Núñez|Łukasz Górnicki|Benoît Mandelbrot".split(
        "|"
    ),
    "Emmy Nöther|Max Börn|Friedrich Wöhler|Jörg Sträßner|Paul Krüger".split("|"),
    "Exeter Durham Coventry Wakefield Salisbury Gloucester Canterbury Chesterfield Leicester".split(),
    "College,Faculty,Archive,Theatre,Centre,School,Council,Commission,Foundation".split(","),
    "Veterinary Medicine,Applied Linguistics,Public Administration,Marine Biology,Fine Arts,Civil Law,"
    "Computational Statistics,Environmental Protection".split(","),
    "radioactive molecular electric synthetic tropical seasonal hereditary polymeric".split(),
    "isotope membrane circuit polymer storm variety enzyme crystal glacier".split(),
    "Harbour Foods,Meridian Systems,Alpine Dairy,Vulcan Castings,Orchard Software,Summit Paper".split(","),
)

Made = tuple[str, str, str]
"""Both names, and a type or the types of both with a blank between."""


class _Maker:
    def __init__(self, random: random.Random, lists: Lists) -> None:
        self.random, self.lists = random, lists

    def given(self) -> str:
        return self.random.choice(self.lists.men + self.lists.women)

    def surname(self) -> str:
        return self.random.choice(self.lists.surnames)

    def person(self) -> str:
        return " ".join(
            [*self.two(self.lists.men + self.lists.women)[: self.random.choice((1, 1, 2))], self.surname()]
        )

    def two(self, choices: list[str]) -> list[str]:
        return self.random.sample(choices, 2)

    def organization(self) -> str:
        kind, field, city = map(self.random.choice, (self.lists.kinds, self.lists.fields, self.lists.cities))
        return self.random.choice(
            (f"{kind} of {field}", f"{city} {kind} of {field}", f"Royal {kind} of {field}")
        )

    def noun(self) -> str:
        return f"{self.random.choice(self.lists.adjectives)} {self.random.choice(self.lists.nouns)}"

    def any(self) -> tuple[str, str]:
        return self.random.choice(
            ((self.person(), PERSON), (self.organization(), ORGANIZATION), (self.noun(), CONCEPT))
        )

    def one_of(self, pairs: str) -> tuple[str, str]:
        one, other = self.random.choice(pairs.split("|")).split("=")
        return (one, other) if self.random.random() < 0.5 else (other, one)

    def typo(self, name: str) -> str:
        words = name.split()
        longest = max(words, key=len)
        at = self.random.randrange(1, len(longest) - 2)
        wrong = {
            "dropped": longest[:at] + longest[at + 1 :],
            "doubled": longest[:at] + longest[at] + longest[at:],
            "swapped": longest[:at] + longest[at + 1] + longest[at] + longest[at + 2 :],
            "replaced": longest[:at] + self.random.choice("aeiourstln") + longest[at + 1 :],
        }[self.random.choice(("dropped", "doubled", "swapped", "replaced"))]
        return name.replace(longest, wrong)


def _plain(name: str) -> str:
    folded = unicodedata.normalize("NFKD", name.replace("ø", "o").replace("Ł", "L"))
    return "".join(each for each in folded if not unicodedata.combining(each))


def _spelled(name: str) -> str:
    for letter, spelling in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss")):
        name = name.replace(letter, spelling)
    return name


def _initials(name: str) -> str:
    return "".join(word[0] for word in name.split() if word[0].isupper())


def _case(make: _Maker) -> Made:
    name, type = make.any()
    return name, make.random.choice((name.upper(), name.lower(), name.title())), type


def _reordered(make: _Maker) -> Made:
    name = make.person()
    *given, surname = name.split()
    return name, f"{surname}, {' '.join(given)}", PERSON


def _punctuated(make: _Maker) -> Made:
    one, two, surname = make.given()[0], make.given()[0], make.surname()
    spelled = [
        f"{one}. {two}. {surname}",
        f"{one}.{two}. {surname}",
        f"{one} {two} {surname}",
        f"{one}. {two}.  {surname}.",
    ]
    return (*make.two(spelled), PERSON)  # type: ignore[return-value]


def _accents(make: _Maker) -> Made:
    name = make.random.choice(make.lists.accented)
    return name, _plain(name), ""


def _hyphen(make: _Maker) -> Made:
    (one, two), surname = make.two(make.lists.men), make.surname()
    return f"{one}-{two} {surname}", f"{one}{make.random.choice((' ', '‐', '–'))}{two} {surname}", PERSON


def _plural(make: _Maker) -> Made:
    name = make.noun()
    if name.endswith("stratum"):
        return name, name.replace("stratum", "strata"), CONCEPT
    if name.endswith("y"):
        return name, name[:-1] + "ies", CONCEPT
    return name, name + "s", CONCEPT


def _legal_form(make: _Maker) -> Made:
    firm = make.random.choice(make.lists.firms)
    one, other = make.one_of(
        "Inc.=Incorporated|Ltd.=Limited|Ltd=Ltd.|=Inc.|=Ltd|=GmbH|Corp.=Corporation|Co.=Company|, Inc.= Inc"
    )
    return (
        f"{firm} {one}".strip().replace(" ,", ","),
        f"{firm} {other}".strip().replace(" ,", ","),
        ORGANIZATION,
    )


def _titled(make: _Maker) -> Made:
    name = f"{make.given()} {make.surname()}"
    return name, f"{make.random.choice(('Dr.', 'Dr', 'Prof.', 'Professor', 'Doctor'))} {name}", PERSON


def _initial(make: _Maker) -> Made:
    given, middle, surname = make.given(), make.given(), make.surname()
    return make.random.choice(
        (
            (f"{given} {surname}", f"{given[0]}. {surname}", PERSON),
            (f"{given} {middle} {surname}", f"{given} {middle[0]}. {surname}", PERSON),
            (f"{given} {middle} {surname}", f"{given[0]}. {middle[0]}. {surname}", PERSON),
        )
    )


def _typo(make: _Maker) -> Made:
    name = make.organization()
    return name, make.typo(name), ORGANIZATION


def _umlaut(make: _Maker) -> Made:
    name = make.random.choice(make.lists.umlauts)
    return name, _spelled(name), PERSON


def _article(make: _Maker) -> Made:
    name, type = make.random.choice(((make.organization(), ORGANIZATION), (make.noun(), CONCEPT)))
    return name, f"{make.random.choice(('the', 'The'))} {name}", type


def _numeral(make: _Maker) -> Made:
    roman, arabic = make.one_of("II=2|III=3|IV=4|VIII=8")
    what = make.random.choice(("World War", "Apollo Programme Phase", "Type", "Category"))
    return f"{what} {roman}", f"{what} {arabic}", CONCEPT


def _part(make: _Maker) -> Made:
    name, surname = make.given(), make.surname()
    return f"{name} {surname}", make.random.choice((surname, f"Mr. {surname}", name)), PERSON


def _ampersand(make: _Maker) -> Made:
    one, other = make.two(make.lists.surnames)
    return f"{one} & {other}", f"{one} and {other}", ORGANIZATION


def _divided(make: _Maker) -> Made:
    one, other = make.one_of(
        "data base=database|sea-water=seawater|lime stone=limestone|tea-kettle=teakettle|sub-marine=submarine"
    )
    noun = make.random.choice(make.lists.nouns)
    return f"{one} {noun}", f"{other} {noun}", CONCEPT


def _spaced(make: _Maker) -> Made:
    name, type = make.any()
    space = make.random.choice(("\u00a0", "  ", "\n", "\u2009", " \u200b"))
    return name, name.replace(" ", space) + make.random.choice(("", ".", " ")), type


SAME: dict[str, Callable[[_Maker], Made]] = {
    "letter case": _case,
    "surname first": _reordered,
    "points of initials": _punctuated,
    "accents": _accents,
    "hyphens": _hyphen,
    "plurals": _plural,
    "legal forms": _legal_form,
    "titles": _titled,
    "initials for given names": _initial,
    "misspelt long names": _typo,
    "umlauts spelled out": _umlaut,
    "articles": _article,
    "Roman and Arabic numerals": _numeral,
    "only a part of the name": _part,
    "& and and": _ampersand,
    "words joined or divided": _divided,
    "spaces and points": _spaced,
}


def _relatives(make: _Maker) -> Made:
    surname = make.surname()
    one, other = make.random.choice(
        (
            make.two(make.lists.men),
            make.two(make.lists.women),
            list(
                make.one_of(
                    "John=Joan|Francis=Frances|Paul=Paula|Julian=Juliana|Alexandra=Alexandria|Henri=Henry|Martin=Martina|Jean=Jeanne|Stephen=Stephan"
                )
            ),
        )
    )
    return f"{one} {surname}", f"{other} {surname}", PERSON


def _regnal(make: _Maker) -> Made:
    king = make.given()
    one, other = make.two(["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "X", "XI"])
    return f"{king} {one}", f"{king} {other}", PERSON


def _years(make: _Maker) -> Made:
    what = make.random.choice(("Census of", "Treaty of Norwich", "Great Exhibition of", "Annual Report"))
    one, other = make.two([str(year) for year in range(1851, 1999, 7)])
    return f"{what} {one}", f"{what} {other}", CONCEPT


def _models(make: _Maker) -> Made:
    one, other = make.one_of(
        "Boeing 737=Boeing 747|F-16=F-18|Python 3.1=Python 3.10|iPhone 5=iPhone 5s|MP3=MP4|Agent 7=Agent 007|B-52=B-25|"
        "Section 2.1=Section 21|Airbus A320=Airbus A321|Intel 8086=Intel 8088|Windows 8=Windows 8.1|Galaxy S20=Galaxy S2|"
        "Model S=Model X|C=C++|C#=C|Type A=Type B|A+=A|Mark I=Mark II|Apollo 11=Apollo 1|1.234 litre engine=1234 litre engine"
    )
    return one, other, PRODUCT


def _alike(make: _Maker) -> Made:
    one, other = make.one_of(
        "Austria=Australia|Slovakia=Slovenia|Niger=Nigeria|hyperthyroidism=hypothyroidism|absorption=adsorption|"
        "interstate road=intrastate road|Mauritius=Mauritania|Dominica=Dominican Republic|stalactite=stalagmite|Iran=Iraq|"
        "mitosis=meiosis|Sweden=Swedes|afferent nerve=efferent nerve|prostate cancer=prostrate cancer|Georgia=Georgian|"
        "Johnson Controls=Johnston Controls|Philips Lighting=Phillips Lighting|Paraguay=Uruguay|Gambia=Zambia|"
        "astronomy=astrology|complaint procedure=compliant procedure|Trafalgar Square=Trafalgar House|geography=geology"
    )
    return one, other, make.random.choice((CONCEPT, PLACE, ORGANIZATION))


def _alike_in_long(make: _Maker) -> Made:
    one, other = make.one_of(
        "Economic Geography=Economic Geology|Organic Chemistry=Inorganic Chemistry|Public Health=Public Wealth|"
        "Psychology=Physiology|Astronomy=Astrology|Marine Engineering=Machine Engineering|Civil Law=Civic Law|"
        "Epidemiology=Epistemology|Austrian Studies=Australian Studies|Metrology=Meteorology|Conservation=Conversation|"
        "Evolution=Revolution|Electronic Music=Electric Music|Ecology=Oncology|Cosmology=Cosmetology"
    )
    where = f"{make.random.choice(make.lists.cities)} {make.random.choice(make.lists.kinds)} of"
    return f"{where} {one}", f"{where} {other}", ORGANIZATION


def _person_and_place(make: _Maker) -> Made:
    city = make.random.choice(make.lists.cities)
    name = make.random.choice((city, city.lower(), f"{make.given()} {city}", city.upper()))
    return name, name.title() + make.random.choice(("", ".", " ")), f"{PERSON} {PLACE}"


def _generations(make: _Maker) -> Made:
    name = make.person()
    one, other = make.two([" Jr.", " Sr.", "", ", Jr.", " III", " Senior"])
    if {one, other} == {" Jr.", ", Jr."} or {one, other} == {" Sr.", " Senior"}:
        other = ""
    return name + one, name + other, PERSON


def _genders(make: _Maker) -> Made:
    one, other = make.one_of("Mr.=Mrs.|Mr=Miss|Sir=Lady|Lord=Lady|King=Queen|Mr.=Mrs")
    name = make.random.choice((make.surname(), f"{make.random.choice(make.lists.men)} {make.surname()}"))
    return f"{one} {name}", f"{other} {name}", PERSON


def _husband(make: _Maker) -> Made:
    name = f"{make.random.choice(make.lists.men)} {make.surname()}"
    return f"Mrs. {name}", name, PERSON


def _gendered_forms(make: _Maker) -> Made:
    one, other = make.one_of(
        "Ivan Petrov=Ivana Petrova|Emperor=Empress|Julio Garcia=Julia Garcia|Prince of Wales=Princess of Wales|"
        "Duke of York=Duchess of York|Aleksandr Ivanov=Aleksandra Ivanova|widow=widower|Andrea Conti=Andreas Conti"
    )
    return one, other, PERSON


def _other_initials(make: _Maker) -> Made:
    one, other = make.two(list("ABCDEFGH"))
    surname, given = make.surname(), make.given()
    return make.random.choice(
        (
            (f"{one}. {surname}", f"{other}. {surname}", PERSON),
            (f"{given} {one}. {surname}", f"{given} {other}. {surname}", PERSON),
            (f"{given} {one}. {surname}", f"{given} {surname}", PERSON),
            (f"{one}. {other}. {surname}", f"{one}. {surname}", PERSON),
        )
    )


def _other_whole(make: _Maker) -> Made:
    one, other = make.two([make.given() + " " + make.surname(), make.given()])
    surname = make.surname()
    return make.random.choice(
        (
            (surname, f"{make.given()} {surname}", PERSON),
            ("York", "New York", PLACE),
            ("Kent", "Kent State", f"{PLACE} {ORGANIZATION}"),
            (f"{make.random.choice(make.lists.cities)} Museum", f"{one} Museum", ORGANIZATION),
            ("Mercury", "Mercury (planet)", CONCEPT),
            ("Mercury (element)", "Mercury (planet)", CONCEPT),
            (f"Royal Society of {other}", "Royal Society", ORGANIZATION),
        )
    )


def _order(make: _Maker) -> Made:
    one, other = make.one_of(
        "James Henry=Henry James|blood red=red blood|house boat=boat house|Station Master=Master Station|"
        "Washington, George=George, Washington|water ice=ice water|Thomas Martin=Martin Thomas"
    )
    return one, other, make.random.choice((PERSON, CONCEPT))


def _meaning_of_case_or_number(make: _Maker) -> Made:
    one, other = make.one_of(
        "arm=arms|glass=glasses|custom=customs|Needle=Needles|Eagle=Eagles|Wendy=Wendy's|WHO=who|AIDS=aids|"
        "Door=Doors|Bill=bill|statistic=statistics|rosé=rose|résumé=resume|axe=axis|base=basis|new=news|US=us|"
        "IT=it|Turkey=turkey|Polish=polish|spectacle=spectacles|The Sun=Sun|The Who=WHO|pâté=pate"
    )
    return one, other, CONCEPT


def _firms(make: _Maker) -> Made:
    firm = make.random.choice(make.lists.firms)
    one, other = make.one_of("AG=Ltd.|GmbH=Inc.|Inc.=LLC|GmbH=GmbH & Co. KG|Ltd=S.A.")
    return make.random.choice(
        (
            (f"{firm} {one}", f"{firm} {other}", ORGANIZATION),
            (f"{make.given()} {make.surname()} Inc.", "", f"{ORGANIZATION} {PERSON}"),
            ("Apple Inc.", "Apple", f"{ORGANIZATION} {CONCEPT}"),
            (f"{firm} Holdings", firm, ORGANIZATION),
        )
    )


DIFFERENT: dict[str, Callable[[_Maker], Made]] = {
    "relatives": _relatives,
    "regnal numbers": _regnal,
    "years": _years,
    "models and versions": _models,
    "words spelt nearly alike": _alike,
    "words spelt nearly alike in long names": _alike_in_long,
    "a person and a place": _person_and_place,
    "generations": _generations,
    "Mr. and Mrs.": _genders,
    "Mrs. and her husband": _husband,
    "male and female forms": _gendered_forms,
    "other initials": _other_initials,
    "part of another name": _other_whole,
    "other order": _order,
    "case or plural with another meaning": _meaning_of_case_or_number,
    "firms": _firms,
}


def _table(pairs: str, types: tuple[str, ...]) -> Callable[[_Maker], Made]:
    def make(maker: _Maker) -> Made:
        one, other = maker.one_of(pairs)
        filled = {
            "{p}": maker.person(),
            "{s}": maker.surname(),
            "{o}": maker.organization(),
            "{n}": maker.noun(),
            "{c}": maker.random.choice(maker.lists.cities),
            "{f}": maker.random.choice(maker.lists.firms),
            "{g}": maker.given(),
        }
        for mark, text in filled.items():
            one, other = one.replace(mark, text), other.replace(mark, text)
        return one, other, maker.random.choice(types)

    return make


HELD_OUT_SAME = {
    "British and American": _table(
        "{c} Centre=the {c} Center|{n} colour={n} color|Organisation of {c}=Organization of {c}|{c} harbour={c} harbor|"
        "aluminium {n}=aluminum {n}|sulphur {n}=sulfur {n}|labour law=labor law|{c} Theatre={c} Theater", (ORGANIZATION, CONCEPT)),
    "underscores and capitals": _table("University_of_{c}=University of {c}|World_Health_Day=World Health Day|river_{c}=river {c}", (PLACE,)),
    "full width and composed": _table("Ｗorld Ｂank=World Bank|Cafe\u0301 {c}=Café {c}|ﬁnal {n}=final {n}|№ 5 {c}=No 5 {c}", (CONCEPT,)),
    "letters after a name": _table("{p}, PhD={p}|{p}, M.D.={p}|{p} MBE={p}|{p}, Esq.={p}", (PERSON,)),
    "years after a name": _table("{p} (1815–1852)={p}", (PERSON,)),
    "abbreviated words": _table("Dept. of {c}=Department of {c}|Univ. of {c}=University of {c}|St. {g}'s Church=Saint {g}'s Church|"
                                "Mt. {c}=Mount {c}|{c} St.={c} Street|{c} Rd.={c} Road|Gov. {p}=Governor {p}", (PLACE, ORGANIZATION)),
    "word order": _table("University of {c}={c} University|Bank of {c}={c} Bank|Museum of {c}={c} Museum", (ORGANIZATION,)),
    "other transliterations": _table("Pyotr Tchaikovsky=Pyotr Chaikovsky|Fyodor Dostoevsky=Fyodor Dostoyevsky|Mao Tse-tung=Mao Zedong|"
                                     "Muammar Gaddafi=Muammar Qaddafi|Kiev=Kyiv|Peking=Beijing", (PERSON, PLACE)),
    "quotation marks": _table("“{n}”={n}|\"{o}\"={o}|«{c}»={c}|O’{s}=O'{s}|'{n}'={n}", (CONCEPT, ORGANIZATION)),
    "surname first": _reordered, "letter case": _case, "accents": _accents, "plurals": _plural, "spaces and points": _spaced,
    "hyphens": _hyphen, "misspelt long names": _typo, "titles": _titled, "legal forms": _legal_form, "articles": _article,
    "umlauts spelled out": _umlaut,
}  # fmt: skip
HELD_OUT_DIFFERENT = {
    "numbers of houses": _table("12 {c} Street=21 {c} Street|10 {c} Road=10a {c} Road|Room 1-2=Room 12|1/2 {c} Lane=12 {c} Lane", (PLACE,)),
    "directions": _table("North {c}=South {c}|East {c}=West {c}|Northwest {c}=North {c}|Upper {c}=Lower {c}|New {c}=Old {c}", (PLACE,)),
    "prefixes": _table("typical {n}=atypical {n}|linear {n}=non-linear {n}|{n} smoker={n} non-smoker|legal {n}=illegal {n}|"
                       "moral {n}=immoral {n}|symmetric {n}=asymmetric {n}|re-sign {n}=resign {n}|unionised {n}=un-ionised {n}", (CONCEPT,)),
    "chemistry": _table("sodium sulfate=sodium sulfite|alpha-carotene=beta-carotene|carbon-12=carbon-14|ethane=ethene|methanol=ethanol|"
                        "iron(II) oxide=iron(III) oxide|1-propanol=2-propanol|prednisone=prednisolone|H2O=H2O2|Co=CO|"
                        "sodium chlorate {n}=sodium chloride {n}|phosphine {n}=phosphene {n}|D-glucose=L-glucose", (CONCEPT,)),
    "letters": _table("vitamin B=vitamin D|hepatitis A=hepatitis B|Plan A=Plan B|Group C=Group D|x-axis=y-axis|Appendix I=Appendix J", (CONCEPT,)),
    "the Elder and the Younger": _table("{s} the Elder={s} the Younger|John the Baptist=John the Evangelist|{g} the Great={g} the Good", (PERSON,)),
    "ordinals": _table("First Battle of {c}=Second Battle of {c}|1st Battalion {c}=2nd Battalion {c}|21st {c} Regiment=2nd {c} Regiment|"
                       "Third {o}=Thirty-third {o}", (CONCEPT, ORGANIZATION)),
    "quantities": _table("{n} 10 mg={n} 100 mg|-5 °C={n}|+5 V rail=-5 V rail|5 km race=5 mi race|0.5 l bottle=5 l bottle|£5 note=$5 note|"
                         "10% rule=10 rule", (PRODUCT,)),
    "roles": _table("employer of {p}=employee of {p}|father of {p}=mother of {p}|trainer of {p}=trainee of {p}|{p}=wife of {p}|"
                    "{p}={p} Foundation|{p}={p}'s mother", (PERSON,)),
    "months and days": _table("June {c} Conference=July {c} Conference|Treaty of 1 May=Treaty of 11 May|1 March 1900=11 March 1900|"
                              "1900-01-12=1900-11-02|5 June=6 June", (CONCEPT,)),
    "parts": _table("University of {c}=University of {c} Press|{o}={o} Library|{c}={c} County|Greater {c}={c}|{f}={f} Europe|"
                    "Government of {c}={c}", (ORGANIZATION, PLACE)),
    "people of one surname": _table("Georgiana {s}=Georgina {s}|Harriet {s}=Harriett Anne {s}|Theresa {s}=Teresa {s}|Marianne {s}=Marian {s}|"
                                    "Sam {s}=Samantha {s}|G. {s}=Georgiana {s}|Lt. {s}=Col. {s}|Philip {s}=Philippa {s}|Emil {s}=Emily {s}", (PERSON,)),
    "languages and peoples": _table("Slovak=Slovene|Latin=Latvian|Iranian=Iraqi|Bosnian=Boston|Malay=Malayalam|Swede=Swedish", (CONCEPT,)),
    "long names with one word replaced": _table(
        "Royal Commission on Public Administration of {c}=Royal Commission on Public Adoration of {c}|"
        "{c} Centre of Immunology Research={c} Centre of Immunity Research|International Union for Conservation=International Union for Conversation|"
        "Committee of Inspection at {c}=Committee of Inspiration at {c}|Institute of Anthology at {c}=Institute of Anthropology at {c}|"
        "Secretary of the Interior at {c}=Secretary of the Inferior at {c}|Bureau of Taxation in {c}=Bureau of Taxonation in {c}|"
        "Board of Mediation of {c}=Board of Meditation of {c}|School of Continuous Education at {c}=School of Contiguous Education at {c}|"
        "Ministry of Transformation of {c}=Ministry of Transportation of {c}|Council of Ministries of {c}=Council of Ministers of {c}|"
        "Office of Patients at {c}=Office of Patents at {c}|Federation of Strategists of {c}=Federation of Stratigraphists of {c}", (ORGANIZATION,)),
    "relatives": _relatives, "regnal numbers": _regnal, "years": _years, "generations": _generations, "Mr. and Mrs.": _genders,
    "a person and a place": _person_and_place, "other initials": _other_initials, "firms": _firms,
}  # fmt: skip


def name_pairs(seed: int, count: int = 2_000, *, held_out: bool = False) -> list[NamePair]:
    """Make pairs: half of them of one thing, over all categories alike; types are known, or one or both are not."""
    chance = random.Random(seed)
    make = _Maker(chance, HELD_OUT if held_out else SEEN)
    tables = (HELD_OUT_SAME, HELD_OUT_DIFFERENT) if held_out else (SAME, DIFFERENT)
    pairs = []
    for categories, same in zip(tables, (True, False), strict=True):
        for number in range(count // 2):
            category, made = list(categories.items())[number % len(categories)]
            one, other, type = made(make)
            if not other:
                other = one.removesuffix(" Inc.")
            types = type.split(" ") if " " in type else [type, type]
            if category != "a person and a place":
                types = chance.choice((types, types, [types[0], ""], ["", ""]))
            first, second = Named(one, types[0]), Named(other, types[1])
            pairs.append(
                NamePair(category, *((first, second) if chance.random() < 0.5 else (second, first)), same)
            )
    for name in (
        ("World Health Organization", "European Space Agency", "International Monetary Fund")
        if not held_out
        else ()
    ):
        short = _initials(name)
        pairs.append(
            NamePair("acronyms, defined", Named(name, ""), Named(short, "", f"The {name}, a body."), True)
        )
        pairs.append(NamePair("acronyms", Named(name, ""), Named(short, "", "A body."), True))
        wrong = Named(short, "", "A local club.")
        pairs.append(
            NamePair(
                "acronyms of others",
                Named(name.replace(name.split()[1], name.split()[1][0] + "orse"), ""),
                wrong,
                False,
            )
        )
    return pairs


def thing(name: str, type: str = "", iri: str = "urn:1") -> Thing:
    return Thing(iri, name, (iri,), (name,), (type,) if type else ())


def said_of(pair: NamePair) -> str:
    """What the rules say of a pair: same, open or nothing."""
    both = {"urn:1": pair.one, "urn:2": pair.other}
    found = resolve_names([thing(each.name, each.type, iri) for iri, each in both.items()])
    return "same" if found.same else "open" if found.open else "nothing"


def hand_judged() -> dict[str, int]:
    """Names of a real text, each with the number of its thing: `tests/data/chalk_names.txt`."""
    lines = (Path(__file__).parents[1] / "data" / "chalk_names.txt").read_text("utf-8").splitlines()
    things = [line.split(" = ") for line in lines if not line.startswith("#")]
    return {name: number for number, names in enumerate(things) for name in names}
