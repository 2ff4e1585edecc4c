"""Evaluate a model as it is: chapter 2 of the thesis, and the dense rows of chapter 3."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.models.fusion import BERT, XVLM, FusionModel, Sizes, image_tower, text_tower
from visir.encoders.models.small import find_vocabulary, plain_caption
from visir.errors import VisirError, nearest
from visir.evaluation.evaluate import evaluate
from visir.evaluation.granularity import granularity as study
from visir.evaluation.published import load as load_table
from visir.evaluation.results import save
from visir.evaluation.sparse_measures import exact_at
from visir.fingerprint import hash_json
from visir.records import Collection
from visir.robustness.granularity import Profile
from visir.sparse.encoder import SparseEncoder
from visir.sparse.top_terms import encode_part, top_terms_of_captions, top_terms_of_images
from visir.storage import FolderKind, changing
from visir.studies.trial import CHECKPOINT
from visir.training.data import open_whole
from visir.training.recipe import expand
from visir.training.settings import Settings
from visir_papers.draws import Draws, unit_means
from visir_papers.experiment import Experiment, ExperimentContext, Measurement
from visir_papers.experiments.train import PriorTraining, SparseHeadExperiment, system_of
from visir_papers.figures import Figure, plotted
from visir_papers.published_values import measured

if TYPE_CHECKING:
    from torch import Tensor


# Count the features of a collection's captions: Table 1 of the brittleness paper.


class CountExperiment(Experiment):
    """How fine-grained captions are (`visir granularity`)."""

    experiment: Literal["count"] = "count"
    source: str  # the collection
    split: str | None = "test"  # the split whose captions count
    captions: str = "first 5"  # which captions of each image count
    profile: Profile = "paper"  # how features are counted; "paper" as in the table

    def describe(self) -> str:
        return f"granularity of {self.source}, {self.captions} captions"

    def measure(self, context: ExperimentContext) -> Measurement:

        with context.locks.process:
            collection = open_collection(expand(self.source))
            result = study(collection, profiles=[self.profile], split=self.split, captions=self.captions)
        values = {mean.feature: mean.mean for mean in result.means[0][self.profile]}
        counted = result.counted[0][self.profile]
        provenance = {"collection": counted.name, "fingerprint": counted.fingerprint[:12]}
        draws = unit_means(counted.images.to_pylist(), counted.values)
        return Measurement(values, provenance, {**dict(result.protocol), "profile": self.profile}, draws=draws)


# Read the numbers behind a plotted figure: whether what the paper says of it is true of its own numbers.


class PlottedExperiment(Experiment):
    """One pair of bars of thesis Figure 4.5, or one training of LTD Figure 2: the authors' numbers."""

    # These numbers are quoted; nothing is measured.

    experiment: Literal["plotted"] = "plotted"
    figure: Figure  # which figure

    def describe(self) -> str:
        return f"the authors' numbers behind {self.figure}"

    def measure(self, context: ExperimentContext) -> Measurement:
        values = plotted(self.figure)
        if (self.system, self.collection) not in values:
            systems = [system for system, collection in values if collection == self.collection]
            raise VisirError(
                f"{self.figure} has no {self.system!r} on {self.collection!r}.", hint=nearest(self.system, systems)
            )
        provenance = {"system": f"{self.system}, by its authors", "collection": f"{self.collection}, by its authors"}
        return Measurement(values[self.system, self.collection], provenance)


# Work a table out of another printed one: the losses of Table 4 of the brittleness paper from thesis Table 5.3.

_PLAIN = "rsum"


class LossesExperiment(Experiment):
    """The mean over models of the share of rsum that a perturbation takes, in percent, from printed rsums."""

    # It shows whether two published tables fit together; nothing is measured. Labels that are means of several
    # perturbations in one table and single ones in the other (typos) are left out.

    experiment: Literal["losses"] = "losses"
    # A published table of retrieval results that has, for each model on `collection`, the label "rsum" and labels of
    # perturbations.
    table: str

    def describe(self) -> str:
        return f"losses in percent, from the printed rsums of {self.table}"

    def measure(self, context: ExperimentContext) -> Measurement:

        rows = [row.values["t2i"] for row in load_table(self.table).rows if row.collection == self.collection]
        if not rows:
            raise VisirError(
                f"{self.table} has nothing on {self.collection}.", hint=", ".join(load_table(self.table).collections)
            )
        labels = set(rows[0]) - {_PLAIN} if context.row is None else set(rows[0]) & set(context.row.values["t2i"])
        values = {
            f"t2i {label}": statistics.fmean(100 * (1 - row[label] / row[_PLAIN]) for row in rows)
            for label in rows[0]
            if label in labels
        }
        return Measurement(values, {"system": f"{len(rows)} models, by the authors", "collection": self.collection})


