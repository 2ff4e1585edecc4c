"""The heaviest terms of example images and captions: Table 3.4 of the thesis."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import VisirError
from visir.papers.experiments.sparsify import SparseHeadExperiment
from visir.records import Collection
from visir.studies.draws import Draws, unit_means
from visir.studies.experiment import ExperimentContext, Measurement

K = 10
"""How many terms the table shows of each."""


class TermsExperiment(SparseHeadExperiment):
    """The ten heaviest terms of examples, and the share of them that captions of the image contain."""

    # Labels: "caption exact@10" and "image exact@10", the share of the ten heaviest terms that are among the words of
    # any caption of the image, in percent, over the whole test split. Thesis eq. 3.2 uses the words of one caption;
    # here all captions of the image count, and images are measured too: an image has no words of its own, and what one
    # caption leaves out another may say. The table itself has words only.

    experiment: Literal["terms"] = "terms"
    # Captions of the collection that are shown with their images; by default the first captions of `count` test images,
    # evenly spaced.
    examples: tuple[str, ...] = ()
    count: int = 3  # how many images, where no examples are named

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.encoders import load
        from visir.evaluation.sparse_measures import exact_at
        from visir.sparse.encoder import SparseEncoder
        from visir.sparse.top_terms import encode_part, top_terms_of_captions, top_terms_of_images
        from visir.studies.trial import CHECKPOINT
        from visir.training.data import open_whole

        trial, out = self.trained(context)
        with context.locks.process:
            encoder = load(str(trial.folder(out) / CHECKPOINT))
            assert isinstance(encoder, SparseEncoder), "a checkpoint of sparsify"
            opened = open_whole(trial.recipe.data)
            part = opened.split(trial.split)
            captions_of_image: dict[str, list[str]] = {}
            for row in part.captions.select(["image_id", "text"]).to_pylist():
                captions_of_image.setdefault(row["image_id"], []).append(row["text"])
            values: dict[str, float] = {}
            draws: dict[str, Draws] = {}
            for label, modality, images in (
                ("caption", "text", part.captions["image_id"].to_pylist()),
                ("image", "image", part.images["id"].to_pylist()),
            ):
                own = encoder.tokenizer.terms([" ".join(captions_of_image.get(image, [])) for image in images])
                vectors = encode_part(encoder, opened, part, modality)  # type: ignore[arg-type]
                exact = {f"{label} exact@{K}": 100 * exact_at(vectors, own, K)}
                values |= {name: float(shares.mean()) for name, shares in exact.items()}
                draws |= unit_means(images, exact)
            words: dict[str, str] = {}
            captions = self._examples(opened, part)
            shown = opened.keep_images(pc.is_in(opened.images["id"], captions["image_id"].combine_chunks()))
            texts = top_terms_of_captions(encoder, opened, shown, captions["id"].to_pylist(), K)
            pictures = {picture.title: picture for picture in top_terms_of_images(encoder, opened, shown, K)}
            for row in captions.to_pylist():
                words[f"caption: {row['text']}"] = " ".join(term for term, _ in texts[row["id"]].terms)
                words[f"image: {row['text']}"] = " ".join(term for term, _ in pictures[row["image_id"]].terms)
        protocol = trial.evaluation(out).result.protocol
        provenance = self.provenance(trial, protocol)
        return Measurement(values, provenance, dict(protocol.card()), words=words, draws=draws)

    def _examples(self, opened: Collection, part: Collection) -> pa.Table:
        """The rows of the captions that are shown."""
        import numpy as np

        if not self.examples:
            images = part.images["id"].to_pylist()
            chosen = np.unique(np.linspace(0, len(images) - 1, self.count).round().astype(int))
            rows = [part.captions["image_id"].to_pylist().index(images[position]) for position in chosen]
            return part.captions.take(rows)
        texts = opened.captions["text"].to_pylist()
        missing = [text for text in self.examples if text not in texts]
        if missing:
            raise VisirError(f"{opened.name} has no caption {missing[0]!r}.", hint="name captions as they stand there")
        return opened.captions.take([texts.index(text) for text in self.examples])
