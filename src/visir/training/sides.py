"""The two sides of a model as a recipe writes them: which backbone, over what, and which head."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from visir.errors import VisirError
from visir.records import Shortcuts
from visir.records.shortcuts import MOST_BITS, Carrier, DigitSource, Kind, Per, Placement
from visir.robustness.perturbations import PERTURBATIONS, find
from visir.training.settings import Settings

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0.0)]

FITTED_WORDS = "bow:fitted:"
"""Before the number of words, the name of a bag of words that is fitted to the training captions."""


FETCHED = ("imagenet", "imagenet-v2")
"""Weights of a ResNet that torchvision downloads."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _countable(name: str) -> str:
    if name.startswith(FITTED_WORDS.rstrip(":")):
        count = name.removeprefix(FITTED_WORDS)
        if not count.isdecimal() or int(count) == 0:
            raise ValueError(f"a fitted bag of words needs its number of words: {FITTED_WORDS}2048")
    return name


Encoders = Annotated[
    tuple[Annotated[str, AfterValidator(_countable)], ...], Field(min_length=1), BeforeValidator(_listed)
]
"""Names of one encoder, or of several that are joined."""


def _with_one_place(prompt: str) -> str:
    if prompt.count("{}") != 1:
        raise ValueError('a prompt has one place for the caption: "a photo of {}"')
    return prompt


class HeadShape(Settings):
    """One head; see `visir.encoders.towers.base.HeadSpec`.

    VSE++ has one linear layer (`hidden = []`), the LTD baseline two layers with a ReLU (`hidden = [d]`,
    `activation = "relu"`, `layer_norm = false`).
    """

    identity: bool = False
    hidden: tuple[Count, ...] = ()
    activation: Literal["gelu", "relu"] = "gelu"
    layer_norm: bool = True
    shortcut: bool = False
    scaling: Literal["unit", "standard", "none"] = "none"
    dropout: Share = 0.0
    batch_norm: bool = False


class Augmentation(Settings):
    """What is done to a picture in training; nothing, when left out.

    Attributes:
        crop: The smallest share of the area that a random crop keeps (torchvision's `RandomResizedCrop` begins at
            0.08); its sides are between 3:4 and 4:3, and it is resized to the model's size. None crops nothing.
        flip: Mirror every second picture.
        erase: Probability of blanking a random rectangle (Zhong et al. 2020).
    """

    crop: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    flip: bool = False
    erase: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0


class _Side(Settings):
    """What every side has: a head, and a learning rate of its own when the optimiser's does not suit it."""

    # `rate` is constant under every schedule's shape only if the schedule is; the schedule multiplies it too.

    head: HeadShape = HeadShape()
    rate: Positive | None = None


class Whole(Settings):
    """For late interaction: what an item is as a whole, which is added to each of its vectors.

    Attributes:
        encoder: The frozen encoder that gives one vector for each item; for texts, several are joined.
        head: The head over that vector.
    """

    encoder: Encoders
    head: HeadShape = HeadShape()


class FrozenImages(_Side):
    """Vectors of an encoder that stays as it is; only the head is trained.

    `views` are of every image: "whole", "mirrored", "centre", "centre mirrored" (`visir.encoders.models.joined`).
    Training sees one of them at random; in validation and in use their vectors are averaged. `whole` goes with an
    encoder that gives several vectors for each image.
    """

    tower: Literal["frozen"]
    encoder: str
    views: Annotated[tuple[str, ...], Field(min_length=1)] = ("whole",)
    whole: Whole | None = None


class _Texts(_Side):
    """What every side that reads texts has."""

    # Texts with one "{}" each, in which a caption stands: ["a photo of {}", "{}"]. In use a text stands in all of them,
    # and its vector is the mean (CLIP, Radford et al. 2021, section 3.1.4).
    prompts: tuple[Annotated[str, AfterValidator(_with_one_place)], ...] = ()
    # In training a prompt is "drawn" for each caption of an epoch, or all of them are "averaged".
    prompting: Literal["drawn", "averaged"] = "drawn"


class FrozenTexts(_Texts):
    """Vectors of encoders that stay as they are; several are joined (`visir.encoders.models.joined`).

    "bow:fitted:2048" among them is a bag of the 2,048 most frequent words of the training captions, which is kept
    inside the checkpoint. `whole` goes with an encoder that gives several vectors for each text.
    """

    tower: Literal["frozen"]
    encoder: Encoders
    whole: Whole | None = None


class _Pixels(_Side):
    """What every side that reads pixels has."""

    # `cache`: decoded pictures are kept, their shorter side scaled to this many pixels, so that an epoch decodes no
    # JPEG; 0 keeps none and decodes the original file every time, as the papers' code does.

    augment: Augmentation = Augmentation()
    cache: Annotated[int, Field(ge=0)] = 256


class ResNet(_Pixels):
    """A ResNet of torchvision (He et al. 2016), average-pooled.

    Attributes:
        weights: "imagenet" (torchvision's IMAGENET1K_V1, VSE++'s and LTD's), "imagenet-v2" (IMAGENET1K_V2, a better
            network of the same shape, for 50 layers and more), a file of weights, or "random".
        size: Pixels of the square that enters it.
    """

    tower: Literal["resnet"]
    depth: Literal[18, 50, 101, 152] = 50
    weights: str = "imagenet"
    size: Count = 224


class SmallCNN(_Pixels):
    """A small convolutional network from scratch, for machines without a GPU."""

    tower: Literal["small-cnn"]
    size: Count = 64
    width: Count = 32


