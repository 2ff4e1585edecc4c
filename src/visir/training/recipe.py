"""The recipe: one small TOML file that says everything a training run depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from visir.encoders.devices import check_code, name_model
from visir.encoders.towers.adapters import AdapterSpec
from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.files import data_directory
from visir.records import Shortcuts
from visir.records.shortcuts import MOST_BITS, Carrier, DigitSource, Kind, Per, Placement
from visir.robustness.perturbations import PERTURBATIONS, find
from visir.training.losses import InfoNCESettings, MultiPositiveSettings
from visir.training.objective import WITH_NEGATIVES, Auxiliary, Contrastive
from visir.training.settings import Change, Count, Positive, Seed, Settings, Share, read_settings
from visir.training.shipped import OWN, base_of

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
    seed: Seed = 0
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
    seed: Seed = 0


class Negatives(Settings):
    """Hard negatives of a batch, beside its own pairs: candidates for every query in it."""

    mined: MinedNegatives | None = None
    swapped: SwappedNegatives | None = None


# Adapters as a recipe writes them: small matrices beside the weights of a model that stays as it is.


class AdapterSettings(Settings):
    """An adapter of `peft` over every side whose tower is "pretrained"; the model's own weights stay as they are.

    Attributes:
        kind: "lora" (Hu et al. 2022), "dora" (Liu et al. 2024), "loha" (Hyeon-Woo et al. 2022), "lokr" (Yeh et al.
            2024) or "ia3" (Liu et al. 2022, which only scales).
        rank: Of the small matrices; peft's own (8) when left out.
        alpha: They are scaled by alpha / rank; peft's own (8) when left out.
        dropout: Within the adapter; peft's own (0) when left out.
        modules: Last parts of the names of modules, as peft's `target_modules`: ["q_proj", "v_proj"]. Empty: all
            matrices; and, with "lora", torch's own attention (open_clip's models have it) as a whole.
        options: Further settings of peft's class for this kind: { use_rslora = true }.
    """

    kind: Literal["lora", "dora", "loha", "lokr", "ia3"] = "lora"
    rank: Count | None = None
    alpha: Positive | None = None
    dropout: Share | None = None
    modules: tuple[str, ...] = ()
    options: Annotated[Mapping[str, Any], Field(default_factory=dict)]

    @property
    def spec(self) -> AdapterSpec:
        """What is put into a tower."""
        alpha = self.alpha if self.alpha is None or self.alpha != int(self.alpha) else int(self.alpha)
        return AdapterSpec(self.kind, self.rank, alpha, self.dropout, self.modules, dict(self.options))


class Data(Settings):
    """What is learnt from.

    Attributes:
        collection: As `visir.collections.open_collection` takes it; "$VISIR_DATA" in it is the directory of real data.
            Empty in recipes for data of your own.
        images: Where the image bytes lie, when that is not where the collection's reader looks: a folder, zip or tar,
            or several.
        train, validation: Names of splits; several are joined by "+".
        split_by: How the pictures of `train` (all of them, where the collection has no splits) are divided into those
            that are trained on and those that validate: "random(train=0.9, val=0.1, seed=0)". Without it the
            collection's own splits count; a collection that has none is divided in this way, and the log says so.
        obtain: What to download and where to put it; shown when the data is not there.
    """

    collection: str = ""
    images: str | tuple[str, ...] | None = None
    train: str = "train"
    validation: str = "val"
    split_by: str | None = None
    obtain: str = ""


class Optimiser(Settings):
    """How the weights move.

    Attributes:
        name: "adamw" (Loshchilov & Hutter 2019), "adam" (Kingma & Ba 2015), "adamp" (Heo et al. 2021; needs timm).
        batch: Captions per step, whose images and captions are each other's negatives; the batches of an epoch differ
            in size by at most one.
        chunk: Captions that go through the towers at once; fewer than `batch` computes the same gradients in less
            memory, at the price of a second forward pass (GradCache, Gao et al. 2021). None: the whole batch at once.
        per_image: So many captions of an image go into a batch together, where it has as many; for objectives that see
            several positives ("multi-positive", and "sigmoid" with siblings as positives). 1: as they fall.
        accumulate: Batches per update, each contrasting only within itself.
        rate: The learning rate at its peak.
        betas: Adam's decays of its moments.
        decay: Decoupled weight decay on matrices; biases and the temperature have none.
        clip: Gradients are scaled down to this norm when they are longer; None never.
    """

    name: Literal["adamw", "adam", "adamp"] = "adamw"
    epochs: Count = 20
    batch: Annotated[int, Field(ge=2)] = 512
    chunk: Count | None = None
    per_image: Count = 1
    accumulate: Count = 1
    rate: Positive = 1e-3
    betas: tuple[Share, Share] = (0.9, 0.98)
    decay: Annotated[float, Field(ge=0.0)] = 0.01
    clip: Positive | None = 2.0


class Schedule(Settings):
    """The learning rate over time.

    Attributes:
        shape: After the warm-up, "cosine" to zero, "linear" to zero, "step" (times `factor` after every `step_epochs`
            epochs) or "constant".
        per: The shape falls with every "step", or once per "epoch", at whose steps the rate is the same: the released
            code of LTD gives its cosine the number of the epoch. The warm-up rises with every step in both.
        warmup: The way up: a share of all steps below 1, a number of steps from 1 on.
        frozen_epochs: That many first epochs leave what came trained (an ImageNet network, GloVe vectors) as it is;
            then everything is tuned, at `tuned_rate` times the rate, and the shape begins anew over the remaining
            epochs.
    """

    shape: Literal["cosine", "linear", "step", "constant"] = "cosine"
    per: Literal["step", "epoch"] = "step"
    warmup: Annotated[float, Field(ge=0.0)] = 0.05
    step_epochs: Count = 15
    factor: Positive = 0.1
    frozen_epochs: Annotated[int, Field(ge=0)] = 0
    tuned_rate: Positive = 0.1


class Averaging(Settings):
    """Stochastic weight averaging within each epoch (Izmailov et al. 2018, as LTD section 4 does it).

    The weights at `snapshots` even places over the last `share` of an epoch's steps are averaged; validation and the
    checkpoint take the average. 0 snapshots: no averaging.

    Attributes:
        snapshots: How many weights are averaged.
        share: Of an epoch's steps, at its end.
        continue_from: What the next epoch goes on from, of which the paper says nothing. "weights": the weights
            themselves, so that averaging changes no step; the average is of the towers, with the running statistics of
            their batch norms. "average": the average takes the place of the weights at the epoch's end, as in the
            released code of LTD (`swap_swa_sgd`); it is of everything that the optimiser moves, the decoders too, and
            batch norms keep their statistics.
    """

    snapshots: Annotated[int, Field(ge=0)] = 0
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    continue_from: Literal["weights", "average"] = "weights"


class EpochChoice(Settings):
    """Which epoch's weights are kept: the best of a figure of validation, or the last."""

    keep: str
    patience: Count | None = None

    @property
    def figure(self) -> str:
        """The figure of validation by which epochs are compared, whichever is kept."""
        raise NotImplementedError


