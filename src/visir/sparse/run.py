"""From a recipe to a checkpoint folder that `visir.load` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_dense, is_stored
from visir.encoders.loading import load
from visir.encoders.store import check_there
from visir.encoders.towers.base import Inputs
from visir.errors import ConfigurationError, EncoderError
from visir.jit import compile_ahead
from visir.records import Collection
from visir.sparse.encoder import LAYOUT, SparseEncoder, write_files
from visir.sparse.expansion import Expansion, ExpansionSample, Variant, allowed
from visir.sparse.kernels import own_logits
from visir.sparse.language_model import SparseHead, WordEmbeddings, words_of
from visir.sparse.loss import BatchScores, SparseLoss, eta_at, score, score_active
from visir.sparse.recipe import SparseRecipe, TermChoice, read_sparse_recipe
from visir.sparse.vocabulary import TextTerms, Tokenizer, load_tokenizer
from visir.threads import launched
from visir.training.checkpoint import Checkpoint
from visir.training.data import SPARSE_KEYWORDS, RecipeChanges, RecipeKind, Splits, image_rows_of, split_for_training
from visir.training.inputs import EpochRandom, Side, TrainingBatch
from visir.training.learner import Learner
from visir.training.loop import FitResult, Report
from visir.training.losses import Losses
from visir.training.optimiser import Precision
from visir.training.processes import Processes, steps_per_epoch
from visir.training.recipe import expand
from visir.training.similarities import VectorPairs
from visir.training.trained import TrainedModel

# What is learnt from: dense vectors and own terms, on the device once and for all.


@dataclass(frozen=True, eq=False)
class SparseExamples:
    """The captions of one split, each with its image, as dense vectors and terms; all tensors are on the device."""

    images: Tensor  # (n, d) dense vectors, float32
    texts: Tensor  # (m, d) dense vectors of the captions, float32
    image_rows: Tensor  # (m,) the row of each caption's image
    own: Tensor  # (m, L) each caption's terms, filled up with the size of the vocabulary
    terms: TextTerms  # the same, packed
    frequencies: Tensor  # (|V|,) the share of the captions that have a term, float64
    origin: dict[str, Any]  # where they come from, as plain values
    ids: Sequence[str]  # of the captions
    unit: str = "captions"
    is_slow: bool = False  # everything is on the device

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self, rows: NDArray[np.int64], draw: EpochRandom | None = None) -> TrainingBatch:
        """The captions `rows` with their images, as dense vectors; the `tokens` are the captions' own terms."""
        index = torch.from_numpy(rows).to(self.texts.device)
        image_rows = self.image_rows[index]
        return TrainingBatch(self.images[image_rows], self.texts[index], image_rows, tokens=self.own[index], rows=index)

    def labels(self, rows: NDArray[np.int64]) -> tuple[Tensor, None]:
        """See `visir.training.inputs.TrainingData.labels`."""
        return self.image_rows[torch.from_numpy(rows).to(self.image_rows.device)], None

    @classmethod
    def of(cls, split: Collection, encoder: Encoder, tokenizer: Tokenizer, device: torch.device) -> SparseExamples:
        """Encode a split, or find its vectors in the store, and tokenise its captions."""
        vectors = {
            side: torch.from_numpy(np.array(encode_dense(encoder, split, side).vectors, dtype=np.float32)).to(device)
            for side in ("image", "text")
        }
        terms = tokenizer.terms(split.captions["text"].to_pylist())
        size = len(tokenizer.vocabulary)
        return cls(
            vectors["image"],
            vectors["text"],
            torch.from_numpy(image_rows_of(split)).to(device),
            torch.from_numpy(padded(terms, size)).to(device),
            terms,
            torch.from_numpy(terms.frequencies(size)).to(device),
            {"collection": split.describe(), "encoder": encoder.card.to_dict(), "vocabulary": tokenizer.name},
            split.captions["id"].to_pylist(),
        )