class PretrainedImages(_Pixels):
    """The image tower of a loaded encoder, tuned with everything in it; the head is the identity by default.

    `checkpointing`: activations are computed again in the backward pass: less memory, about a third more time.
    """

    tower: Literal["pretrained"]
    encoder: str
    head: HeadShape = HeadShape(identity=True)
    cache: Annotated[int, Field(ge=0)] = 0
    checkpointing: bool = False


class PretrainedTexts(_Texts):
    """The text tower of a loaded encoder, tuned with everything in it; as `PretrainedImages`."""

    tower: Literal["pretrained"]
    encoder: str
    head: HeadShape = HeadShape(identity=True)
    checkpointing: bool = False


class GRU(_Texts):
    """A recurrent network over word embeddings, the last state of each direction at its own end of the sentence.

    Attributes:
        vectors: a file of GloVe vectors (`word v1 v2 …` per line); None learns the embeddings from scratch.
        words: Width of the embeddings (must be the file's, when there is one).
        hidden: Of each direction.
        min_count: Rarer words of the training captions become the unknown word.
        word_dropout: Probability that a word is replaced by the unknown word, in training.
        pooling: "last" state, or the "mean" or "max" over the states.
    """

    tower: Literal["gru"]
    vectors: str | None = None
    words: Count = 300
    hidden: Count = 1024
    bidirectional: bool = True
    layers: Count = 1
    min_count: Count = 1
    word_dropout: Share = 0.0
    pooling: Literal["last", "mean", "max"] = "last"


ImageSide = Annotated[FrozenImages | ResNet | SmallCNN | PretrainedImages, Field(discriminator="tower")]
TextSide = Annotated[FrozenTexts | GRU | PretrainedTexts, Field(discriminator="tower")]


# Shortcuts as a recipe writes them.


class ShortcutSettings(Settings):
    """Synthetic shortcuts on the training and the validation split; see `visir.records.Shortcuts`.

    Validation looks at the split with its shortcuts, as training does; without, it is a matter of `visir evaluate`.

    Attributes:
        kind: "unique" (setup II of thesis section 4.3) or "bits" (setup IV: `bits` of them).
        on: "both", "images" or "captions" (setup III).
        per: "image", or "caption": every caption has its own.
        digits: "mnist", "sklearn" or "auto", the first that is there.
        placement: "even" (the thesis), "packed" (its code).
        seed: Of numbers and handwriting; the recipe's own seed does not enter, so that seeds share their shortcuts.
        shuffles: 0 re-shuffles the numbers every epoch; k ≥ 1 makes k assignments, and epoch e takes the (e mod k)-th.
            A frozen side needs that, and encodes the split once for each.
    """

    kind: Kind = "unique"
    bits: Annotated[int, Field(ge=0, le=MOST_BITS)] = 0
    on: Carrier = "both"
    per: Per = "image"
    digits: DigitSource = "auto"
    placement: Placement = "even"
    seed: Annotated[int, Field(ge=0)] = 0
    shuffles: Annotated[int, Field(ge=0)] = 0

    def record(self) -> Shortcuts:
        """What is injected."""
        return Shortcuts(**self.model_dump(exclude={"shuffles"}))


# Hard negatives as a recipe asks for them: found by a model, or made of captions whose words changed places.

OTHER_MEANING = frozenset({"word order", "meaning"})
"""The families of perturbations after which a caption is wrong for its picture; others leave it right."""


def _changes_meaning(kind: str) -> str:
    try:
        families = {find(step).family for step in kind.split("+")}
    except VisirError as fault:
        raise ValueError(f"{fault.message} {fault.hint}") from fault
    if not families <= OTHER_MEANING:
        names = ", ".join(name for name, known in PERTURBATIONS.items() if known.family in OTHER_MEANING)
        raise ValueError(f"{kind!r} leaves a caption right for its picture; those that do not: {names}")
    return kind


class MinedNegatives(Settings):
    """Captions that a model takes for a picture's own, and pictures that it takes for a caption's.

    Never a picture's own captions, a caption of the same text, or a pair that a judgement of the collection calls
    relevant.

    Attributes:
        count: How many for each pair.
        of: "captions" for the pictures, "images" for the captions, or "both".
        nearest: They are drawn anew each epoch from so many nearest ones.
        skip: So many of the very nearest are left out: in data with few captions they are often right.
        model: The model that searches, as `visir.load` takes it; empty, the one that is trained, as it is then.
        every: The trained model searches again before every such epoch.
    """

    count: Count = 1
    of: Literal["captions", "images", "both"] = "both"
    nearest: Count = 30
    skip: Annotated[int, Field(ge=0)] = 0
    model: str = ""
    every: Count = 1


class SwappedNegatives(Settings):
    """Captions whose words changed places (NegCLIP: Yuksekgonul et al. 2023), one of each kind for each pair.

    A caption that a kind cannot change has no such negative.

    Attributes:
        kinds: Perturbations of the family "word order"; "shuffle_nouns_and_adj" makes "a red hat on a blue dog" of
            "a blue hat on a red dog".
        variants: Different changes of each caption; epoch e takes the (e mod variants)-th.
        seed: Of the changes.
    """

    kinds: Annotated[
        tuple[Annotated[str, AfterValidator(_changes_meaning)], ...], Field(min_length=1), BeforeValidator(_listed)
    ] = ("shuffle_nouns_and_adj",)
    variants: Count = 1
    seed: Annotated[int, Field(ge=0)] = 0


class Negatives(Settings):
    """Hard negatives of a batch, beside its own pairs: candidates for every query in it."""

    mined: MinedNegatives | None = None
    swapped: SwappedNegatives | None = None
