"""Reads the value of a json answer: the whole text, else a fenced block, else a value in the prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.positions import Span
from trustgraph_prompt.outcome import Edit, Outcome, Rejected, Repaired, Stage
from trustgraph_prompt.reader.changed_strings import ParsedStrings, parse_strings, restore_commands
from trustgraph_prompt.reader.decode import NotJson, decode, decode_error, decode_or_error, is_too_deep
from trustgraph_prompt.reader.markers import Markers
from trustgraph_prompt.reader.other_shapes import OtherShapes
from trustgraph_prompt.reader.scan_results import MarkKind, ScanResult, Values
from trustgraph_prompt.reader.scanner import Scanner
from trustgraph_prompt.reader.truncation import is_truncated

_FENCE = r"(?:(?<!`)`{3,}+|(?<!~)~{3,}+)"
_JSON = r"[ \t]*json[ \t\r]*\n"
_OPENS = re.compile(f"{_FENCE}{_JSON}", re.IGNORECASE)
_CLOSES = re.compile(f"{_FENCE}(?P<opens>{_JSON})?", re.IGNORECASE)


class Block(NamedTuple):
    """The text between two fences, and where it begins."""

    content: str
    start: int


def json_blocks(text: str, fences: Iterable[Span]) -> list[Block]:
    """The closed blocks of JSON between `fences`, which are spans of the text.

    A fence with the word `json` opens a block, and never closes one.
    """
    blocks: list[Block] = []
    begun: int | None = None
    for span in fences:
        position = span.start
        while fence := (_OPENS if begun is None else _CLOSES).search(text, position, span.end):
            position = fence.end()
            if begun is None or fence["opens"]:
                begun = position
            else:
                blocks.append(Block(text[begun : fence.start()], begun))
                begun = None
    return blocks


_AROUND = r"(?:^[ \t]*(?:`{3,}|~{3,}).*$|\n++|[^\S\n]++|<[/|]?\w+\|?>)*+"
_STRING = f'"{grammar.CHARACTERS_IN_LINE}'
_PARTIAL_LANDMARK = r"(?:`{1,2}|~{1,2}|</?\w*+)?"  # a fence or tag that is truncated
# A text that does not match is certainly not JSON.
_MAY_BE_JSON = re.compile(
    rf"{grammar.SPACE}(?:[{{[]|(?:{grammar.STRING}|{grammar.NUMBER}|true|false|null|NaN|-?Infinity){grammar.SPACE}\Z)"
)
_SCALAR = re.compile(rf'{_AROUND}({_STRING}"|[-+.\w]++){_AROUND}{_PARTIAL_LANDMARK}\Z', re.MULTILINE)
_CUT_STRING = re.compile(rf"{_AROUND}{_STRING}\\?\Z", re.MULTILINE)

_ITEMS = "items"

_MOST_VERDICTS = 5  # on fenced values in one message

_WHOLE_FLOAT = re.compile(r"\.0\b|e\+")  # matches others, too

# What may follow a value: white space, and a fence or the beginning of one.
_AFTER_VALUE = " \t\r\n`~"

# Text around valid values that shows that they may be parts of a broken one: a key, or a closing bracket.
_PART_OF_VALUE = re.compile(r'"[^"\n]{0,100}"\s*:|\}\s*[\]}]|,\s*\]')


def read_value(text: str, contract: Contract, finish_reason: str | None, markers: Markers) -> Outcome:
    """Read the one value of an answer; the caller fills in `calls`.

    A value that the contract accepts comes before others, a fenced one before one in prose. Two different
    values are ambiguous. Where the text ends within a value, that value was meant.
    """
    metered = contract.metered()
    outcome = _read(text, metered, finish_reason, markers)
    if spent := metered.spent:
        outcome = replace(outcome, value=None, reason=spent.reason, issues=(spent,), repaired=(), span=None)
    return outcome


def _read(text: str, contract: Contract, finish_reason: str | None, markers: Markers) -> Outcome:
    whole = _Candidate.of(text, 0, contract)
    if not whole.is_broken:
        return _judge(text, [whole], contract, Stage.DIRECT, is_truncated(finish_reason))
    scanner = Scanner(contract.limits, arrays=True, markers=markers)
    candidates = _candidates([*scanner.feed(text), *scanner.close()], contract)
    outcome = _read_strictly(text, contract, finish_reason, scanner, candidates)
    sound = outcome.ok and not (
        any(candidate.is_broken for candidate in candidates) or _PART_OF_VALUE.search(scanner.between)
    )
    if not contract.repair or sound or scanner.full or scanner.thinks:
        return outcome
    start = candidates[0].start if scanner.ends_draft and candidates else scanner.thinking_end
    return _read_repaired(text, contract, finish_reason, start, outcome, ends_within_value=scanner.truncated)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible value, or its `NotJson`; its text, where that begins, and whether in a code fence.

    `edits` are those that restored commands in its strings.
    """

    value: Any
    raw: str
    start: int
    fenced: bool = False
    edits: tuple[Edit, ...] = ()

    @classmethod
    def of(cls, text: str, start: int, contract: Contract, *, fenced: bool = False) -> _Candidate:
        """The candidate that is all of `text`, which begins at `start` of the answer."""
        value, depth = decode_or_error(text), contract.limits.depth
        if isinstance(value, (dict, list)) and is_too_deep(value, text, depth):
            value = decode_error(text, depth)
        raw, start = text.strip(), start + len(text) - len(text.lstrip())
        return cls.restored(value, raw, start, contract, fenced=fenced)

    @classmethod
    def restored(
        cls, value: Any, raw: str, start: int, contract: Contract, *, fenced: bool = False
    ) -> _Candidate:
        """The candidate with the commands in its strings restored."""
        if not isinstance(value, NotJson) and (found := restore_commands(value, raw, start, contract)):
            return cls(found.value, raw, start, fenced, found.edits)
        return cls(value, raw, start, fenced)

    @property
    def is_broken(self) -> bool:
        return isinstance(self.value, NotJson)

    def text_after(self, text: str) -> str:
        return text[self.start + len(self.raw) :]


