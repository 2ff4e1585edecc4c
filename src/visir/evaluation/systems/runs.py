"""Runs as a system: answers of BM25, another toolkit or a service, one run for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.errors import ConfigurationError, ProtocolError
from visir.evaluation.folds import Ranked, folds_of, restrict
from visir.evaluation.second_stage import as_protocol, stages_of
from visir.evaluation.systems.base import System
from visir.records import UNDECLARED, Gallery, Ranks, Run, Task, Ties
from visir.retrieval.exact import SearchResult
from visir.retrieval.formats import NOTES
from visir.retrieval.pools import marked, ranks_in_pools, unmarked_ranks, within_pools, without_excluded
from visir.retrieval.ranks import ranks_of
from visir.retrieval.scan import Similarity


class RunSystem(System):
    """Ready runs by task.

    Args:
        runs: The run of each task.
        similarity: The similarity of runs that do not record it.
        name: The name in tables; None joins the names of the runs.

    Raises:
        ConfigurationError: A run records another similarity.
    """

    def __init__(self, runs: Mapping[str, Run], similarity: Similarity | None = None, name: str | None = None) -> None:
        self.runs, self.similarity = _with_similarity(runs, similarity)
        super().__init__(name or " + ".join(dict.fromkeys(run.name for run in self.runs.values())))
        self._fields: dict[str, Any] = {"similarity": self.similarity}

    def answers(self, task: str) -> bool:
        """Whether there is a run for this task."""
        return task in self.runs

    def rank(self, tasks: Mapping[str, Sequence[Task]], *, depth: int, ties: Ties) -> Ranked:
        """The ranks in the runs, cut to each fold; a run over another gallery is refused (see `check`)."""
        ranks: dict[str, list[Ranks]] = {}
        runs: dict[str, Run] = {}
        for name, folds in tasks.items():
            run = self.runs[name]
            note = check(run, _joined([fold.gallery for fold in folds]), len(folds))
            self.notes += [note] if note else []
            self.notes += [f"{name}: {line}" for line in run.provenance.get(NOTES, ())]
            if not run.gallery.is_known:  # it is measured as a run over the declared one, as the note says
                run = replace(run, gallery=_joined([fold.gallery for fold in folds]))
            qrels = [fold.judgements() for fold in folds]
            judged = pa.concat_arrays([part.queries for part in qrels])
            missing = len(judged) - int(pc.sum(pc.is_in(judged, run.queries)).as_py())
            if missing:
                self.notes.append(
                    f"{name}: {missing:,} of {len(judged):,} queries are not answered; they count as failed"
                )
            ranks[name] = [_ranks(run, fold, len(folds), ties, self.notes) for fold in folds]
            runs[name] = without_excluded(run, folds[0])
        ranks = as_protocol(ranks, runs)
        self._fields |= stages_of(runs.values())
        depths = [
            part.depth if fold.pools is not None else runs[name].depth
            for name, folds in tasks.items()
            for fold, part in zip(folds, ranks[name], strict=True)
            if part.depth is not None
        ]
        self._fields["depth"] = min(depth for depth in depths if depth is not None) if depths else None
        return ranks, runs

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """The runs of these tasks, and their ranks."""
        ranks, runs = self.rank({task.name: [task] for task in tasks}, depth=depth, ties=ties)
        return [SearchResult(runs[task.name], ranks[task.name][0]) for task in tasks]

    def fields(self) -> dict[str, Any]:
        """The similarity, and the second stage that the runs record."""
        return dict(self._fields)

    def conditions(self, task: str) -> list[str]:
        """No condition: ready runs cannot answer perturbed queries."""
        return []

    def origins(self) -> dict[str, str]:
        """The source of each run."""
        return origins(self.runs)


def origins(runs: Mapping[str, Run]) -> dict[str, str]:
    """Describe the source of each run."""
    lines = {}
    for task, run in runs.items():
        file = run.provenance.get("read") or run.provenance.get("source")
        lines[f"{task} run"] = f"from the file {file}" if file else "made before, by visir or its caller"
    return lines


def by_task(runs: Sequence[Run]) -> dict[str, Run]:
    """Sort runs by their task."""
    runs_by_task: dict[str, Run] = {}
    for run in runs:
        if run.task in runs_by_task:
            raise ConfigurationError(
                f"two runs of the task {run.task}: {runs_by_task[run.task].name} and {run.name}.",
                hint="evaluate them one after the other, then compare the results",
                code="two-runs-task",
            )
        runs_by_task[run.task] = run
    return runs_by_task


def _ranks(run: Run, fold: Task, folds: int, ties: Ties, notes: list[str]) -> Ranks:
    """The ranks in the part of a run that answers one fold, or within the pools of its queries."""
    if fold.excluded is not None:
        shallower = without_excluded(run, fold).depth
        if others := len(run.indices) - len(without_excluded(run, fold).indices):
            notes.append(f"{fold.name}: left out: {counted(others, 'answers')} of the run, excluded documents")
        ranks = unmarked_ranks(_ranks(run, marked(fold), folds, ties, notes), fold)
        return ranks if ranks.depth is None else replace(ranks, depth=min(ranks.depth, shallower))
    qrels = fold.judgements()
    if fold.pools is None:
        return ranks_of(run if folds == 1 else restrict(run, fold.gallery, qrels.queries), qrels, ties)
    others = len(run.indices) - len(within_pools(run, fold.pools).indices)
    if others:
        answers = counted(others, "answers")
        notes.append(f"{fold.name}: left out: {answers} of the run, outside the candidates of the query")
    return ranks_in_pools(run, fold.pools, qrels, ties)


def _joined(galleries: Sequence[Gallery]) -> Gallery:
    """The galleries of all folds as one: the gallery of a run that was later cut into folds."""
    first = galleries[0]
    if len(galleries) == 1:
        return first
    ids = pa.concat_arrays([gallery.ids for gallery in galleries])
    return Gallery.of(first.modality, ids, first.description, title=first.title)


def _with_similarity(runs: Mapping[str, Run], similarity: Similarity | None) -> tuple[dict[str, Run], str]:
    """The runs, and their similarity: the recorded one, or the caller's for runs that do not record it."""
    declared, names = {}, []
    for task, run in runs.items():
        recorded = run.provenance.get("similarity")
        if similarity is not None and recorded not in (None, similarity):
            raise ConfigurationError(
                f"run {run.name} ({task}) was scored by {recorded}, not by {similarity}, as it says itself.",
                hint="leave the similarity out: it is declared for runs that do not say it",
            )
        if recorded is None and similarity is not None:
            recorded, run = similarity, replace(run, provenance=run.provenance | {"similarity": similarity})
        declared[task] = run
        names.append(recorded or UNDECLARED)
    return declared, " / ".join(dict.fromkeys(names))