def padded(terms: TextTerms, size: int) -> NDArray[np.int64]:
    """(m, L) int64: the terms of each text, filled up with `size`; L is the longest text's number, at least 1."""
    lengths = np.diff(terms.offsets)
    table = np.full((len(terms), max(1, int(lengths.max(initial=0)))), size, np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = terms.terms
    return table


# Validation while training: text to image over sparse vectors, and what it costs.

_BLOCK = 512


_SPARSE = 0.02
"""Below this share of active terms a block of captions has few columns in use, and only they are multiplied."""


@torch.inference_mode()
def validate(head: SparseHead, pairs: SparseExamples, variant: Variant) -> dict[str, float]:
    """Text to image on a split: "mrr@10", "hit@1", "hit@5" in percent; "flops", "image terms", "text terms"."""
    # FLOPs is eq. 3.1, the mean number of terms that a caption and an image both have. Captions are expanded, except
    # under "none". Ties, and NaN, count against the query, so that a head whose vectors are all empty finds nothing.
    device = pairs.images.device
    images = torch.cat([head(block) for block in pairs.images.split(_BLOCK)])
    having = (images > 0).sum(dim=0, dtype=torch.float64)  # images of each term
    expanded = torch.full((_BLOCK,), variant != "none", device=device)
    ranks, active, common = [], 0.0, 0.0
    for start in range(0, len(pairs), _BLOCK):
        rows = slice(start, start + _BLOCK)
        own, image_rows = pairs.own[rows], pairs.image_rows[rows]
        texts = head(pairs.texts[rows]) * allowed(own, ExpansionSample(expanded[: len(own)]), head.size)
        count = (texts > 0).sum(dim=0, dtype=torch.float64)
        active += float(count.sum())
        common += float(count @ having)
        if device.type == "cpu" and float(count.sum()) / texts.numel() < _SPARSE:
            columns = torch.nonzero(texts.any(dim=0))[:, 0]
            scores = texts[:, columns] @ images[:, columns].T
        else:
            scores = texts @ images.T
        best = scores.gather(1, image_rows[:, None])
        above = ~(scores < best)
        above.scatter_(1, image_rows[:, None], False)
        ranks.append(1 + above.sum(dim=1))
    first_ranks = torch.cat(ranks).double()
    reciprocal = torch.where(first_ranks <= 10, 1.0 / first_ranks, torch.zeros_like(first_ranks))
    return {
        "mrr@10": 100.0 * float(reciprocal.mean()),
        "hit@1": 100.0 * float((first_ranks <= 1).double().mean()),
        "hit@5": 100.0 * float((first_ranks <= 5).double().mean()),
        "flops": common / (len(images) * len(pairs)),
        "image terms": float(having.sum()) / len(images),
        "text terms": active / len(pairs),
    }


Score = Callable[[SparseHead, Tensor, Tensor, Tensor, ExpansionSample], BatchScores]


class SparseLearner(Learner[SparseExamples]):
    """A sparse head, the loss of thesis eq. 3.7 and the expansion control of Algorithm 1."""

    # Both sides go through the head together, so `vectors` passes the dense ones on, and `losses` is where the head is.

    advice: ClassVar[str] = "lower optimiser.rate and optimiser.words_rate"

    def __init__(self, recipe: SparseRecipe, head: SparseHead, train: SparseExamples) -> None:
        super().__init__()
        self.recipe, self.head, self.frequencies = recipe, head, train.frequencies
        self.expansion = Expansion(
            recipe.expansion.variant, recipe.optimiser.epochs, recipe.expansion.sampled_per, recipe.seed
        )
        self.loss = SparseLoss(recipe.loss.temperature, recipe.loss.balance)
        self.steps = steps_per_epoch(len(train), recipe.optimiser.batch, recipe.optimiser.accumulate)
        self.epoch = self.step = 0
        self._score: Score = score

    @property
    def model(self) -> nn.Module:
        """See `Learner.model`: the head."""
        return self.head

    def prepare(self, precision: Precision) -> None:
        """See `Learner.prepare`. On a CPU only active terms are computed, in float32."""
        super().prepare(precision)
        if precision.device.type != "cpu":
            self._score = torch.compile(score) if self.recipe.compile else score
            return
        faults = [f"compile = {self.recipe.compile}"] if self.recipe.compile else []
        faults += [f'precision = "{self.recipe.precision}"'] if self.recipe.precision != "float32" else []
        if faults:
            raise ConfigurationError(
                f"{' and '.join(faults)}: not on a CPU, where only active terms are computed.",
                hint='leave it out, or device = "cuda"',
                code="not-cpu-where-active",
            )
        self._score = score_active

    def parts(self) -> Mapping[str, nn.Module]:
        """See `Learner.parts`: "project" (W1), "norm", and "words" (W2 and its bias)."""
        return {"project": self.head.project, "norm": self.head.norm, "words": self.head}

    def at_step(self, epoch: int, step: int) -> None:
        """See `Learner.at_step`."""
        self.epoch, self.step = epoch, step

    @property
    def eta(self) -> float:
        """η at this step."""
        settings = self.recipe.loss
        steps = self.recipe.optimiser.epochs * self.steps
        return eta_at(settings.eta, self.epoch * self.steps + self.step, steps, settings.warmup)

    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """See `Learner.vectors`: dense vectors as they come."""
        assert isinstance(inputs, Tensor), "dense vectors"
        return inputs

    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """See `Learner.losses`: "i2t" and "t2i" in nats, "l1" before η, and the mean numbers of active terms."""
        assert everyone is None and pairs.rows is not None and pairs.tokens is not None, "one process, sparse examples"
        sample = self.expansion.draw(self.epoch, self.step, pairs.rows, self.frequencies)
        with self.precision.autocast():
            scores = self._score(self.head, pairs.anchors, pairs.positives, pairs.tokens, sample)
        total, parts = self.loss(scores, pairs.anchors, pairs.positives, self.eta)
        return Losses(total, {**parts, "image terms": scores.image_terms, "text terms": scores.text_terms})

    def facts(self) -> dict[str, float]:
        """See `Learner.facts`: η and p_c."""
        return {"eta": self.eta, "p_c": self.expansion.caption_probability(self.epoch)}

    def validate(self, examples: SparseExamples) -> dict[str, float]:
        """See `visir.sparse.run.validate`."""
        return validate(self.head, examples, self.recipe.expansion.variant)


# A training over the terms that may be active: the other rows of W2 are neither multiplied nor moved.


@dataclass(frozen=True, eq=False)
class VocabularyPruning:
    """Which terms of a vocabulary are trained."""

    terms: Tensor  # (U,) int64, ascending; term `terms[j]` of the vocabulary is term j of the pruned head

    @classmethod
    def of(cls, which: TermChoice, head: SparseHead, train: SparseExamples) -> VocabularyPruning:
        """Choose the terms."""
        chosen = head.usable.cpu()
        if which != "all":
            captions = np.bincount(train.terms.terms, minlength=len(chosen))
            chosen = chosen & torch.from_numpy(captions >= which)
            if not chosen.any():
                most = f"the most frequent term is in {captions.max(initial=0):,} of {len(train.terms):,} captions"
                raise ConfigurationError(f"head.terms = {which}: {most}.", hint="ask for fewer captions of each term")
        return cls(torch.nonzero(chosen)[:, 0])

    @torch.no_grad()
    def prune(self, head: SparseHead) -> SparseHead:
        """The head with the rows of W2 of these terms alone."""
        norm = (head.norm.weight, head.norm.bias)
        words = WordEmbeddings(head.words[self.terms], head.bias[self.terms], norm, "")
        pruned = SparseHead(head.inputs, words, np.ones(len(self.terms), bool))
        pruned.project.load_state_dict(head.project.state_dict())
        return pruned.to(head.words.dtype)

    def prune_examples(self, examples: SparseExamples) -> SparseExamples:
        """The same examples without the captions' own terms that are not trained: no vector can say them."""
        chosen = self.terms.numpy()
        numbers = np.full(len(examples.frequencies), -1, np.int32)
        numbers[chosen] = np.arange(len(chosen), dtype=np.int32)
        renumbered = numbers[examples.terms.terms]
        below = np.concatenate([[0], np.cumsum(renumbered >= 0)])
        terms = TextTerms(below[examples.terms.offsets], renumbered[renumbered >= 0])
        device = examples.own.device
        return replace(
            examples,
            own=torch.from_numpy(padded(terms, len(chosen))).to(device),
            terms=terms,
            frequencies=examples.frequencies[self.terms.to(device)],
        )

    @torch.no_grad()
    def restore(self, trained: SparseHead, fresh: SparseHead) -> SparseHead:
        """A head of the whole vocabulary with the trained rows in their places; `fresh` is what `prune` began from."""
        # A usable term that was not trained has a row of zeros and the bias -1: its logit is -1 for every vector, its
        # weight 0. Rows of special tokens, which are masked in any case, stay as they were.
        words, bias = fresh.words.detach().cpu().clone(), fresh.bias.detach().cpu().clone()
        never = fresh.usable.cpu().clone()
        never[self.terms] = False
        words[never], bias[never] = 0.0, -1.0
        words[self.terms], bias[self.terms] = trained.words.cpu(), trained.bias.cpu()
        norm = (trained.norm.weight.cpu(), trained.norm.bias.cpu())
        restored = SparseHead(trained.inputs, WordEmbeddings(words, bias, norm, ""), fresh.usable.cpu().numpy())
        restored.project.load_state_dict(trained.project.state_dict())
        return restored.to(words.dtype)


SAVE_SECONDS = 120.0
"""How often the state is written (it is four times W2, 375 MB of a BERT vocabulary): what a kill can cost at most."""


SPARSE = RecipeKind("sparsify", SparseRecipe, read_sparse_recipe, SPARSE_KEYWORDS)
"""Recipes of `visir.sparsify`."""


def sparsify(
    data: Any = None,
    model: Any = None,
    *,
    recipe: str | Path | Mapping[str, Any] | SparseRecipe = "sparse",
    out: str | Path | None = None,
    variant: Variant | None = None,
    eta: float | None = None,
    images: Any = None,
    split_by: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    set: RecipeChanges | None = None,
    resume: bool = False,
    report: Report | None = None,
    **sections: Any,
) -> TrainedModel:
    """Train a head that says the vectors of any encoder in weighted words.

    What comes back is a folder and stands wherever a model does: `visir.load(run)` gives a `SparseEncoder`, and
    `visir.words(run, "a dog on a beach")` its words. Dense vectors come from the store or from a file; nothing is
    encoded twice. Everything else is as in `visir.train`.

    Args:
        data: Pictures and captions, as `visir.train` takes them; by default what the recipe names.
        model: Whose vectors: a model, a checkpoint, or vectors from a file ("npz:FILE").
        recipe: Recipes of this kind: `visir.recipes(verb="sparsify")`.
        out: The folder to write; `runs/NAME-seedSEED` when it is left out.
        variant: Whether captions may have words that are not their own: "none", "free", "caption", "caption+word".
        eta: η, the weight of sparsity: from 1e-5 (many words) to 1e-2 (few).
        images: Where the pictures of `data` are, when they do not lie beside it.
        split_by: How pictures are divided into training and validation: "random(train=0.8, val=0.2, seed=1)".
        epochs: How often every caption is seen.
        batch: How many pairs a step compares with one another.
        rate: The learning rate at its peak.
        seed: Of everything that is random.
        device: "cpu", "cuda", "cuda:1", or "auto".
        set: Any other keys of the recipe: {"head.terms": 3}.
        resume: Go on from the state that an interrupted training left in `out`; without one, begin.
        report: Called with each epoch.
        **sections: Keys at the top of the recipe: `loss={"eta": 1e-3}`.

    Returns:
        The trained model: `path`, `curve`, `validation`, `load()`.

    Raises:
        ConfigurationError: The recipe has faults; all of them are listed, with the nearest right names.
        VisirError: `out` holds something already, or another process trains into it.
        TrainingError: The loss is NaN or infinite; the ids of the batch are then also in `stopped-batch.json`.
    """
    if launched()[1] > 1:
        raise ConfigurationError(
            "a sparse head is trained in one process.", hint="visir sparsify without torchrun or accelerate"
        )
    keywords = {name: value for name, value in locals().items() if name in SPARSE_KEYWORDS}
    resolved, collection = SPARSE.resolve(recipe, data, keywords, sections, set)
    if not resolved.encoder:
        raise ConfigurationError(
            f"{resolved.name}: whose vectors? No model is named.",
            hint="visir sparsify --data DATA --model MODEL; in Python visir.sparsify(data, model)",
        )
    checkpoint = Checkpoint.begin(resolved, "sparsify", out, LAYOUT, resume=resume)
    splits = split_for_training(collection, resolved.data, resolved.selection)
    if checkpoint.is_finished_with(resolved, trained_on=splits.train, validated_on=splits.validation):
        return TrainedModel(checkpoint.path)
    device_of_head = Processes.join(resolved.device).device
    if device_of_head.type == "cpu":  # a step waits for its loops, so that its bits are the same on a new machine
        compile_ahead(own_logits)
    tokenizer = load_tokenizer(resolved.head.language_model)
    dense = load(expand(resolved.encoder))
    check_pictures(dense, splits)
    examples = [
        SparseExamples.of(split, dense, tokenizer, device_of_head) for split in (splits.train, splits.validation)
    ]
    words = words_of(resolved.head.language_model, resolved.head.width)
    whole = new_head(resolved, dense.dimension, words, tokenizer)
    pruning = VocabularyPruning.of(resolved.head.terms, whole, examples[0])
    train, validation = map(pruning.prune_examples, examples)

    def write(path: Path, result: FitResult[SparseLearner], facts: dict[str, Any]) -> Mapping[str, Any]:
        head = pruning.restore(result.learner.head, whole)
        encoder = SparseEncoder(
            dense, head, tokenizer, variant=resolved.expansion.variant, name=str(checkpoint.path), device="cpu"
        )
        facts |= {"words": words.origin, "terms": len(pruning.terms)}
        return write_files(path, encoder, dense_name=expand(resolved.encoder), facts=facts)

    checkpoint.train(
        resolved,
        SparseLearner(resolved, pruning.prune(whole), train),
        train,
        validation,
        write,
        report=report,
        save_seconds=SAVE_SECONDS,
        save_every_epoch=False,
    )
    return TrainedModel(checkpoint.path)


def check_pictures(dense: Encoder, splits: Splits) -> None:
    """Raise one `ImageError` for all pictures of both splits that would be read and that are not there."""
    check_there([split for split in (splits.train, splits.validation) if not is_stored(dense, split.items("image"))])


def new_head(recipe: SparseRecipe, inputs: int, words: WordEmbeddings, tokenizer: Tokenizer) -> SparseHead:
    """A fresh head: W1 drawn from the seed, W2 from the language model."""
    vocabulary = tokenizer.vocabulary
    if len(words.table) < len(vocabulary):
        raise EncoderError(
            f"{recipe.head.language_model}: {len(words.table)} word embeddings for {len(vocabulary)} terms.",
            hint="the tokenizer and the model in this folder do not belong together",
        )
    # A table is often padded to a round number of rows beyond the tokenizer's last term.
    fitting = WordEmbeddings(words.table[: len(vocabulary)], words.bias[: len(vocabulary)], words.norm, words.origin)
    with torch.random.fork_rng([]):
        torch.manual_seed(recipe.seed)
        return SparseHead(inputs, fitting, vocabulary.usable)