def _read_strictly(
    text: str, contract: Contract, finish_reason: str | None, scanner: Scanner, candidates: list[_Candidate]
) -> Outcome:
    """The outcome without repair."""
    if contract.fences == "strict" and (blocks := _json_blocks(text, contract, scanner)):
        return _choose(text, blocks, contract, truncated=False)
    cut = scanner.truncated or _CUT_STRING.match(text, scanner.thinking_end) is not None
    truncated = is_truncated(finish_reason, within_value=cut or scanner.full, within_fence=scanner.fenced)
    if scalar := _scalar(text, scanner.thinking_end, contract):
        return _judge(text, [scalar], contract, Stage.EXTRACTED, truncated)
    if cut or scanner.full:
        what = "the answer ends within " + ("thinking" if scanner.thinks else "a value")
        what = "too many values to choose from" if scanner.full else what
        return _fail(contract, Reason.TRUNCATED, what, truncated)
    if contract.fences == "one":
        fenced = [candidate for candidate in candidates if candidate.fenced]
        if len(fenced) > 1 and _differ(fenced, contract, text):
            return _fail(contract, Reason.AMBIGUOUS, _verdicts(fenced, contract, text), truncated)
        candidates = fenced[-1:] or candidates
    return _choose(text, candidates, contract, truncated, first=contract.fences == "strict")


def _differ(candidates: list[_Candidate], contract: Contract, text: str) -> bool:
    """Whether the candidates differ, after the contract converted them."""
    if any(candidate.is_broken for candidate in candidates):
        return True
    values = [(_fit(candidate.value, contract, text) or (candidate.value,))[0] for candidate in candidates]
    identities = map(_identity, values, (candidate.raw for candidate in candidates))
    return len(set(identities)) > 1


def _verdicts(fenced: list[_Candidate], contract: Contract, text: str) -> str:
    """A message with the number of fenced values, and what is wrong with each."""
    verdicts = [
        f"number {number} {_verdict(candidate, contract, text)}"
        for number, candidate in enumerate(fenced[:_MOST_VERDICTS], 1)
    ]
    more = [f"and {len(fenced) - _MOST_VERDICTS} more"] if len(fenced) > _MOST_VERDICTS else []
    return f"{len(fenced)} values in code fences, expected one: {'; '.join([*verdicts, *more])}"


