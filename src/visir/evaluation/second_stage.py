"""The second stage of an evaluation: a cross-encoder re-ranks the answers, and the new ranking is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders import load, load_cross_encoder
from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.errors import ConfigurationError, EncoderError
from visir.evaluation.assembly import Assembly
from visir.evaluation.folds import Ranked, restrict
from visir.progress import pace
from visir.records import Ranks, Run, Task, Ties
from visir.retrieval.ranks import ranks_of
from visir.retrieval.rerank import Fusion, Reranked, Tail, check_second_stage, rerank_runs

K_TEST = 128
"""The default number of re-ranked candidates: ALBEF's and X-VLM's k_test for Flickr30k (COCO: 256)."""


@dataclass(frozen=True)
class SecondStage:
    """A cross-encoder and the options of re-ranking (see `visir.retrieval.rerank`)."""

    cross_encoder: CrossEncoder  # the cross-encoder
    k: int = K_TEST  # how many candidates are re-ranked
    tail: Tail = "dropped"  # "dropped" or "kept"
    fusion: Fusion = "matching"  # "matching" or "sum"
    root: str | Path | None = None  # the folder of stored scores
    workers: int | None = None  # the number of workers that read images

    def without_its_own(self, encoding: Mapping[str, Any]) -> dict[str, Any]:
        """Options of encoding without those that this stage takes too."""
        return {name: value for name, value in encoding.items() if name not in ("store", "workers")}

    def after(
        self, first: Ranked, fields: Mapping[str, Any], assembly: Assembly, ties: Ties, timing: dict[str, float]
    ) -> tuple[Ranked, dict[str, Any], list[str]]:
        """Re-rank the runs of a first stage; its time is added to `timing`."""
        # With the tail kept, ranks stay as exact as before: a document that is not among the candidates keeps its rank.
        # Returns: ((ranks of each fold in its own gallery, new runs), the fields of the protocol, notes).
        before, runs = first
        judged_runs = {name: _judged(runs[name], tasks) for name, tasks in assembly.folds.items()}
        content = assembly.tasks if assembly.collection is None else assembly.collection
        done = rerank_runs(
            judged_runs,
            content,
            self.cross_encoder,
            self.k,
            tail=self.tail,
            fusion=self.fusion,
            root=self.root,
            workers=self.workers,
        )
        ranks: dict[str, list[Ranks]] = {}
        for task, parts in assembly.folds.items():
            run = done.runs[task]
            ranks[task] = []
            for fold, fold_task in enumerate(parts):
                part = fold_task.judgements()
                fold_run = run if len(parts) == 1 else restrict(run, fold_task.gallery, part.queries)
                new_ranks = ranks_of(fold_run, part, ties)
                if self.tail == "dropped":
                    # The ranking ends by the protocol, not because it was cut: a measure may look deeper.
                    new_ranks = replace(new_ranks, depth=None)
                elif before[task][fold].depth is None:
                    new_ranks = _joined(ranks_of(fold_run.cut(self.k), part, ties), before[task][fold], self.k)
                ranks[task].append(new_ranks)
        notes = self.notes(done, sum(timing.values()))
        timing["re-rank"] = done.seconds
        depth = None if self.tail == "dropped" else fields.get("depth")
        return (ranks, dict(done.runs)), {**fields, **self.fields(fields), "depth": depth}, notes

    def fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The protocol's fields on this stage, after those on earlier stages; see `stages_of`."""
        stage_fields = _said(self.k, self.cross_encoder.card.name, self.cross_encoder.head, self.tail, self.fusion)
        return {
            name: f"{fields[name]}, then {text}" if fields.get(name) else text for name, text in stage_fields.items()
        }

    def notes(self, done: Reranked, others: float) -> list[str]:
        """Notes on the cost and the consequences of the second stage."""
        rate = f", {pace(done.computed / done.seconds)}" if done.computed and done.seconds else ""
        stored = f", {done.pairs - done.computed:,} found in the store" if done.computed < done.pairs else ""
        share = done.seconds / max(done.seconds + others, 1e-9)
        lines = [f"re-ranking: {done.computed:,} pairs scored{rate}{stored}; {share:.0%} of the time"]
        if self.tail == "dropped" and self.k < 10:
            lines.append(
                f"only {self.k} candidates are re-ranked and nothing is found behind them (k_test): every R@k beyond "
                f"{self.k} is R@{self.k}"
            )
        return lines