# Refuse a run that was made over another gallery than the declared one, and name the difference.

HINT = "declare the gallery it was made over (gallery='collection' is all of the collection), or search again"


def check(run: Run, declared: Gallery, folds: int = 1) -> str | None:
    """Refuse a run over another gallery than the declared one; a note where its gallery is not known for sure."""
    where = f"run {run.name} ({run.task})"
    kind = declared.title
    if folds_of(run) not in (1, folds):  # a search of one gallery can be cut into folds, but not the reverse
        raise ProtocolError(
            f"{where} was made within {folds_of(run)} folds: each query met the candidates of its own fold only. "
            f"Declared {'is one gallery' if folds == 1 else f'are {folds} folds'}.",
            hint=f"declare its folds (folds={folds_of(run)}), or search again",
        )
    if declared.ids is not None:
        foreign = _not_in(run.documents, declared.ids)
        if len(foreign):
            raise ProtocolError(
                f"{where} was not made over the declared gallery ({_said(declared)}): it lists "
                f"{counted(len(foreign), kind)} not in it, e.g. {_examples(foreign)}.",
                hint=HINT,
                code="lists-not",
            )
    if not run.gallery.is_known:
        return f"{where} does not say what was searched; it is measured as a run over the declared {kind}"
    if not run.gallery.is_listed or declared.ids is None:
        if run.gallery.size != declared.size:
            raise ProtocolError(
                f"{where} was made over a gallery stated as {run.gallery.size:,} {kind} ({run.gallery.description}); "
                f"declared are {declared.size:,} ({declared.description}).",
                hint=HINT,
                code="run-made-over-gallery",
            )
        return f"the gallery of {where} is known by its size only ({run.gallery.size:,} {kind})"
    if run.gallery.fingerprint != declared.fingerprint:
        assert run.gallery.ids is not None  # is_listed, above
        more, fewer = _not_in(run.gallery.ids, declared.ids), _not_in(declared.ids, run.gallery.ids)
        parts = [f"{len(more):,} {kind} of its gallery are not declared, e.g. {_examples(more)}"] if len(more) else []
        if len(fewer):
            parts.append(f"{len(fewer):,} declared {kind} are missing from its gallery, e.g. {_examples(fewer)}")
        raise ProtocolError(
            f"{where} was made over another gallery ({_said(run.gallery)}) than declared ({_said(declared)}): "
            + "; ".join(parts)
            + ".",
            hint=HINT,
        )
    return None


def _not_in(ids: pa.Array, among: pa.Array) -> pa.Array:
    return ids.filter(pc.invert(pc.is_in(ids, among)))


def _examples(ids: pa.Array) -> str:
    return ", ".join(repr(identifier) for identifier in ids[:3].to_pylist())


def _said(gallery: Gallery) -> str:
    return f"{gallery.size:,}, {gallery.description}" if gallery.description else f"{gallery.size:,}"