def _verdict(candidate: _Candidate, contract: Contract, text: str) -> str:
    if candidate.is_broken:
        return f"is no JSON ({candidate.value})"
    if _fit(candidate.value, contract, text):
        return "would do"
    issues = "; ".join(map(str, _issues(candidate.value, contract, text)))
    return f"would not ({excerpt(issues)})"


def _json_blocks(text: str, contract: Contract, scanner: Scanner) -> list[_Candidate]:
    """The closed blocks of JSON, each as one candidate, except those in thinking.

    A block that is certainly not JSON counts only if it is the last, to tell why there is no value.
    """
    begin = 0 if scanner.ends_draft else scanner.thinking_end
    blocks = json_blocks(text, (fence for fence in scanner.fences if fence.start >= begin))
    return [
        _Candidate.of(block.content, block.start, contract, fenced=True)
        for block in blocks
        if _MAY_BE_JSON.match(block.content) or block is blocks[-1]
    ]


def _choose(
    text: str,
    candidates: list[_Candidate],
    contract: Contract,
    truncated: bool | None,
    *,
    first: bool = False,
) -> Outcome:
    """The outcome of the candidates, some of which may be broken."""
    values = [candidate for candidate in candidates if not candidate.is_broken]
    if values:
        alone = len(candidates) == 1 and values[0].raw == text.strip()
        stage = Stage.DIRECT if alone else Stage.EXTRACTED
        return _judge(text, values, contract, stage, truncated, first=first)
    if candidates:
        broken = candidates[-1]
        issues = (Issue(Reason.INVALID_JSON, f"no JSON: {broken.value}"),)
        truncated = truncated and not _is_closed(broken.value, broken.text_after(text))
        return _rejected(broken, issues, contract, truncated)
    return _fail(contract, Reason.EXTRACTION_FAILED, "no JSON in the answer", truncated)


def _read_repaired(
    text: str,
    contract: Contract,
    finish_reason: str | None,
    start: int,
    strict: Outcome,
    *,
    ends_within_value: bool,
) -> Outcome:
    """The outcome after repair; `strict`, the one without, where repair finds nothing, or the same.

    Where the text ends within a value, that value was meant, unless nothing is left of it.
    """
    # Imported late: its patterns take longer to compile than all others.
    from trustgraph_prompt.reader.repair.accepted import Repair

    by_rank: dict[tuple[bool, Stage], dict[str, tuple[Any, Repaired]]] = {}
    refused: tuple[_Candidate, bool] | None = None
    for found in Repair(contract).values(text, start, lambda value: _fit(value, contract, text)):
        reading = found.reading
        if ends_within_value and reading.value:
            by_rank.clear()
        raw = text[found.start : reading.end]
        if found.fit is None:
            if reading.edits or reading.truncated:
                refused = _Candidate(reading.value, raw, found.start), reading.truncated
            continue
        edits = reading.edits
        if found.fit.parsed is not None:
            edits = tuple(sorted((*edits, *found.fit.parsed.edits(raw, found.start))))
        stage = Stage.SALVAGED if reading.truncated else Stage.REPAIRED if edits else Stage.EXTRACTED
        repaired = Repaired(0, raw, found.start, edits, stage)
        same_rank = by_rank.setdefault((not found.fenced, stage), {})
        same_rank[_identity(found.fit.value, raw)] = found.fit.value, repaired
    if not by_rank:
        if refused is None or strict.reason is Reason.TRUNCATED:
            return strict
        likeliest, cut = refused
        closed = not cut and _is_closed(likeliest.value, likeliest.text_after(text))
        truncated = cut or (strict.truncated and not closed)
        outcome = _rejected(likeliest, contract.issues(likeliest.value), contract, truncated)
        return replace(outcome, reason=Reason.REPAIR_FAILED)
    best = min(by_rank)
    if len(by_rank[best]) > 1:
        return _ambiguous(len(by_rank[best]), contract, strict.truncated)
    [(value, repaired)] = by_rank[best].values()
    stage, span = repaired.stage, (repaired.start, repaired.start + len(repaired.raw))
    if stage is Stage.EXTRACTED:
        return (
            strict
            if strict.ok
            else Outcome(value, Reason.SUCCESS, contract, stage, truncated=strict.truncated, span=span)
        )
    closed = stage is Stage.REPAIRED and _is_closed(value, text[span[1] :])
    truncated = is_truncated(finish_reason, within_value=stage is Stage.SALVAGED) and not closed
    return Outcome(
        value, Reason.SUCCESS, contract, stage, truncated=truncated, repaired=(repaired,), span=span
    )


