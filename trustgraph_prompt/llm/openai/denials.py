"""Finds out which feature or parameter an error says the server does not support.

A value that is refused, for its size or its form, is another matter: the parameter itself is known.
"""

from __future__ import annotations

import re

from trustgraph_prompt.llm.records import LIMITS, NUMBERS

#: Words of a refusal that concerns the response schema.
OF_SCHEMAS = re.compile(
    r"response[_ ]?format|schema|structured[_ ]output|(?<![a-z])strict(?![a-z])|grammar|samplers|json mode",
    re.IGNORECASE,
)
#: Those that a server also says when it takes the refusal for a defect of its own (status 5xx).
OF_GRAMMARS = re.compile(r"grammar|samplers|guided[_ ](?:decoding|json)", re.IGNORECASE)

_QUOTE = r"[`'\"]?"

#: The name of the feature; after a dot or a colon it is a part of some schema.
_FEATURE = (
    rf"(?<!\w){_QUOTE}(?:(?:body|response_format|json_schema)\.)*"
    r"(?:response[_ ]?format|json[_ ]?schema|structured[_ ]outputs?|strict|json mode(?: response)?)"
    r"(?:\.type)?"
    rf"(?!\w|\.\w|\[|{_QUOTE}\s*:){_QUOTE}"
)
#: Parameters that a call can do without, or that have another name, as servers write them: presencePenalty.
_PARAMETERS = {name.replace("_", ""): name for name in ("stream_options", "stop", *LIMITS, *NUMBERS)}
_PARAMETER = (
    rf"(?<![\w-]){_QUOTE}(?:body\.)?"
    rf"({'|'.join(name.replace('_', '_?') for name in _PARAMETERS.values())})(?:\.include_usage)?"
    rf"(?![\w-]|\.\w|\[){_QUOTE}"
)
#: Words that may stand between the name and the verdict.
_BETWEEN = (
    r"(?:[ :,=`'\"\[(]+(?:of|as|types?|values?|parameters?|param|arguments?|request|fields?|keys?|keyword"
    r"|name|property|extra|inputs?|feature|mode|option|supplied|the|a|is|are|was|json_schema"
    r"|response[_ ]format))*[ :,`'\"\])]+\[?'?"
)
#: A verdict after the name. "Not supported with pattern" implies that it is supported without.
_IS_DENIED = (
    r"(?:(?:(?:not|n't) (?:yet |currently )?"
    r"(?:supported|available|implemented|allowed|enabled|permitted|recogni[sz]ed)"
    r"|unsupported|unavailable|unknown|unrecogni[sz]ed|deprecated)\b"
    r"(?!\s*:| (?:with|for|in|on) (?!this|the|your|model|reasoning|api))"
    r"|enabled only|only (?:supported|available|enabled)"
    rf"|(?:must|should) be (?:one of |either )?{_QUOTE}(?:text|json_object))"
)
#: A verdict before the name.
_DENIED = (
    r"(?:(?:not|n't) (?:support|recogni[sz]e|know|allow)"
    r"|not supported (?:on|by|for) th(?:is|e) (?:model|server)"
    r"|unsupported|unknown|unrecogni[sz]ed|unexpected)"
)


def _denial(name: str) -> re.Pattern[str]:
    """Words that deny what has this name, for the server or for this model."""
    return re.compile(
        rf"{name}{_BETWEEN}{_IS_DENIED}|{_DENIED}{_BETWEEN}{name}"
        rf"|extra_forbidden.{{1,60}}{name},?\s*[\])]",
        re.IGNORECASE,
    )


_OF_THE_FEATURE, _OF_A_PARAMETER = _denial(_FEATURE), _denial(_PARAMETER)

#: OpenAI's reasoning models know the temperature, and take no other one than theirs.
_ONLY_THE_DEFAULT = re.compile(rf"{_PARAMETER}.{{1,80}}only the default", re.IGNORECASE)

#: Words about a combination that is not supported.
_BESIDE_OTHERS = re.compile(r"\btools?\b|function|stream", re.IGNORECASE)

#: Words about the size of a value: another value would be accepted.
_OF_SIZE = re.compile(
    r"too (?:large|small|long|high|low|many|big)|must be|at (?:most|least)|(?:less|greater|larger) than"
    r"|between|exceed|maximum|minimum|range|[<>]",
    re.IGNORECASE,
)


def denies_schemas(words: str) -> bool:
    """Whether the words clearly say that the server or the model supports no schema on this path."""
    return not _BESIDE_OTHERS.search(words) and _OF_THE_FEATURE.search(words) is not None


def denied_parameter(words: str) -> str | None:
    """The parameter that the words say is not supported or not known, but for the size of its value."""
    if _OF_SIZE.search(words):
        return None
    found = _OF_A_PARAMETER.search(words) or _ONLY_THE_DEFAULT.search(words)
    return found and parameter_called(next(filter(None, found.groups())))


def parameter_called(name: str) -> str | None:
    """The parameter of that name, in any spelling; None for one that a call cannot do without."""
    return _PARAMETERS.get(name.partition(".")[0].replace("_", "").lower())