class Regime(Settings):
    """What the loop reads of a recipe: how towers are trained, not what they are."""

    if TYPE_CHECKING:  # each kind of recipe declares them, in its own order and with its own defaults
        name: str
        seed: int
        device: str
        precision: Literal["float32", "bfloat16", "float16"]
        optimiser: Optimiser
        schedule: Schedule
        averaging: Averaging
        selection: EpochChoice

    @property
    def rates(self) -> dict[str, float]:
        """The peak learning rates of the parts that have one of their own."""
        raise NotImplementedError


class Selection(EpochChoice):
    """Which epoch's weights are kept.

    Attributes:
        keep: "rsum", the epoch with the best sum of hit@1, @5 and @10 of both directions on the validation split (the
            earliest of equals), or "last".
        patience: Stop after this many epochs without a better rsum; never, when it is left out.
    """

    keep: Literal["rsum", "last"] = "rsum"

    @property
    def figure(self) -> str:
        """The figure of validation by which epochs are compared."""
        return "rsum"


class CombinerSettings(Settings):
    """A combiner over two frozen encoders: one vector of a text and an image (`visir.encoders.combiner`).

    Attributes:
        projection: The width to which the text and the image are projected; 4 times that of the vectors in the paper.
        hidden: The width of the hidden layers over both; 8 times that of the vectors in the paper.
        dropout: Of the projections and the hidden layers, in training.
        alike: How many pictures that are like the query's own, by the frozen vectors, stand beside each pair as hard
            negatives (the picture itself among them, where it is a document). 0 in the paper.
    """

    projection: Count = 512
    hidden: Count = 1024
    dropout: Share = 0.5
    alike: Annotated[int, Field(ge=0)] = 0


