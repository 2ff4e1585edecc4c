"""The learner of late interaction: two towers that give several vectors for each item."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from visir.training.dual_encoder import DualEncoder
from visir.training.inputs.base import TrainingExamples
from visir.training.objectives.best_matches import best_matches
from visir.training.validation import SCORES, encode_source, figures_of, ranks_of


class LateInteraction(DualEncoder):
    """Two `SetTower`s under an objective that compares sets of vectors."""

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """Hits in both directions, by MaxSim over the query's vectors; see `visir.training.validation.validate`."""
        anchors = torch.from_numpy(encode_source(examples.anchors, partial(self._vectors_of, "anchor")))
        positives = torch.from_numpy(encode_source(examples.positives, partial(self._vectors_of, "positive")))
        rows = examples.anchor_rows
        to_positives = np.empty((len(anchors), len(positives)), np.float32)
        ranks = np.empty(len(positives), np.int64)
        block = max(1, SCORES // (len(anchors) * anchors.shape[1]))
        device = self.precision.device
        anchors = anchors.to(device)
        with torch.inference_mode():
            for start in range(0, len(positives), block):
                part = slice(start, start + block)
                matches = best_matches(anchors, positives[part].to(device))
                to_positives[:, part] = matches.of_anchors.cpu().numpy()
                own = rows[part, None] == np.arange(len(anchors))
                ranks[part] = ranks_of(matches.of_positives.cpu().numpy(), own)
        queries = np.unique(rows)
        to_texts, to_images = self.tasks
        return figures_of({to_texts: ranks_of(to_positives[queries], queries[:, None] == rows), to_images: ranks})
