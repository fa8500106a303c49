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
from trustgraph_prompt.reader.changed_strings import LatexCommands, ParsedStrings, parse_strings
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


def _json_blocks(text: str, fences: Iterable[Span]) -> list[tuple[str, int]]:
    """The contents of the closed blocks of JSON between `fences`, spans of the text, and where they begin.

    A fence with the word `json` opens a block, and never closes one.
    """
    blocks: list[tuple[str, int]] = []
    begun: int | None = None
    for span in fences:
        position = span.start
        while fence := (_OPENS if begun is None else _CLOSES).search(text, position, span.end):
            position = fence.end()
            if begun is None or fence["opens"]:
                begun = position
            else:
                blocks.append((text[begun : fence.start()], begun))
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


def read_value(
    text: str, contract: Contract, finish_reason: str | None, markers: Markers, commands: LatexCommands
) -> Outcome:
    """Read the one value of an answer; the caller fills in `calls`.

    A value that the contract accepts comes before others, a fenced one before one in prose. Two different
    values are ambiguous. Where the text ends within a value, that value was meant.
    """
    metered = contract.metered()
    outcome = _JsonAnswer(text, metered, finish_reason, commands).read(markers)
    if spent := metered.spent:
        outcome = replace(outcome, value=None, reason=spent.reason, issues=(spent,), repaired=(), span=None)
    return outcome


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

    @property
    def is_broken(self) -> bool:
        return isinstance(self.value, NotJson)

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.start + len(self.raw)


