"""Reads ontologies in the format of the Open Biological and Biomedical Ontologies, OBO 1.2 and 1.4."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from trustgraph_prompt.errors import ConfigError, excerpt
from trustgraph_prompt.graph.ontology_config import MAX_ALTERNATIVES

_PURL: Final = "http://purl.obolibrary.org/obo/"

_TAG = re.compile(r"([A-Za-z][\w-]*):[ \t]*+(.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(\w*)')
_COMMENT = re.compile(r"(?<!\\)\s!")
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"n": "\n", "t": "\t", "W": " "}
_OBO_ID = re.compile(r"[A-Za-z]\w*:\w+")
_TRUE = "true"
_USED: Final = frozenset(
    (
        *("ontology", "import", "idspace", "id", "name", "def", "synonym", "is_a", "is_obsolete"),
        *("xref", "domain", "range", "inverse_of", "is_metadata_tag", "disjoint_from"),
    )
)


class _Stanza(NamedTuple):
    """A class or a relation: its kind, the line where it begins, and its values with their lines, by tag."""

    kind: str
    line: int
    tags: dict[str, list[tuple[int, str]]]


def read_obo(text: str, id: str, where: str) -> tuple[dict[str, Any], list[str]]:
    """The ontology of a text in TrustGraph's format, and warnings. Its id is used if the text has none.

    Obsolete classes and relations are left out, and so is what relations of classes imply. Raises
    `ConfigError` with the line.
    """
    header, *stanzas = _stanzas(text, where)
    return _Reader(header, id, where).document(stanzas)


class _Reader:
    def __init__(self, header: _Stanza, id: str, where: str) -> None:
        self._where = where
        self._name = _first(header, "ontology") or id
        self._imports = [value for _, value in header.tags["import"]]
        spaces = (value.split() for _, value in header.tags["idspace"])
        self._spaces = {words[0]: words[1] for words in spaces if len(words) > 1}

    def document(self, stanzas: list[_Stanza]) -> tuple[dict[str, Any], list[str]]:
        """The ontology in TrustGraph's format, and warnings."""
        found: dict[str, dict[str, Any]] = {"classes": {}, "objectProperties": {}, "datatypeProperties": {}}
        for stanza in stanzas:
            if not (id := _first(stanza, "id")):
                raise _invalid(self._where, stanza.line, f"the [{stanza.kind}] has no id", None)
            if _first(stanza, "is_obsolete") == _TRUE or _first(stanza, "is_metadata_tag") == _TRUE:
                continue
            if stanza.kind == "Term":
                found["classes"][id] = self._entry(
                    id, stanza, {"rdfs:subClassOf": "is_a", "owl:disjointWith": "disjoint_from"}
                )
                continue
            is_attribute = (_first(stanza, "range") or "").startswith("xsd:")
            ends = {"rdfs:domain": "domain", "rdfs:range": "range", "owl:inverseOf": "inverse_of"}
            section = found["datatypeProperties" if is_attribute else "objectProperties"]
            section[id] = {"rdfs:range": "owl:Thing", **self._entry(id, stanza, ends)}
        return found, [f"{self._where}: {each} is not imported: give its file, too" for each in self._imports]

    def _entry(self, id: str, stanza: _Stanza, tags: dict[str, str]) -> dict[str, Any]:
        names = [_unescaped(value) for _, value in stanza.tags["name"]]
        for line, value in stanza.tags["synonym"]:
            text, scope = self._quoted(line, value)
            names += [text] if scope == "EXACT" else []
        comments = [self._quoted(line, value)[0] for line, value in stanza.tags["def"]]
        ends = {key: [_unescaped(value) for _, value in stanza.tags[tag]] for key, tag in tags.items()}
        return {
            "uri": self._iri(id, stanza),
            "rdfs:label": names[:MAX_ALTERNATIVES],
            "rdfs:comment": comments[:1],
            **{key: values for key, values in ends.items() if values},
        }

    def _quoted(self, line: int, value: str) -> tuple[str, str]:
        """The text in quotes, and the word after it."""
        if not (match := _QUOTED.match(value)):
            raise _invalid(self._where, line, "not a text in quotes", value)
        return _unescaped(match[1]), match[2]

    def _iri(self, id: str, stanza: _Stanza) -> str:
        """The IRI of an id, by the rules of the OBO Foundry. A relation may have it as its `xref`."""
        if "://" in id:
            return id
        if ":" not in id:
            xrefs = (value for _, value in stanza.tags["xref"] if stanza.kind == "Typedef")
            known = next((each for each in xrefs if _OBO_ID.fullmatch(each)), None)
            if known is None:
                return f"{_PURL}{self._name}#{id}"
            id = known
        space, _, local = id.partition(":")
        return self._spaces.get(space, f"{_PURL}{space}_") + local


def _stanzas(text: str, where: str) -> Iterator[_Stanza]:
    """The header, then the classes and relations."""
    stanza = _Stanza("header", 1, defaultdict(list))
    for number, written in enumerate(text.split("\n"), 1):
        line = written.strip()
        if line.startswith("["):
            if not line.partition("!")[0].rstrip().endswith("]"):
                raise _invalid(where, number, "not a stanza such as [Term]", line)
            if stanza.kind in ("header", "Term", "Typedef"):
                yield stanza
            stanza = _Stanza(line[1:].partition("]")[0], number, defaultdict(list))
        elif line and not line.startswith("!"):
            if not (match := _TAG.fullmatch(line)):
                raise _invalid(where, number, "not a tag with a value, such as name: cell", line)
            if match[1] in _USED:
                stanza.tags[match[1]].append((number, _bare(match[2])))
    if stanza.kind in ("header", "Term", "Typedef"):
        yield stanza


def _bare(value: str) -> str:
    """A value without a comment or trailing modifiers; what is in quotes stays."""
    end = len(value)
    quoted = _QUOTED.match(value)
    if comment := _COMMENT.search(value, quoted.end() if quoted else 0):
        end = comment.start()
    value = value[:end].rstrip()
    if value.endswith("}") and not quoted:
        before, _, modifiers = value.rpartition(" {")
        value = before.rstrip() if before and "=" in modifiers else value
    return value


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), value)


def _first(stanza: _Stanza, tag: str) -> str:
    return next((_unescaped(value) for _, value in stanza.tags.get(tag, ())), "")


def _invalid(where: str, line: int, wrong: str, found: str | None) -> ConfigError:
    return ConfigError(f"not OBO: {wrong}", where=f"{where}:{line}", found=found and excerpt(found))
