"""The datatypes of attributes: what they are called in a question, and which values are of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from trustgraph_prompt.graph.vocabulary import XSD
from trustgraph_prompt.grounding.dates import readings

_LONGEST: Final = 100  # characters of a value that may be a number, a date or the like

_WHOLE = "integer int long short byte unsignedInt unsignedLong unsignedShort unsignedByte"
_WHOLE += " nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"
_NAMES: Final = {
    **dict.fromkeys(_WHOLE.split(), "a whole number"),
    **dict.fromkeys(("decimal", "double", "float"), "a number"),
    **dict.fromkeys(("date", "dateTime", "dateTimeStamp"), "a date"),
    "gYear": "a year",
    "gYearMonth": "a month",
    "time": "a time",
    "duration": "a duration",
    "boolean": "true or false",
    **dict.fromkeys(("string", "normalizedString", "token", "langString", "Literal"), "a text"),
}
_WORDS = "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"  # which texts spell out
_DIGITS = r"(?:\d+|\d{1,3}(?:([,.'’\s])\d{3})(?:\1\d{3})*)"
_FORMS: Final = {
    "a whole number": re.compile(rf"[-+\u2212]?{_DIGITS}|{_WORDS}", re.IGNORECASE),
    "a number": re.compile(
        rf"[-+\u2212]?(?:{_DIGITS}(?:[.,]\d+)?|[.,]\d+)(?:e[-+]?\d+)?|[-+]?INF|NaN|{_WORDS}", re.IGNORECASE
    ),
    "a year": re.compile(r"-?\d{1,5}(?:Z|[-+]\d\d:\d\d)?"),
    "a month": re.compile(r"-?\d{4,5}-\d\d(?:Z|[-+]\d\d:\d\d)?"),
    "a time": re.compile(r"\d{1,2}[:.]\d\d(?:[:.]\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:\d\d)?"),
    "true or false": re.compile(r"true|false|yes|no|1|0", re.IGNORECASE),
}
_DATE = re.compile(r"-?\d{4,5}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[-+]\d\d:\d\d)?")


def named(datatypes: Collection[str]) -> str:
    """What a value of one of these datatypes is called: `a date`; of an unknown one, or none, `a value`."""
    names = [*dict.fromkeys(_NAMES.get(_local(each), "a value") for each in datatypes)]
    return "a value" if not names or "a value" in names else " or ".join(names)


def is_of(value: str, datatypes: Collection[str]) -> bool:
    """Whether a value, as a text writes it, is of one of these datatypes; of an unknown one any value is."""
    return not datatypes or any(_is_one(value.strip(), _local(each)) for each in datatypes)


def _is_one(value: str, datatype: str) -> bool:
    name = _NAMES.get(datatype, "")
    if name == "a date":
        return len(value) <= _LONGEST and (bool(_DATE.fullmatch(value)) or bool(_days(value)))
    if name == "a month" and len(value) <= _LONGEST and readings(value):
        return True
    form = _FORMS.get(name)
    if form is None:
        return True
    return len(value) <= _LONGEST and form.fullmatch(value) is not None and _has_sign(value, datatype)


def _days(value: str) -> list[int]:
    return [each.day for each in readings(value) if each.day]


def _has_sign(value: str, datatype: str) -> bool:
    """Whether a whole number has no sign that its datatype excludes."""
    if datatype.startswith("unsigned") or datatype in ("nonNegativeInteger", "positiveInteger"):
        return not value.startswith(("-", "\u2212"))
    return datatype != "negativeInteger" or value.startswith(("-", "\u2212"))


def _local(datatype: str) -> str:
    return datatype.removeprefix(XSD).rpartition(":")[2].rpartition("#")[2]