class _Fit(NamedTuple):
    """A value as the contract converted it; whether it was unwrapped, and whether its strings were parsed."""

    value: Any
    unwrapped: bool
    parsed: ParsedStrings | None = None

    def edits(self, raw: str, start: int, others: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """All edits of the value, whose text `raw` begins at `start`: `others`, and parsed strings."""
        return others if self.parsed is None else tuple(sorted((*others, *self.parsed.edits(raw, start))))


@dataclass(frozen=True, slots=True)
class _JsonAnswer:
    """The text of an answer, the contract for it, why the model stopped, and what restores commands."""

    text: str
    contract: Contract
    finish_reason: str | None
    commands: LatexCommands

    def read(self, markers: Markers) -> Outcome:
        """The outcome: of the whole text if that is JSON, else of what a scanner finds in it."""
        contract = self.contract
        whole = self._block(self.text, 0)
        if not whole.is_broken:
            return self._judge([whole], Stage.DIRECT, is_truncated(self.finish_reason))
        scanner = Scanner(contract.limits, arrays=True, markers=markers)
        candidates = self._candidates([*scanner.feed(self.text), *scanner.close()])
        outcome = self._read_strictly(scanner, candidates)
        sound = outcome.ok and not (
            any(candidate.is_broken for candidate in candidates) or _PART_OF_VALUE.search(scanner.between)
        )
        if not contract.repair or sound or scanner.full or scanner.thinks:
            return outcome
        start = candidates[0].start if scanner.ends_draft and candidates else scanner.thinking_end
        return self._read_repaired(start, outcome, ends_within_value=scanner.truncated)

    # Candidates

    def _restored(self, value: Any, raw: str, start: int, fenced: bool = False) -> _Candidate:
        """The candidate with the commands in its strings restored."""
        if not isinstance(value, NotJson) and (found := self.commands.restored(value, raw, start)):
            return _Candidate(found.value, raw, start, fenced, found.edits)
        return _Candidate(value, raw, start, fenced)

    def _block(self, text: str, start: int, *, fenced: bool = False) -> _Candidate:
        """The candidate that is all of `text`, which begins at `start` of the answer."""
        value, depth = decode_or_error(text), self.contract.limits.depth
        if isinstance(value, (dict, list)) and is_too_deep(value, text, depth):
            value = decode_error(text, depth)
        return self._restored(value, text.strip(), start + len(text) - len(text.lstrip()), fenced)

    def _blocks(self, scanner: Scanner) -> list[_Candidate]:
        """The closed blocks of JSON, each as one candidate, except those in thinking.

        A block that is certainly not JSON counts only if it is the last, to tell why there is no value.
        """
        begin = 0 if scanner.ends_draft else scanner.thinking_end
        blocks = _json_blocks(self.text, (fence for fence in scanner.fences if fence.start >= begin))
        return [
            self._block(content, start, fenced=True)
            for content, start in blocks
            if _MAY_BE_JSON.match(content) or start == blocks[-1][1]
        ]

    def _candidates(self, results: list[ScanResult]) -> list[_Candidate]:
        """The candidates among the results of a scan, without those in thinking."""
        kept: list[_Candidate] = []
        aside = 0
        for result in results:
            if isinstance(result, Values):
                found = zip(result.values, result.raws, result.starts, strict=True)
                kept += [self._restored(*each, result.fenced) for each in found]
                continue
            match result.kind:
                case MarkKind.DRAFT:
                    kept, aside = [], 0
                case MarkKind.ASIDE:
                    aside = len(kept)
                case MarkKind.ASIDE_ENDS:
                    del kept[aside:]
                case _:
                    value = result.value or decode_error(result.raw, self.contract.limits.depth)
                    kept.append(_Candidate(value, result.raw, result.start, result.fenced))
        return kept

    def _scalar(self, start: int) -> _Candidate | None:
        """The string, number or literal that is all of the text except for fences and tags.

        Thinking ends at `start`, unless that end is a part of the string.
        """
        match = _SCALAR.match(self.text)
        if match is None or match.end(1) < start:
            match = _SCALAR.match(self.text, start)
        try:
            return match and self._restored(decode(match[1]), match[1], match.start(1))
        except NotJson:
            return None

    # The choice among them

    def _read_strictly(self, scanner: Scanner, candidates: list[_Candidate]) -> Outcome:
        """The outcome without repair."""
        fences = self.contract.fences
        if fences == "strict" and (blocks := self._blocks(scanner)):
            return self._choose(blocks, truncated=False)
        cut = scanner.truncated or _CUT_STRING.match(self.text, scanner.thinking_end) is not None
        truncated = is_truncated(
            self.finish_reason, within_value=cut or scanner.full, within_fence=scanner.fenced
        )
        if scalar := self._scalar(scanner.thinking_end):
            return self._judge([scalar], Stage.EXTRACTED, truncated)
        if cut or scanner.full:
            what = "the answer ends within " + ("thinking" if scanner.thinks else "a value")
            what = "too many values to choose from" if scanner.full else what
            return self._fail(Reason.TRUNCATED, what, truncated)
        if fences == "one":
            fenced = [candidate for candidate in candidates if candidate.fenced]
            if len(fenced) > 1 and self._differ(fenced):
                return self._fail(Reason.AMBIGUOUS, self._verdicts(fenced), truncated)
            candidates = fenced[-1:] or candidates
        return self._choose(candidates, truncated, first=fences == "strict")

    def _differ(self, candidates: list[_Candidate]) -> bool:
        """Whether the candidates differ, after the contract converted them."""
        if any(candidate.is_broken for candidate in candidates):
            return True
        values = [(self._fit(candidate.value) or (candidate.value,))[0] for candidate in candidates]
        identities = map(_identity, values, (candidate.raw for candidate in candidates))
        return len(set(identities)) > 1

    def _verdicts(self, fenced: list[_Candidate]) -> str:
        """A message with the number of fenced values, and what is wrong with each."""
        verdicts = [
            f"number {number} {self._verdict(candidate)}"
            for number, candidate in enumerate(fenced[:_MOST_VERDICTS], 1)
        ]
        more = [f"and {len(fenced) - _MOST_VERDICTS} more"] if len(fenced) > _MOST_VERDICTS else []
        return f"{len(fenced)} values in code fences, expected one: {'; '.join([*verdicts, *more])}"

    def _verdict(self, candidate: _Candidate) -> str:
        if candidate.is_broken:
            return f"is no JSON ({candidate.value})"
        if self._fit(candidate.value):
            return "would do"
        return f"would not ({excerpt('; '.join(map(str, self._issues(candidate.value))))})"

    def _choose(
        self, candidates: list[_Candidate], truncated: bool | None, *, first: bool = False
    ) -> Outcome:
        """The outcome of the candidates, some of which may be broken."""
        values = [candidate for candidate in candidates if not candidate.is_broken]
        if values:
            alone = len(candidates) == 1 and values[0].raw == self.text.strip()
            stage = Stage.DIRECT if alone else Stage.EXTRACTED
            return self._judge(values, stage, truncated, first=first)
        if candidates:
            issue = Issue(Reason.INVALID_JSON, f"no JSON: {candidates[-1].value}")
            return self._rejected(candidates[-1], (issue,), truncated)
        return self._fail(Reason.EXTRACTION_FAILED, "no JSON in the answer", truncated)

    def _judge(
        self, candidates: list[_Candidate], stage: Stage, truncated: bool | None, *, first: bool = False
    ) -> Outcome:
        """The outcome with the one candidate that the contract accepts, or why there is none.

        Several are ambiguous. With `first`, the first of them counts that is not empty: prose may mention
        `[]`.
        """
        contract = self.contract
        fitting = [(each, fit) for each in candidates if (fit := self._fit(each.value))]
        fitting = [(each, fit) for each, fit in fitting if fit.parsed is None] or fitting
        if not fitting and contract.fences != "strict" and contract.extra != "forbid":
            fitting = [(each, fit) for each in candidates if (fit := _fit_other_shape(each.value, contract))]
        if not fitting:
            meant = next((each for each in reversed(candidates) if each.fenced), candidates[-1])
            return self._rejected(meant, self._issues(meant.value), truncated, stage)
        best = [(each, fit) for each, fit in fitting if each.fenced] or fitting
        if first:
            best = [next((pair for pair in best if pair[1].value not in ([], {})), best[0])]
        different = {_identity(fit.value, each.raw) for each, fit in best} if len(best) > 1 else best
        if len(different) > 1:
            return self._ambiguous(len(different), truncated)
        last, fit = best[-1]
        truncated = truncated and not self._is_closed(last)
        stage = max(stage, Stage.EXTRACTED) if fit.unwrapped else stage
        repaired: tuple[Repaired, ...] = ()
        if edits := fit.edits(last.raw, last.start, last.edits):
            stage = Stage.REPAIRED
            repaired = (Repaired(0, last.raw, last.start, edits, stage),)
        return Outcome(
            fit.value,
            Reason.SUCCESS,
            contract,
            stage,
            truncated=truncated,
            span=last.span,
            repaired=repaired,
        )

    # Repair

    def _read_repaired(self, start: int, strict: Outcome, *, ends_within_value: bool) -> Outcome:
        """The outcome after repair; `strict`, the one without, where repair finds nothing, or the same.

        Where the text ends within a value, that value was meant, unless nothing is left of it.
        """
        best, refused = self._best_repaired(start, ends_within_value=ends_within_value)
        if not best:
            if refused is None or strict.reason is Reason.TRUNCATED:
                return strict
            likeliest, cut = refused
            issues = self.contract.issues(likeliest.value)
            outcome = self._rejected(likeliest, issues, cut or strict.truncated, is_cut=cut)
            return replace(outcome, reason=Reason.REPAIR_FAILED)
        if len(best) > 1:
            return self._ambiguous(len(best), strict.truncated)
        [(value, repaired)] = best
        meant, stage = _Candidate(value, repaired.raw, repaired.start), repaired.stage
        outcome = Outcome(
            value, Reason.SUCCESS, self.contract, stage, truncated=strict.truncated, span=meant.span
        )
        if stage is Stage.EXTRACTED:
            return strict if strict.ok else outcome
        closed = stage is Stage.REPAIRED and self._is_closed(meant)
        truncated = is_truncated(self.finish_reason, within_value=stage is Stage.SALVAGED) and not closed
        return replace(outcome, truncated=truncated, repaired=(repaired,))

    def _best_repaired(
        self, start: int, *, ends_within_value: bool
    ) -> tuple[list[tuple[Any, Repaired]], tuple[_Candidate, bool] | None]:
        """The different values that fit best once repaired; and the last one refused, and whether it is cut.

        Those in fences fit better than others, and then those that took less to read.
        """
        # Imported late: its patterns take longer to compile than all others.
        from trustgraph_prompt.reader.repair.best_reading import Repair

        by_rank: dict[tuple[bool, Stage], dict[str, tuple[Any, Repaired]]] = {}
        refused: tuple[_Candidate, bool] | None = None
        for found in Repair(self.contract, self.commands).values(self.text, start, self._fit):
            reading = found.reading
            if ends_within_value and reading.value:
                by_rank.clear()
            raw = self.text[found.start : reading.end]
            if found.fit is None:
                if reading.edits or reading.truncated:
                    refused = _Candidate(reading.value, raw, found.start), reading.truncated
                continue
            edits = found.fit.edits(raw, found.start, reading.edits)
            stage = Stage.SALVAGED if reading.truncated else Stage.REPAIRED if edits else Stage.EXTRACTED
            repaired = Repaired(0, raw, found.start, edits, stage)
            same_rank = by_rank.setdefault((not found.fenced, stage), {})
            same_rank[_identity(found.fit.value, raw)] = found.fit.value, repaired
        return list(by_rank[min(by_rank)].values()) if by_rank else [], refused

    # Verdicts

    def _is_closed(self, candidate: _Candidate) -> bool:
        """Whether a value has visibly ended, so that a truncated text is not truncated within it.

        A number may lack digits. After prose, another value may have been meant.
        """
        after = self.text[candidate.span[1] :]
        return isinstance(candidate.value, (dict, list, str, NotJson)) and not after.strip(_AFTER_VALUE)

    def _issues(self, value: Any) -> tuple[Issue, ...]:
        """What is wrong with a value; with the list, where the value wraps one that was asked for."""
        if found := parse_strings(value, self.text, self.contract):
            value = found.value
        name = _wraps(value, self.contract)
        if name is None or not isinstance(value[name], list):
            return self.contract.issues(value)
        issues = self.contract.issues(value[name])
        return tuple(replace(issue, path=pointer([name]) + issue.path) for issue in issues)

    def _fit(self, value: Any) -> _Fit | None:
        """The value as the contract accepts it, perhaps unwrapped or with its strings parsed; else None."""
        if fit := _fit_unparsed(value, self.contract):
            return fit
        found = parse_strings(value, self.text, self.contract)
        name = None if found is not None else _wraps(value, self.contract)
        if name is not None and (found := parse_strings(value[name], self.text, self.contract)):
            paths = (pointer([name]) + path for path in found.paths)
            found = ParsedStrings({name: found.value}, tuple(paths))
        if found is not None and (fit := _fit_unparsed(found.value, self.contract)):
            return fit._replace(parsed=found)
        return None

    def _rejected(
        self,
        candidate: _Candidate,
        issues: tuple[Issue, ...],
        truncated: bool | None,
        stage: Stage = Stage.DIRECT,
        *,
        is_cut: bool = False,
    ) -> Outcome:
        truncated = truncated and (is_cut or not self._is_closed(candidate))
        rejected = Rejected(0, candidate.raw, issues, candidate.start)
        return Outcome(
            None,
            issues[0].reason,
            self.contract,
            stage,
            rejected=(rejected,),
            issues=issues,
            truncated=truncated,
        )

    def _ambiguous(self, count: int, truncated: bool | None) -> Outcome:
        return self._fail(Reason.AMBIGUOUS, f"{count} different values would do", truncated)

    def _fail(self, reason: Reason, message: str, truncated: bool | None) -> Outcome:
        return Outcome(None, reason, self.contract, issues=(Issue(reason, message),), truncated=truncated)


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