class Recipe(Regime):
    """A dual encoder and how it is trained. Everything that changes the result is here, and is saved beside it.

    Attributes:
        device: Where it computes: "cpu" (the default, because there the same seed and number of threads give the same
            bits), "cuda", or "auto" for what there is.
        precision: "float32", or the forward pass in "bfloat16" or "float16" (with scaled losses) and weights in
            float32.
        title: What it is for, in one line.
        group: The heading under which it is listed.
        dimension: Of the common space; "own" takes that of the encoders, which must agree.
        adapter: What is trained beside the weights of the sides whose tower is "pretrained", which then stay as they
            are; none, when left out: they are tuned themselves.
        negatives: Hard negatives beside the pairs of a batch; none, when left out.
        shortcuts: Synthetic ones on the pictures and captions that are trained on; none, when left out.
        combiner: What makes one vector of a text and an image. With it, `data.collection` holds composed queries
            (FashionIQ, CIRR, "scenes:2000?task=composed"), and both sides are frozen encoders with their heads.
    """

    name: Annotated[str, Field(pattern=r"^[\w.\-]+$")]
    title: str = ""
    group: str = ""
    seed: Seed = 0
    device: str = "cpu"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    dimension: Count | Literal["own"] = 512
    data: Data = Data()
    image: ImageSide
    text: TextSide
    adapter: AdapterSettings | None = None
    objective: Contrastive = InfoNCESettings()
    auxiliary: Auxiliary = Auxiliary()
    negatives: Negatives = Negatives()
    shortcuts: ShortcutSettings | None = None
    combiner: CombinerSettings | None = None
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    averaging: Averaging = Averaging()
    selection: Selection = Selection()

    @property
    def rates(self) -> dict[str, float]:
        """The peak learning rates of the sides that have one of their own."""
        return {side: rate for side, rate in (("image", self.image.rate), ("text", self.text.rate)) if rate}


def read_recipe(source: str | Path | Mapping[str, Any] | Recipe, changes: Sequence[str | Change] = ()) -> Recipe:
    """Read a recipe.

    A recipe may begin from another one, `extends = "name-or-path"` (a path from its own folder, or a recipe that comes
    with visir), and state only what differs. Sections are merged key by key; where the kind of a section changes
    (`tower`, the objective's `name`), the section is replaced. The name, title and group are not taken over.

    Args:
        source: The path of a TOML file; or the same as a dictionary; or a recipe that was read.
        changes: What is set over it: "section.key=value", or a `Change`.

    Raises:
        ConfigurationError: Lists every fault at once: unknown keys (with the nearest known one), wrong types, values
            out of range, each with its line.
        EncoderError: A file names a model that runs code of its own, or an address, and `changes` do not.

    Example:
        >>> from visir.training import find_recipe
        >>> read_recipe(find_recipe("scenes-heads"), ["optimiser.epochs=3"]).optimiser.epochs
        3
    """
    recipe = read_settings(Recipe, source, changes, find_base=base_of, own=OWN)
    title = str(source) if isinstance(source, (str, Path)) else f"recipe {recipe.name}"
    raise_faults(ConfigurationError, title, contradictions(recipe), hint="docs/reference/recipe-settings.md")
    check_models(recipe, source, changes, "image.encoder")
    return recipe


