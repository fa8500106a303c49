"""What the words of a server's refusal say about response schemas: one of them, or that it takes none."""

from __future__ import annotations

import re

_OF_SCHEMAS = re.compile(
    r"response[_ ]?format|schema|structured[_ ]output|(?<![a-z])strict(?![a-z])|grammar|samplers",
    re.IGNORECASE,
)

_QUOTE = r"[`'\"]?"

#: The feature by its name; what stands behind a dot or a colon is a part of some schema.
_FEATURE = (
    rf"(?<!\w){_QUOTE}(?:(?:body|response_format|json_schema)\.)*"
    r"(?:response[_ ]?format|json[_ ]?schema|structured[_ ]outputs?|strict)(?:\.type)?"
    rf"(?!\w|\.\w|\[|{_QUOTE}\s*:){_QUOTE}"
)
#: Words that may stand between its name and the verdict on it.
_BETWEEN = (
    r"(?:[ :,=`'\"]+(?:of|as|type|value|parameter|param|argument|request|field|key|keyword|input|feature"
    r"|mode|option|supplied|the|a|is|are|was|json_schema|response[_ ]format))*[ :,`'\"]+"
)
#: The verdict after the name. What is not there "with pattern" is there without.
_IS_NOT_THERE = (
    r"(?:(?:(?:not|n't) (?:yet |currently )?"
    r"(?:supported|available|implemented|allowed|enabled|permitted|recogni[sz]ed)"
    r"|unsupported|unavailable|unknown|unrecogni[sz]ed)\b"
    r"(?!\s*:| (?:with|for|in|on) (?!this|the|your|model|api))"
    r"|enabled only|only (?:supported|available|enabled)"
    rf"|(?:must|should) be (?:one of |either )?{_QUOTE}(?:text|json_object))"
)
#: And before it.
_NO_SUCH = (
    r"(?:(?:not|n't) (?:support|recogni[sz]e|know|allow)"
    r"|unsupported|unknown|unrecogni[sz]ed|unexpected)"
)
#: Words about what the server has no idea of, or does not do with this model.
_OF_THE_FEATURE = re.compile(
    rf"{_FEATURE}{_BETWEEN}{_IS_NOT_THERE}|{_NO_SUCH}{_BETWEEN}{_FEATURE}"
    rf"|extra_forbidden.{{1,60}}{_FEATURE},?\s*[\])]",
    re.IGNORECASE,
)

#: Words about what the feature does not go together with.
_BESIDE_OTHERS = re.compile(r"\btools?\b|function|stream", re.IGNORECASE)


def are_of_schemas(words: str) -> bool:
    """Whether the request may be taken without its response schema, or with less of it."""
    return _OF_SCHEMAS.search(words) is not None


def are_of_the_feature(words: str) -> bool:
    """Whether they clearly say that the server or the model takes no schema so, whatever it says."""
    return not _BESIDE_OTHERS.search(words) and _OF_THE_FEATURE.search(words) is not None