# The heaviest terms of example images and captions: Table 3.4 of the thesis.

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


# A small X-VLM for generated scenes: the two-stage model of smoke runs, trained in a minute or two.

CHECKPOINT_FILE = "checkpoint.pth"
KIND = FolderKind("small-xvlm", "a small X-VLM")
_VISION = {"vision_width": 64, "window_size": 4, "embed_dim": 32, "depths": [1, 2], "num_heads": [2, 4]}
_TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 40,
    "fusion_layer": 2,
}
_SIDE, _DIMENSION, _BATCH, _RATE = 32, 64, 32, 2e-3
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_EASE = 0.25
"""How far similarities are flattened before negatives are drawn by them. The authors draw the hardest ones; with these
an untrained model learns to answer "no" to every pair, and keeps doing so for long."""


class SmallXvlm(Settings):
    """What a small X-VLM is trained on."""

    source: str  # a collection with pictures, whose split "train" is used
    steps: int = 700  # training steps, of 32 pairs of image and caption each


def small_xvlm(settings: SmallXvlm, folder: Path, *, seed: int = 0) -> str:
    """Train a small X-VLM, unless the folder holds one already."""
    # The folder has the same files as the authors' releases: the checkpoint, its configuration, and a vocabulary, here
    # of the words of the captions.

    config, checkpoint = folder / "configs" / "Retrieval.json", folder / CHECKPOINT_FILE
    name = f"xvlm:{checkpoint}?config={config}"
    if checkpoint.is_file():
        return name
    train = open_collection(expand(settings.source)).split("train")
    words = Counter(word for text in train.captions["text"].to_pylist() for word in plain_caption(text).split())
    vocabulary = [*_SPECIAL, *sorted(words)]
    text = {**_TEXT, "vocab_size": len(vocabulary)}
    vision_config = {"use_swin": True, "image_res": _SIDE, "embed_dim": _DIMENSION, "vision_config": _VISION}
    import torch

    with changing(folder, KIND, busy=f"{folder}: another process is training it; waiting for it") as change:
        if checkpoint.is_file():
            return name
        change.write_json(config.relative_to(folder).as_posix(), {**vision_config, "text_config": text})
        change.write("vocab.txt", "\n".join(vocabulary).encode() + b"\n")
        state = _trained(train, text, checkpoint, settings.steps, seed)
        with change.replacing(checkpoint.name) as path:
            torch.save({"model": state, "config": {"image_res": _SIDE}}, path)
    return name


def _trained(train: Collection, text: dict[str, Any], checkpoint: Path, steps: int, seed: int) -> dict[str, Tensor]:
    """The weights under the authors' names."""
    import torch
    from torch import nn

    files, reader = find_vocabulary("small X-VLM", None, checkpoint), ImageReader(train)
    drawn = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = FusionModel(XVLM, Sizes(_SIDE, _VISION, {**BERT, **text}, _DIMENSION)).train()
        for layer in (*model.text.modules(), *model.fusion.modules(), *model.itm_head.modules()):
            if isinstance(layer, nn.Linear):  # BERT's own deviation, 0.02, is made for a width of 768
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
        image_half: Any = image_tower(model)
        text_half: Any = text_tower(model, files, max_length=40, max_words=30, template="{}")
        pixels = image_half.collate(image_half.prepare_all([reader.open(row) for row in range(train.images.num_rows)]))
        tokens = text_half.prepare_all(train.captions["text"].to_pylist())
        captions = _captions_of(train)
        inverse = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        parameters = [*model.parameters(), inverse]
        optimiser = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps, pct_start=0.1)
        for _ in range(steps):
            rows = drawn.choice(len(captions), min(_BATCH, len(captions)), replace=False)
            words = text_half.collate([tokens[drawn.choice(captions[row])] for row in rows])
            image = image_half.network.tokens(cast("Tensor", pixels)[torch.from_numpy(rows)])
            mask = cast("Any", words)["attention_mask"]
            loss = _loss(model, inverse.exp(), image, text_half.network.tokens(words), mask)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
    names = model.official_names()
    state = {names[key]: value.detach() for key, value in model.state_dict().items()}
    return state | {"temp": (-inverse).exp().detach()}