def _judge(
    text: str,
    candidates: list[_Candidate],
    contract: Contract,
    stage: Stage,
    truncated: bool | None,
    *,
    first: bool = False,
) -> Outcome:
    """The outcome with the one candidate that the contract accepts, or why there is none.

    Several are ambiguous. With `first`, the first of them counts that is not empty: prose may mention `[]`.
    """
    fitting = [(candidate, fit) for candidate in candidates if (fit := _fit(candidate.value, contract, text))]
    fitting = [(candidate, fit) for candidate, fit in fitting if fit.parsed is None] or fitting
    if not fitting and contract.fences != "strict" and contract.extra != "forbid":
        fitting = [(each, fit) for each in candidates if (fit := _fit_other_shape(each.value, contract))]
    if not fitting:
        meant = next((candidate for candidate in reversed(candidates) if candidate.fenced), candidates[-1])
        truncated = truncated and not _is_closed(meant.value, meant.text_after(text))
        return _rejected(meant, _issues(meant.value, contract, text), contract, truncated, stage)
    best = [(candidate, fit) for candidate, fit in fitting if candidate.fenced] or fitting
    if first:
        best = [next((pair for pair in best if pair[1].value not in ([], {})), best[0])]
    different = {_identity(fit.value, candidate.raw) for candidate, fit in best} if len(best) > 1 else best
    if len(different) > 1:
        return _ambiguous(len(different), contract, truncated)
    last, fit = best[-1]
    truncated = truncated and not _is_closed(last.value, last.text_after(text))
    stage = max(stage, Stage.EXTRACTED) if fit.unwrapped else stage
    span = last.start, last.start + len(last.raw)
    repaired: tuple[Repaired, ...] = ()
    edits = last.edits
    if fit.parsed is not None:
        edits = tuple(sorted((*edits, *fit.parsed.edits(last.raw, last.start))))
    if edits:
        stage = Stage.REPAIRED
        repaired = (Repaired(0, last.raw, last.start, edits, stage),)
    return Outcome(
        fit.value, Reason.SUCCESS, contract, stage, truncated=truncated, span=span, repaired=repaired
    )


def _is_closed(value: Any, after: str) -> bool:
    """Whether a value has visibly ended, so that a truncated text is not truncated within it.

    A number may lack digits. After prose, another value may have been meant.
    """
    return isinstance(value, (dict, list, str, NotJson)) and not after.strip(_AFTER_VALUE)


def _issues(value: Any, contract: Contract, text: str) -> tuple[Issue, ...]:
    """What is wrong with a value; with the list, where the value wraps one that was asked for."""
    if found := parse_strings(value, text, contract):
        value = found.value
    name = _wraps(value, contract)
    if name is None or not isinstance(value[name], list):
        return contract.issues(value)
    issues = contract.issues(value[name])
    return tuple(replace(issue, path=pointer([name]) + issue.path) for issue in issues)


class _Fit(NamedTuple):
    """A value as the contract converted it; whether it was unwrapped, and whether its strings were parsed."""

    value: Any
    unwrapped: bool
    parsed: ParsedStrings | None = None


def _fit(value: Any, contract: Contract, text: str) -> _Fit | None:
    """The value as the contract accepts it, if need be unwrapped or with its strings parsed; else None."""
    if fit := _fit_unparsed(value, contract):
        return fit
    found = parse_strings(value, text, contract)
    name = None if found is not None else _wraps(value, contract)
    if name is not None and (found := parse_strings(value[name], text, contract)):
        paths = (pointer([name]) + path for path in found.paths)
        found = ParsedStrings({name: found.value}, tuple(paths))
    if found is not None and (fit := _fit_unparsed(found.value, contract)):
        return fit._replace(parsed=found)
    return None


