"""The blind baseline: which text is likelier, without a look at the query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.errors import ConfigurationError
from visir.evaluation.language import LanguageModel, language_model
from visir.evaluation.systems.base import System
from visir.records import Run, Task, Ties
from visir.retrieval.exact import SearchResult
from visir.retrieval.pools import ranks_in_pools


class BlindSystem(System):
    """Orders the candidates of a choice by how likely their texts are, whatever the query is."""

    # Where it is far above chance, a benchmark can be solved in part without looking at the pictures, and the accuracy
    # of a model must be read beside this one (Hsieh et al. 2023; Lin et al. 2024; VALSE has such baselines too).

    def __init__(self, model: LanguageModel | str | Path, name: str = "") -> None:
        self.model = language_model(model) if isinstance(model, (str, Path)) else model
        super().__init__(name or f"blind ({self.model.name})")

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """The candidates of each query in order of their likelihood."""
        return [self._search(task, ties) for task in tasks]

    def _search(self, task: Task, ties: Ties) -> SearchResult:
        if task.pools is None or task.documents.texts is None:
            problem = "has no pools" if task.pools is None else f"searches {task.documents.modality}s"
            raise ConfigurationError(
                f"task {task.name} {problem}; the blind baseline chooses among a few texts.",
                hint="choice tasks have pools of captions: visir.open('sugarcrepe:FOLDER')",
            )
        qrels = task.judgements()
        pools = task.pools.select(qrels.queries)
        candidates = pools.documents.unique()
        texts = task.documents.texts.take(pc.index_in(candidates, task.documents.ids))
        distinct = texts.fill_null("").dictionary_encode()
        scores = self.model.log_likelihoods(distinct.dictionary.to_pylist())[distinct.indices.to_numpy()]
        if texts.null_count:
            scores = np.where(texts.is_null().to_numpy(zero_copy_only=False), scores.min(initial=0.0) - 1, scores)
            count = counted(texts.null_count, "candidates", "have")
            self.notes.append(f"{count} no text: {self.name} never chooses them")
        run = Run.ranked(
            self.name,
            task.name,
            pools.queries.take(pa.array(pools.query_rows)),
            pools.documents,
            scores[pc.index_in(pools.documents, candidates).to_numpy()].astype(np.float32),
            task.gallery,
            depth=int(np.diff(pools.offsets).max()),
            provenance={"search": "likelihood of the text alone, within pools", **self.fields()},
        )
        return SearchResult(run, ranks_in_pools(run, task.pools, qrels, ties))

    def fields(self) -> dict[str, Any]:
        """How it scores."""
        return {"similarity": f"likelihood of the candidate alone, per word, by {self.model.name}"}

    def answers(self, task: str) -> bool:
        """It has nothing to say of pictures: tasks that search them are left out."""
        return not task.endswith("2i")
