"""Options that choose prompts and their terms, and what they give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import option
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.graph.ontology_choice import OntologyIndex
    from trustgraph_prompt.prompts import PromptDefinition, PromptSet
    from trustgraph_prompt.prompts.example import Example

TemplatesOption = Annotated[
    Path | None,
    option("--templates PATH", "A prompt file, or a folder of them, instead of the bundled ones."),
]
TermOption = Annotated[
    list[str] | None,
    option(
        "--term -t NAME=VALUE",
        "A term of the prompt's template: NAME=TEXT, NAME=@FILE for the text of a file, NAME:=JSON or "
        "NAME:=@FILE for a JSON value. May be given several times.",
    ),
]
OntologyOption = Annotated[
    list[Path] | None,
    option(
        "--ontology FILE",
        "The ontology in whose terms the prompt is asked: .ttl, .owl, .rdf, .nt, .jsonld, .obo or .json. "
        "May be given several times; several are merged.",
    ),
]
OntologyLanguageOption = Annotated[
    str | None,
    option(
        "--ontology-language CODE",
        "The language of the labels by which a model sees the ontology. Default: that of the first label.",
    ),
]
PromptFilterOption = Annotated[str | None, option("--prompt ID", "Only requests for this prompt.")]


def prompts(templates: Path | None) -> PromptSet:
    """Load the prompts of a folder or file, or the bundled ones. Raises `ConfigError`."""
    from trustgraph_prompt import package_data
    from trustgraph_prompt.prompts import PromptSet, files

    return PromptSet.build(files.load(templates or package_data.templates()))


def prompt(prompts: PromptSet, id: str) -> PromptDefinition:
    """Return the prompt with that id or alias. Raises `ConfigError` if it is unknown or invalid."""
    from difflib import get_close_matches

    from trustgraph_prompt.prompts.files import SUFFIXES

    if refusal := prompts.refused.get(f"template.{id}"):
        raise refusal
    if found := prompts.find(id):
        return found
    if Path(id).suffix in SUFFIXES:
        raise ConfigError(f"{id} is the name of a file: give --templates {id}, and the id of a prompt in it")
    if Path(id).is_file():
        raise ConfigError(f"{id} is a file: give the id of a prompt, and the text as --term text=@{id}")
    near = get_close_matches(id, known := sorted(prompts.prompts))
    which = f"did you mean {', '.join(near)}?" if near else f"the prompts are {', '.join(known) or 'none'}."
    raise ConfigError(f"there is no prompt {id}; {which} Others come from --templates PATH, a file or folder")


def examples(templates: Path | None) -> Sequence[Example]:
    """Return the examples of a folder or file of prompts, or the bundled ones. Raises `ConfigError`."""
    from trustgraph_prompt import package_data
    from trustgraph_prompt.prompts import files

    return files.read(templates or package_data.templates()).examples


def terms(given: list[str] | None) -> dict[str, object]:
    """Return the terms of `--term`. Raises `ConfigError`, also if one is given twice."""
    terms: dict[str, object] = {}
    for name, value in map(_term, given or ()):
        if name in terms:
            raise ConfigError("is given twice", where=f"--term {name}")
        terms[name] = value
    return terms


def ontology(files: Sequence[Path] | None, language: str | None = None) -> OntologyIndex | None:
    """Load the ontology of `--ontology`, and print its warnings; None without files. Raises `ConfigError`."""
    if not files:
        if language is not None:
            raise ConfigError("there is no --ontology", where="--ontology-language", found=language)
        return None
    from trustgraph_prompt.graph import ontology_files

    found = ontology_files.load(files, language)
    return ontology_files.index_of(found, lambda warning: output.note(f"warning: {warning}"))


def ontology_terms(
    definition: PromptDefinition, terms: Iterable[str], ontology: OntologyIndex | None, where: str = "--term"
) -> dict[str, object]:
    """What stands for the terms of the ontology, if there is one, until the text is known.

    Raises `ConfigError` if the prompt takes no ontology, or gets another one by its `terms`, which are given
    `where`.
    """
    from trustgraph_prompt.graph.ontology import TERMS
    from trustgraph_prompt.prompts.within_ontology import why_not_within

    if ontology is None:
        return {}
    if why := why_not_within(definition, ontology.ontology):
        raise ConfigError(why, where="--ontology")
    if both := sorted(TERMS.intersection(terms)):
        raise ConfigError("is a term of --ontology, too: leave one of them out", where=f"{where} {both[0]}")
    return dict.fromkeys(TERMS & definition.named, "the ontology")


def within(
    definition: PromptDefinition, terms: Mapping[str, object], ontology: OntologyIndex | None
) -> tuple[PromptDefinition, dict[str, object] | None]:
    """The prompt that keeps to an ontology if there is one, and all its terms.

    None instead of terms, with a note, if the text has no word of the ontology.
    """
    from trustgraph_prompt.prompts import within_ontology

    ontology = ontology or within_ontology.ontology_in(terms, definition.contract, definition.id)
    if ontology is None:
        return definition, {**terms}
    definition, of_ontology = within_ontology.within(ontology, definition, str(terms.get("text", "")))
    if of_ontology is None:
        output.note("the model is not asked: the text has no word of the ontology")
        return definition, None
    return definition, {**terms, **of_ontology}


def warn_of_terms(definition: PromptDefinition, given: Iterable[str]) -> None:
    """Warn of terms that the prompt does not use, and of those that it lacks."""
    given = set(given)
    _warn_of_unknown(definition, given)
    for name in definition.missing(given):
        output.note(f"warning: {definition.id} renders without its term {name}: give --term {name}=…")


def require_terms(definition: PromptDefinition, terms: Mapping[str, object]) -> None:
    """Warn as `warn_of_terms`. Raises `ConfigError` if a required term is missing or empty.

    In TrustGraph's dialect a missing term is no error, as it renders as nothing, but a missing ontology is.
    """
    from trustgraph_prompt.graph import ontology

    for unknown in ontology.unknown_keys(terms) if definition.named >= ontology.TERMS_SHOWN else ():
        output.note(f"warning: {unknown}")
    given = [name for name, value in terms.items() if not _is_empty(value)]
    missing = definition.missing(given)
    if set(missing) >= ontology.TERMS:
        raise ConfigError(_NEEDS_ONTOLOGY.format(definition.id), where="term classes")
    if definition.template.dialect != "jinja":
        warn_of_terms(definition, terms)
        return
    _warn_of_unknown(definition, set(terms))
    if missing:
        name = missing[0]
        wrong = f"is empty, and {definition.id} needs it" if name in terms else f"{definition.id} needs it"
        raise ConfigError(f"{wrong}: give --term {name}=TEXT or --term {name}:=JSON", where=f"term {name}")


_NEEDS_ONTOLOGY = (
    "{} needs an ontology: give --ontology FILE.ttl, or its classes as --term classes:=@FILE, a JSON object "
    'such as {{"Person": {{"comment": "A human."}}}}, and so its object_properties and datatype_properties'
)


def _is_empty(value: object) -> bool:
    """Whether a term says nothing; an empty list may say that there is nothing."""
    return value is None or value == {} or (isinstance(value, str) and not value.strip())


def _warn_of_unknown(definition: PromptDefinition, given: set[str]) -> None:
    from trustgraph_prompt.graph import ontology

    of_ontology = ontology.TERMS if definition.named >= ontology.TERMS_SHOWN else frozenset()
    for name in sorted(given - definition.named - of_ontology):
        known = ", ".join(sorted(definition.named)) or "none"
        output.note(f"warning: {definition.id} does not use the term {name}; its terms: {known}")


def _term(term: str) -> tuple[str, object]:
    name, equals, value = term.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        wrong = "there is no name before the =" if equals else "there is no ="
        raise ConfigError(
            f"invalid term: {wrong}", where="--term", found=term, expected="NAME=VALUE or NAME:=JSON"
        )
    where = f"--term {name}"
    if value.startswith("@"):
        where = value[1:]
        value = options.read_text(Path(where))
    return name, options.as_json(value, where) if is_json else value