def check_models(recipe: Settings, source: object, changes: Sequence[str | Change], key: str) -> None:
    """Check that a recipe from a file names no model that runs code or asks an address which `changes` do not name."""
    if not isinstance(source, (str, Path)):
        return
    given = set[str]()
    for change in changes:
        value = (Change.parse(change) if isinstance(change, str) else change).value
        given |= {expand(str(name)) for name in (value if isinstance(value, (list, tuple)) else [value])}
    for name in given:
        name_model(name)
    for name in map(expand, _models(recipe.model_dump())):
        check_code(name, source, f"--set {key}={name} (or the key that it is for)")
    data = getattr(recipe, "data", None) or Data()
    for place in (data.collection, *([data.images] if isinstance(data.images, str) else data.images or ())):
        if "://" in place and expand(place) not in given:
            raise ConfigurationError(
                f"{source}: its data are at {place}, an address, and nobody has said here that it may be asked.",
                hint=f"if you know that address, and trust who made {source}: --data {place}",
                code="data-address-nobody",
            )


def _models(values: Mapping[str, Any], *, all_keys: bool = False) -> Iterator[str]:
    """The names of models in a recipe."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _models(value, all_keys=key == "encoders")
        elif all_keys or key in ("encoder", "target", "model"):
            yield from [value] if isinstance(value, str) else value


def contradictions(recipe: Recipe) -> list[str]:
    """What the sections of a recipe ask of each other and do not get."""
    faults = []
    objective, negatives, pretrained = recipe.objective, recipe.negatives, (PretrainedImages, PretrainedTexts)
    if recipe.adapter is not None:
        faults += recipe.adapter.spec.faults()
        if not isinstance(recipe.image, pretrained) and not isinstance(recipe.text, pretrained):
            faults.append('adapter: no side has tower = "pretrained"; there is no model to adapt')
        if any(isinstance(side, (ResNet, SmallCNN, GRU)) for side in (recipe.image, recipe.text)):
            faults.append('adapter: the other side must be "pretrained" or "frozen": a network from nothing is tuned')
    if recipe.text.prompts and recipe.shortcuts is not None:
        faults.append("text.prompts: together with shortcuts, captions would end neither in the prompt nor in digits")
    if (negatives.mined or negatives.swapped) and objective.name not in WITH_NEGATIVES:
        faults.append(f"negatives: objective.name = {objective.name!r} takes none; {', '.join(WITH_NEGATIVES)} do")
    if recipe.combiner is not None:
        faults += _of_combiner(recipe)
    if isinstance(objective, MultiPositiveSettings) and recipe.optimiser.per_image == 1:
        faults.append(
            'objective.name = "multi-positive" with optimiser.per_image = 1: a batch has one caption of an image; '
            "--set optimiser.per_image=5 puts up to five together"
        )
    return faults


def _of_combiner(recipe: Recipe) -> list[str]:
    """What a combiner cannot go with."""
    frozen = isinstance(recipe.image, FrozenImages) and isinstance(recipe.text, FrozenTexts)
    faults = [] if frozen else ['combiner: image.tower and text.tower must be "frozen"']
    if isinstance(recipe.image, FrozenImages) and recipe.image.views != ("whole",):
        faults.append("combiner: image.views: the whole image only")
    further = {
        "text.prompts": recipe.text.prompts,
        "adapter": recipe.adapter,
        "shortcuts": recipe.shortcuts,
        "negatives": recipe.negatives != Negatives(),
        "auxiliary": any(settings is not None for _, settings in recipe.auxiliary),
        'objective.name = "filip"': recipe.objective.name == "filip",
        "data.split_by": recipe.data.split_by,
    }
    if recipe.combiner is not None and recipe.combiner.alike and recipe.objective.name not in WITH_NEGATIVES:
        fault = f"combiner.alike: objective.name = {recipe.objective.name!r} takes no hard negatives"
        faults.append(f"{fault}; {', '.join(WITH_NEGATIVES)} do")
    return [*faults, *(f"combiner: {name} does not go with it" for name, given in further.items() if given)]


def expand(text: str) -> str:
    """`text` with "$VISIR_DATA" replaced by the directory of real data."""
    return text.replace("$VISIR_DATA", str(data_directory()))