def _fit_unparsed(value: Any, contract: Contract) -> _Fit | None:
    taken, accepted = contract.take(value)
    if accepted:
        return _Fit(taken, False)
    if (name := _wraps(value, contract)) is not None:
        taken, accepted = contract.take(value[name])
        if accepted:
            return _Fit(taken, True)
    return None


def _fit_other_shape(value: Any, contract: Contract) -> _Fit | None:
    if not isinstance(value, dict):
        return None
    shapes = OtherShapes(contract)
    if contract.many and shapes.is_nothing(value):
        taken, accepted = contract.take([])
        return _Fit(taken, True) if accepted else None
    if (found := shapes.objects(json.dumps(value), 0)) is None:
        return None
    objects = found.values if contract.many else found.values[0]
    taken, accepted = contract.take(objects)
    return _Fit(taken, True) if accepted and (contract.many or len(found.values) == 1) else None


def _wraps(value: Any, contract: Contract) -> str | None:
    """The key under which an object wraps the list that was asked for; None if it wraps none.

    Its only key, which must be `items` where fences are strict; or `items` among other keys that are ignored.
    """
    if not contract.many or not isinstance(value, dict):
        return None
    if _ITEMS in value and (len(value) == 1 or contract.extra == "ignore"):
        return _ITEMS
    return next(iter(value)) if len(value) == 1 and contract.fences != "strict" else None


def _identity(value: Any, raw: str) -> str:
    """A text that is the same for equal values, such as 1 and 1.0; `raw` for values too deep to encode."""
    try:
        text = json.dumps(value, sort_keys=True)
        return json.dumps(json.loads(text, parse_float=_number)) if _WHOLE_FLOAT.search(text) else text
    except RecursionError:
        return raw


def _number(digits: str) -> float:
    number = float(digits)
    return int(number) if number.is_integer() else number


def _rejected(
    candidate: _Candidate,
    issues: tuple[Issue, ...],
    contract: Contract,
    truncated: bool | None,
    stage: Stage = Stage.DIRECT,
) -> Outcome:
    rejected = Rejected(0, candidate.raw, issues, candidate.start)
    return Outcome(
        None, issues[0].reason, contract, stage, rejected=(rejected,), issues=issues, truncated=truncated
    )


def _ambiguous(count: int, contract: Contract, truncated: bool | None) -> Outcome:
    return _fail(contract, Reason.AMBIGUOUS, f"{count} different values would do", truncated)


def _fail(contract: Contract, reason: Reason, message: str, truncated: bool | None) -> Outcome:
    return Outcome(None, reason, contract, issues=(Issue(reason, message),), truncated=truncated)


def _candidates(results: list[ScanResult], contract: Contract) -> list[_Candidate]:
    """The candidates among the results of a scan, without those in thinking."""
    kept: list[_Candidate] = []
    aside = 0
    for result in results:
        if isinstance(result, Values):
            kept += [
                _Candidate.restored(value, raw, start, contract, fenced=result.fenced)
                for value, raw, start in zip(result.values, result.raws, result.starts, strict=True)
            ]
            continue
        match result.kind:
            case MarkKind.DRAFT:
                kept, aside = [], 0
            case MarkKind.ASIDE:
                aside = len(kept)
            case MarkKind.ASIDE_ENDS:
                del kept[aside:]
            case _:
                value = result.value or decode_error(result.raw, contract.limits.depth)
                kept.append(_Candidate(value, result.raw, result.start, result.fenced))
    return kept


def _scalar(text: str, start: int, contract: Contract) -> _Candidate | None:
    """The string, number or literal that is all of `text` except for fences and tags.

    Thinking ends at `start`, unless that end is a part of the string.
    """
    match = _SCALAR.match(text)
    if match is None or match.end(1) < start:
        match = _SCALAR.match(text, start)
    try:
        return match and _Candidate.restored(decode(match[1]), match[1], match.start(1), contract)
    except NotJson:
        return None
