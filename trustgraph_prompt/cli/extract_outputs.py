"""What `extract` writes: the file of objects, and graph and report if they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.output_file import OutputFile
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.output_checks import check_page
from trustgraph_prompt.extraction.results import ObjectsFile
from trustgraph_prompt.extraction.run_record import hashes_in

if TYPE_CHECKING:
    from trustgraph_prompt.cli.extract_advice import Advice
    from trustgraph_prompt.cli.extract_options import OutputOptions
    from trustgraph_prompt.cli.extract_plan import Plan
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.extraction.graph_outputs import GraphOutputs
    from trustgraph_prompt.extraction.results import Result


class RunOutputs:
    """The outputs of a run. The constructor raises `ConfigError` as `OutputFile` does."""

    def __init__(self, out: Path, files: Sequence[Path], given: OutputOptions) -> None:
        self.out = out
        self.graph = _graph_outputs(given)
        self.report = given.report
        self._documents = files
        self.file = OutputFile(out, files, bare=given.bare)
        self._lines = ObjectsFile(self.file.write, bare=given.bare)
        self._results: list[Result] = []

    @property
    def paths(self) -> list[Path]:
        """All files and folders that are written for people."""
        reports = [self.report] if self.report else []
        return [self.file.texts, self.out, *(self.graph.paths if self.graph else ()), *reports]

    def prepare(self, plan: Plan) -> None:
        """Keep the texts of the documents, and check what can be checked before a question is asked.

        Raises `ConfigError`, `StoreError`, `TrustgraphPromptError`.
        """
        for document in plan.documents:
            for note in document.notes:
                output.note(f"{document.file}: {note}")
            self.file.keep_text(document)
        self.check(plan)
        if self.graph is not None:
            self.graph.open_store(output.note)

    def check(self, plan: Plan) -> None:
        """Check that all can be written, and that nothing which no run wrote is replaced.

        Raises `ConfigError`, `StoreError`.
        """
        self.file.check_replaceable()
        used, may_replace = [self.out, *self._documents], self.file.record.may_replace
        if self.graph is not None:
            ontology = None if plan.ontology is None else plan.ontology.ontology
            self.graph.check(plan.asked, ontology, [self.out, *plan.files], may_replace)
            used += self.graph.paths
        if self.report is not None:
            check_page("--report", self.report, used, may_replace)
        if plan.files and not plan.documents and not plan.skipped:
            where = ", ".join(map(str, self._documents))
            raise ConfigError("all of it is written by this run; choose other outputs", where=where)

    def add(self, result: Result) -> None:
        """Take a result. Raises `TrustgraphPromptError`."""
        self._lines.add(result)
        if self.graph is not None or self.report is not None:
            self._results.append(result)

    def write(self, plan: Plan, price: Price | None, advice: Sequence[Advice]) -> list[Path]:
        """Replace the file of objects, write the rest, and return what was written, in that order.

        Raises `ConfigError`, `StoreError`, `TrustgraphPromptError`.
        """
        self._lines.finish()
        self.check(plan)  # again: the run may have taken hours
        store = self.graph.store if self.graph else None
        answered = self._answered(plan) if store else {}
        earlier = self._earlier_texts(store, answered) if store else {}
        written = [self.out]
        self.file.replace()
        self.file.record.wrote(self.out)
        if self.graph is not None:
            output.note("writing the graph")
            written += self.graph.write(
                self._results,
                plan.prompts.prompts,
                None if plan.ontology is None else plan.ontology.ontology,
                plan.model,
                earlier,
                output.note,
                self.file.record.wrote,
                self._incomplete(plan),
            )
        if self.report is not None:
            output.note("writing the report")
            self._write_report(self.report, plan, price, advice)
            self.file.record.wrote(self.report)
            written.append(self.report)
        if store is not None:
            self.file.record.note_texts(store, answered)
        return written

    def _incomplete(self, plan: Plan) -> str:
        """What a graph of this run lacks, for people; "" if all was read and answered."""
        lacking = len(plan.jobs) - len(self._positions)
        questions = output.counted(len(plan.jobs), "question")
        have = "has" if lacking == 1 else "have"
        notes = [f"Incomplete: {lacking:,} of {questions} of the run {have} no answer."] if lacking else []
        if count := len(plan.skipped):
            notes.append(
                f"{output.counted(count, 'file')} of the run {'was' if count == 1 else 'were'} skipped."
            )
        return " ".join(notes)

    @property
    def _positions(self) -> set[int]:
        """The positions of the questions that have an answer."""
        return {each.job.position for each in self._results if each.failure is None}

    def _answered(self, plan: Plan) -> dict[str, str]:
        """The hashes of the documents of which all questions are answered, by file."""
        positions = self._positions
        unanswered = {job.document.file for job in plan.jobs if job.position not in positions}
        return {each.file: each.sha256 for each in plan.documents if each.file not in unanswered}

    def _earlier_texts(self, store: Path, hashes: Mapping[str, str]) -> dict[str, str]:
        """The hashes of the other texts that these files had when the store got them.

        Builds without a record have left them beside the objects.
        """
        known = {file: self.file.record.text_in(store, file) for file in hashes}
        before = {} if all(known.values()) else hashes_in(self.out)
        earlier = {file: digest or before.get(file) for file, digest in known.items()}
        return {file: digest for file, digest in earlier.items() if digest and digest != hashes[file]}

    def _write_report(self, file: Path, plan: Plan, price: Price | None, advice: Sequence[Advice]) -> None:
        from trustgraph_prompt.extraction.report import ReportedRun, RunReport, write_report

        report = RunReport(plan.answer_limits, price)
        for result in self._results:
            report.add(result)
        report.count(plan.jobs)
        versions = {definition.id: definition.version for definition in plan.asked}
        graph = self.graph.page if self.graph else None
        write_report(report, file, ReportedRun(self.out, plan.model, versions, graph, plan.skipped), advice)

    def discard(self) -> list[Path]:
        """Leave everything as it was before the run."""
        self._lines.finish()
        self.file.discard()
        return []


def _graph_outputs(given: OutputOptions) -> GraphOutputs | None:
    """Where the graph goes, if it goes anywhere. Raises `ConfigError` without the extra for it."""
    if not given.has_graph:
        return None
    from trustgraph_prompt.extraction.graph_outputs import GraphOutputs

    return GraphOutputs(given.store, given.rdf, given.neo4j, given.page)