def second_stage(
    rerank: CrossEncoder | Encoder | str | None,
    k: int | None,
    tail: Tail,
    fusion: Fusion,
    system: Any,
    *,
    conditions: Mapping[str, Any] | None,
    device: str | None,
    dtype: str,
    store: Any = None,
    workers: int | None = None,
    **_: Any,
) -> tuple[SecondStage, Any]:
    """Read the options of a second stage, of those of encoding `store` and `workers`; and the system."""
    if rerank is None:
        raise ConfigurationError(
            "k_test, tail and fusion are of a second stage, and there is none.",
            hint="say by which model: rerank=MODEL (--rerank MODEL), or leave them out",
            code="test-tail-fusion-second",
        )
    if isinstance(rerank, str) and isinstance(system, str) and rerank == system:
        rerank = system = load(rerank, device=device, dtype=dtype)  # one model for both stages, loaded once
    elif isinstance(rerank, str):
        rerank = load_cross_encoder(rerank, device=device, dtype=dtype)
    cross_encoder = rerank.cross_encoder if isinstance(rerank, Encoder) else rerank
    if cross_encoder is None:
        raise EncoderError(
            f"{rerank.card.name} ({rerank.card.family}) has no image–text matching head: it makes vectors only.",
            hint="name a model that has one (BLIP, ALBEF, X-VLM), or a cross-encoder of sentence-transformers",
            code="makes-vectors",
        )
    k = K_TEST if k is None else k
    check_second_stage(k, tail, fusion)
    if conditions and conditions.get("rerank"):
        raise ConfigurationError(
            "rerank is given twice: as a model, and as a condition in words.",
            hint="leave the condition out",
            code="model-condition-words",
        )
    root = None if store is None else Path(store.root) / "matching"
    return SecondStage(cross_encoder, k, tail, fusion, root, workers), system


def stages_of(runs: Iterable[Run]) -> dict[str, Any]:
    """Read the second stage that is recorded in ready runs."""
    # `rerank`, "top 128; nothing behind them", is part of the task: it limits what can be found. `matcher`, "NAME,
    # itm", is part of the system, like the model of the first stage. So two systems that are each re-ranked by their
    # own head may be compared.
    stages = [run.provenance.get("rerank") for run in runs]
    if not any(stages):
        return {}
    none = {"rerank": "no second stage", "matcher": "none"}
    descriptions = [none if stage is None else _said(**stage) for stage in stages]
    return {name: " / ".join(dict.fromkeys(description[name] for description in descriptions)) for name in none}


def as_protocol(ranks: dict[str, list[Ranks]], runs: Mapping[str, Run]) -> dict[str, list[Ranks]]:
    """Treat the rankings as complete where a second stage dropped the rest."""
    ended = [task for task in ranks if (runs[task].provenance.get("rerank") or {}).get("tail") == "dropped"]
    whole = {task: [replace(part, depth=None) for part in ranks[task]] for task in ended}
    return ranks | whole


def _said(k: int, matcher: str, head: str, tail: str, fusion: str) -> dict[str, str]:
    score = head + (" + first stage" if fusion == "sum" else "")
    behind = "nothing behind them" if tail == "dropped" else "the rest of the first stage behind them"
    return {"rerank": f"top {k}; {behind}", "matcher": f"{matcher}, {score}"}


def _judged(run: Run, folds: Sequence[Task]) -> Run:
    """The run with the measured queries only; scoring others of a run from outside would be wasted work."""
    queries = pa.concat_arrays([fold.judgements().queries for fold in folds])
    if pc.all(pc.is_in(run.queries, queries)).as_py():
        return run
    return replace(restrict(run, folds[0].gallery, queries), gallery=run.gallery, depth=run.depth)


def _joined(head: Ranks, before: Ranks, k: int) -> Ranks:
    """The ranks among the k candidates, followed by the first stage's ranks of all other positives."""
    # Re-ranking moves no document across the border. So of a query's positives the first few (as many as `head` found)
    # are candidates in both.
    place = np.arange(len(head.ranks)) - np.repeat(head.offsets[:-1], head.positives)
    among = head.ranks > 0
    query = np.repeat(np.arange(len(head)), head.positives)
    candidates = np.bincount(query, among, len(head))[query]  # of the same query, how many positives are candidates
    # A rank that the tie rule moved stays behind the border; 0 is a positive outside the gallery.
    later = np.where(before.ranks > 0, np.maximum(before.ranks, k + 1), 0)
    assert (before.offsets == head.offsets).all() and (among == (place < candidates)).all()
    return replace(
        before,
        ranks=np.where(among, head.ranks, later),
        grades=np.where(among, head.grades, before.grades).astype(np.float32),
    )