def _loss(model: Any, scale: Tensor, image: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """The contrastive loss plus twice the matching loss of each pair, and of its image and text with another."""
    # image: (n, t, width) tokens of the images.
    import torch
    from torch.nn.functional import cross_entropy, normalize

    vectors = normalize(model.vision_proj(image[:, 0]), dim=-1), normalize(model.text_proj(words[:, 0]), dim=-1)
    logits = scale * vectors[0] @ vectors[1].T
    own = torch.arange(len(image))
    contrastive = (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
    with torch.no_grad():
        eased = (_EASE * logits).masked_fill(torch.eye(len(image), dtype=torch.bool), -math.inf)
        texts, images = (torch.multinomial(matrix.softmax(1), 1)[:, 0] for matrix in (eased, eased.T))
    at_image, at_text = torch.cat([own, own, images]), torch.cat([own, texts, own])
    states = model.fusion(
        encoder_embeds=words[at_text], attention_mask=mask[at_text], encoder_hidden_states=image[at_image]
    )
    match = torch.cat([torch.ones_like(own), torch.zeros_like(own), torch.zeros_like(own)])
    matching: Tensor = cross_entropy(model.itm_head(states.last_hidden_state[:, 0]), match)
    return contrastive + 2 * matching


def _captions_of(train: Collection) -> list[list[int]]:
    """The rows of each image's captions, in the order of the images."""
    image_rows = {name: row for row, name in enumerate(train.images["id"].to_pylist())}
    captions: list[list[int]] = [[] for _ in image_rows]
    for row, image in enumerate(train.captions["image_id"].to_pylist()):
        captions[image_rows[image]].append(row)
    return captions


class EvaluateExperiment(Experiment):
    """Search a collection in both tasks and measure it (`visir evaluate`)."""

    experiment: Literal["evaluate"] = "evaluate"
    model: str | None = None  # as `visir.load` takes it
    training: PriorTraining | None = None  # instead of a model: a recipe whose checkpoint is evaluated
    # Instead of a model: a small X-VLM that is trained first; it re-ranks where `k_test` is set.
    small_xvlm: SmallXvlm | None = None
    source: str  # the collection
    images: str | None = None  # where its pictures are
    split: str | None = "test"  # the split that is searched
    captions: str = "all"  # which captions of each image take part
    rerank: str | None = None  # a model with a matching head that re-ranks the best `k_test`
    k_test: int | None = None  # how many candidates are re-ranked

    def describe(self) -> str:
        system = self.model or (
            f"the checkpoint of {self.training.recipe}"
            if self.training
            else "a small X-VLM"
            if self.small_xvlm
            else "nothing"
        )
        part = "" if self.split == "test" else f", split {self.split}" if self.split else ", everything"
        return f"{system} on {self.source}{part}, {self.captions} captions" + (
            f", the best {self.k_test} re-ranked" if self.rerank or (self.small_xvlm and self.k_test) else ""
        )

    def measure(self, context: ExperimentContext) -> Measurement:

        if self.small_xvlm is None:
            name = system_of(self.model, self.training, context, self.describe())
        else:
            key = hash_json(self.small_xvlm.model_dump(mode="json"))[:10]
            folder = context.shared / f"small-xvlm-{key}" / f"seed{context.seed}"
            with context.locks.process:
                name = small_xvlm(self.small_xvlm, folder, seed=context.seed)
        with context.locks.process:
            encoder = load(name)
            collection = open_collection(
                expand(self.source), images=None if self.images is None else expand(self.images)
            )
            evaluation = evaluate(
                collection,
                encoder,
                split=self.split,
                captions=self.captions,
                measures=MEASURES,
                rerank=self._second(encoder),
                k_test=self.k_test,
                name=self._name(),
            )
            save(evaluation, context.folder / "evaluation", replace=True)
        cell, protocol = measured(evaluation, context, evaluation.result.system), evaluation.result.protocol
        if not protocol.matcher:
            return cell
        # By name: a checkpoint's own is its path.
        return replace(cell, protocol=dict(protocol.changed(matcher=f"{self.rerank or self._name()}, itm").card()))

    def _second(self, encoder: Encoder) -> Encoder | None:
        """Whose matching head re-ranks."""

        if self.rerank is not None and self.rerank != self.model:
            return load(expand(self.rerank))
        return encoder if self.rerank or (self.small_xvlm and self.k_test) else None

    def _name(self) -> str | None:
        """The name of the system; a checkpoint is named by its recipe, because its path differs between machines."""
        return self.model or (self.training.recipe if self.training else "small X-VLM" if self.small_xvlm else None)


MEASURES = ("hit@1", "hit@5", "hit@10", "recall@1", "recall@5", "recall@10", "mrr@10", "rprecision", "median_rank")
