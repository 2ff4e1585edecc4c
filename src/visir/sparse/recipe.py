"""The recipe of a sparse head: one small TOML file that says everything a training depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from visir.sparse.expansion import SampledPer, Variant
from visir.training.recipe import Averaging, Data, EpochChoice, Optimiser, Regime, Schedule, check_models
from visir.training.settings import Change, Count, Positive, Settings, Share, read_settings
from visir.training.shipped import OWN, sparse_base_of

TermChoice = Literal["all"] | Count

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class HeadSettings(Settings):
    """The projection head; see `visir.sparse.language_model.SparseHead`."""

    width: Count = 768  # ω
    # Which may be active: "all" that are usable, as in the chapter, or those that so many training captions have: 1
    # leaves a quarter of BERT's in Flickr8k, at a quarter of the cost. A term that is never or hardly ever seen keeps
    # little of its meaning in a short training: the head uses it for something else, and it turns up where nobody would
    # say it. What is given up: no vector can ever say another word, nor is such a word of a query ever matched.
    terms: TermChoice = "all"
    # Whose words there are, and whose embeddings W2 begins from: "st:all-MiniLM-L6-v2", which needs no hub, or a masked
    # language model (a hub name, or a folder) with a fast tokenizer, such as "distilbert-base-uncased", the released
    # code's.
    language_model: str = "st:all-MiniLM-L6-v2"


class ExpansionSettings(Settings):
    """Expansion control; see `visir.sparse.expansion.Expansion`."""

    variant: Variant = "caption+word"  # "none", "free", "caption", "caption+word": the tables' exp = 0, 1, c, c + w
    # E_C is drawn once per "batch", as in Algorithm 1 and in the released code, or for each "caption", which finds less
    # (see `Expansion`).
    sampled_per: SampledPer = "batch"


class LossSettings(Settings):
    """Eq. 3.7; see `visir.sparse.loss.SparseLoss`."""

    temperature: Positive = 0.001  # τ
    balance: Fraction = 0.5  # λ
    eta: Annotated[float, Field(ge=0.0)] = 1e-3  # η
    warmup: Fraction = 0.2  # η rises quadratically over this share of all steps


class SparseOptimiser(Optimiser):
    """How the weights move, with the chapter's values: AdamW without weight decay, gradients as long as they are."""

    # - `rate`: peak learning rate of W1, which begins from nothing

    epochs: Count = 200
    betas: tuple[Share, Share] = (0.9, 0.999)
    decay: Annotated[float, Field(ge=0.0)] = 0.0
    clip: Positive | None = None
    chunk: None = None  # there is none: both sides of a batch go through the head together
    # Of the layer norm, and of W2 with its bias, which come from a language model. The released rates suit a hundred
    # thousand steps; a training of a few hundred wants higher ones.
    norm_rate: Positive = 5e-5
    words_rate: Positive = 5e-5


class SparseSchedule(Schedule):
    """The learning rates over time: up over the first fifth of all steps, then down to 0, both linearly."""

    shape: Literal["cosine", "linear", "step", "constant"] = "linear"
    warmup: Annotated[float, Field(ge=0.0)] = 0.2


class SparseSelection(EpochChoice):
    """Which epoch's weights are kept."""

    # "mrr@10", the epoch with the best MRR@10 of text to image on the validation split (the earliest of equals), or
    # "last". The chapter searches images by text and reports R@1, R@5 and MRR@10; of these MRR@10 sees most ranks. (The
    # released code keeps the best R@1; rsum, by which visir chooses dense towers, counts image to text too.)
    keep: Literal["mrr@10", "last"] = "mrr@10"

    @property
    def figure(self) -> str:
        """The figure of validation by which epochs are compared."""
        return "mrr@10"


class SparseRecipe(Regime):
    """A sparse head over frozen vectors, and how it is trained.

    Attributes:
        title: What it is for, in one line.
        group: The heading under which it is listed.
        encoder: What made the vectors, as `visir.load` takes it: a model, a checkpoint, or vectors from a file.
        device: "cpu" (where the same seed and number of threads give the same bits), "cuda", or "auto".
        precision: "float32", or the product with W2 in "bfloat16" (not on a CPU); scores and loss are float32 in any
            case.
        compile: Let torch compile the step (not on a CPU, where the loops over active terms are compiled anyway).
    """

    name: Annotated[str, Field(pattern=r"^[\w.\-]+$")]
    title: str = ""
    group: str = ""
    seed: Annotated[int, Field(ge=0)] = 0
    encoder: str = ""
    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    data: Data = Data()
    head: HeadSettings = HeadSettings()
    expansion: ExpansionSettings = ExpansionSettings()
    loss: LossSettings = LossSettings()
    optimiser: SparseOptimiser = SparseOptimiser()
    schedule: SparseSchedule = SparseSchedule()
    averaging: Averaging = Averaging()
    selection: SparseSelection = SparseSelection()

    @property
    def rates(self) -> dict[str, float]:
        """The peak learning rates of what has one of its own."""
        return {"norm": self.optimiser.norm_rate, "words": self.optimiser.words_rate}


def read_sparse_recipe(
    source: str | Path | Mapping[str, Any] | SparseRecipe, changes: Sequence[str | Change] = ()
) -> SparseRecipe:
    """Read a recipe of a sparse head.

    Args:
        source: The path of a TOML file, the same as a dictionary, or a recipe that was read; `extends` works as in
            `visir.training.recipe.read_recipe`.
        changes: What is set over it: "section.key=value", or a `Change`.

    Raises:
        ConfigurationError: Lists every fault at once: unknown keys (with the nearest known one), wrong types, values
            out of range, each with its line.
        EncoderError: A file names a model that runs code of its own, or an address, and `changes` do not.

    Example:
        >>> from visir.training import find_recipe
        >>> read_sparse_recipe(find_recipe("sparse-scenes", "sparsify")).expansion.variant
        'caption+word'
    """
    recipe = read_settings(SparseRecipe, source, changes, find_base=sparse_base_of, own=OWN)
    check_models(recipe, source, changes, "encoder")
    return recipe
