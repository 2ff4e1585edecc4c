"""A trained category model: a folder, and from the vectors of a catalogue to the common space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AfterValidator, Field
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, check_files, load_modules, read_description, save_modules
from visir.encoders.forms import one_each
from visir.encoders.loading import load_recorded
from visir.encoders.towers.base import Head, HeadSpec, Inputs, Tower
from visir.errors import ConfigurationError, EmbeddingError, EncoderError, raise_faults
from visir.files import hash_file
from visir.products.encoding import AttributeVectors, CatalogueVectors, Floats, ProductVectors
from visir.products.task import Setting
from visir.records import Embeddings, EncoderCard, Modality
from visir.records.category_tree import NONE, CategoryTree
from visir.training.inputs import EpochRandom, VectorSource
from visir.training.learner import encode_source
from visir.training.losses import Temperature
from visir.training.recipe import Averaging, HeadShape, Optimiser, Regime, Schedule, Selection, check_models
from visir.training.settings import Count, Positive, Settings, read_settings
from visir.training.shipped import base_of, find_recipe, shipped_recipes
from visir.training.similarities import VectorPairs, cosines

# The objective of a category model: InfoNCE between categories and products, eqs 7.7–7.9, and two extensions.

Targets = Literal["pairs", "multi-positive"]


class CategoryLoss(Settings):
    """Eqs 7.7–7.9; see `CategoryInfoNCE`."""

    temperature: Positive = 1.0  # τ, 1 in the thesis
    learn_temperature: bool = False  # whether τ is trained
    # λ, the weight of product to category; category to product has 1 − λ.
    balance: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    targets: Targets = "pairs"  # "pairs" (the thesis) or "multi-positive"
    hierarchy: Annotated[float, Field(ge=0.0)] = 0.0  # the weight of the tree penalty; 0 is none (the thesis)


class CategoryInfoNCE(nn.Module):
    """InfoNCE over a batch of category–product pairs, in both directions."""

    # With cosines s_jk of category j and product k, S = s / τ and targets T whose rows sum to 1:
    #     ℓ_j(c→p) = −Σ_k T_jk log( exp S_jk / Σ_m exp S_jm )          (7.7)
    #     ℓ_j(p→c) = −Σ_k T′_jk log( exp S_kj / Σ_m exp S_mj )         (7.8)
    #     L = mean_j  λ ℓ_j(p→c) + (1 − λ) ℓ_j(c→p)                    (7.9)
    # - targets "pairs": T = T′ = 1 on the diagonal, which is the thesis's loss. Two products of one category in a batch
    #   are then each other's negatives although both are right.
    # - targets "multi-positive": whatever is right shares the target evenly: T_jk = 1 / |P(j)| for the products k that
    #   belong to category j, and T′ likewise for the categories of product j. A product belongs to every category of
    #   its path, so an ancestor that another pair drew is right too, whichever category the product itself was drawn
    #   with. (L_out of Khosla et al., "Supervised contrastive learning", NeurIPS 2020, eq. 2; L_in, the other reading,
    #   is content when one of several positives is found.)
    # - `hierarchy` γ > 0 adds γ · mean_j λ E_j(p→c) + (1 − λ) E_j(c→p), where E_j(c→p) = Σ_k softmax_k(S_jk) · up(j, k)
    #   is how many levels one has to climb from category j, on average over what it finds, until the product found
    #   belongs: 0 for a right one, 1 for a product of the parent, depth(j) for one of another tree. The thesis asks for
    #   a loss that minimises the tree distance of predictions (section 7.6.1) and gives none. Climbing from the
    #   category, and not the way from one category to the other, so that an error costs the same however deep the
    #   product lies.
    # `pairs.anchors` are categories, `pairs.positives` products, `pairs.anchor_rows` the rows of the categories they
    # were paired with and `pairs.classes` those of the products' own, most specific categories.

    paths: Tensor
    depths: Tensor

    def __init__(self, settings: CategoryLoss, tree: CategoryTree) -> None:
        super().__init__()
        self.settings = settings
        self.temperature = Temperature(settings.temperature, learnt=settings.learn_temperature)
        # Not trained, and a function of the catalogue: no part of a saved state.
        self.register_buffer("paths", torch.from_numpy(tree.paths), persistent=False)
        self.register_buffer("depths", torch.from_numpy(tree.depths), persistent=False)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        settings = self.settings
        logits: Tensor = self.temperature(cosines(pairs))
        up = self.levels(pairs) if settings.targets != "pairs" or settings.hierarchy else None
        to_product = _loss(logits, up, settings)
        to_category = _loss(logits.T, None if up is None else up.T, settings)
        return settings.balance * to_category + (1 - settings.balance) * to_product

    def levels(self, pairs: VectorPairs) -> Tensor:
        """(n, n) integers up(j, k): levels from category j up to the first that product k belongs to; 0: right."""
        # In another tree there is none: one level above the root, depth(j) in all.
        if pairs.classes is None:
            raise ConfigurationError(
                "this loss needs the products' own categories; give `TrainingExamples.classes`.",
                code="loss-needs-products-categories",
            )
        path, own = self.paths[pairs.anchor_rows], self.paths[pairs.classes]
        shared = (path[:, None] == own[None, :]) & (path != NONE)[:, None]
        return self.depths[pairs.anchor_rows][:, None] - shared.sum(-1)


def _loss(logits: Tensor, up: Tensor | None, settings: CategoryLoss) -> Tensor:
    """One direction; queries along the rows."""
    log_shares = logits.log_softmax(dim=1)
    if up is not None and settings.targets == "multi-positive":
        right = (up == 0).to(logits.dtype)
        loss = -(right * log_shares).sum(1) / right.sum(1)
    else:
        loss = -log_shares.diagonal()
    if up is not None and settings.hierarchy:
        loss = loss + settings.hierarchy * (log_shares.exp() * up).sum(1)
    return loss.mean()


# The recipe of a category model: one small TOML file with everything a training depends on.

Part = Literal["image", "title", "attributes"]
VERB = "products train"
"""The command that the files of these recipes begin with."""
RECIPES = Path(__file__).parent / "recipes"


def _in_order(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    if len(set(parts)) != len(parts):
        raise ValueError("each modality once")
    return tuple(part for part in get_args(Part) if part in parts)


class CategorySide(Settings):
    """The head over category names, g_c (eq. 7.2); two hidden layers, as in the thesis, which gives no widths."""

    head: HeadShape = HeadShape(hidden=(512, 512))
    rate: Positive | None = None


class ProductSide(Settings):
    """The modalities of a product, joined, and the head over them, g_p (eqs 7.3–7.6). See `ProductTower`."""

    # Any of "image", "title", "attributes": CLIP-I has the first, CLIP-IA image and attributes, CLIP-ITA all.
    modalities: Annotated[tuple[Part, ...], Field(min_length=1), AfterValidator(_in_order)] = get_args(Part)
    # Their "mean" (eq. 7.5), or "attention" over them (the future work of the thesis).
    attributes: Literal["mean", "attention"] = "mean"
    # "unit" divides the vector of each modality by its length before they are joined; "none" joins the vectors of the
    # encoders as they are, which the thesis may have done.
    scaling: Literal["unit", "none"] = "unit"
    # The vector of a modality that a product lacks: "zero", or a "learnt" one per modality.
    absent: Literal["zero", "learnt"] = "zero"
    head: HeadShape = HeadShape(hidden=(512, 512))  # its hidden layers
    rate: Positive | None = None  # the peak learning rate of this side; None takes that of the optimiser


class Encoders(Settings):
    """The frozen encoders, as `visir.load` takes them."""

    image: str = "openai/clip-vit-base-patch32"  # of pictures; not loaded when the product side has none
    text: str = "st:all-mpnet-base-v2"  # of the names of categories, titles and attributes


class CategoriesRecipe(Regime):
    """A category model and how it is trained."""

    # Device, precision, optimiser, schedule, averaging and selection are as in `visir.training.recipe.Recipe`.

    name: Annotated[str, Field(pattern=r"^[\w.\-]+$")]
    # The category that a product makes a pair with: one of its path at random ("all"), its most "general" or its most
    # "specific" one (thesis section 7.4.2).
    setting: Setting = "all"
    seed: Annotated[int, Field(ge=0)] = 0
    device: str = "cpu"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    dimension: Count = 512  # d of the common space; the thesis gives none
    encoders: Encoders = Encoders()
    category: CategorySide = CategorySide()
    product: ProductSide = ProductSide()
    objective: CategoryLoss = CategoryLoss()
    optimiser: Optimiser = Optimiser(epochs=30, batch=128)
    schedule: Schedule = Schedule()
    averaging: Averaging = Averaging()
    selection: Selection = Selection(keep="last")

    @property
    def rates(self) -> dict[str, float]:
        """The peak learning rates of the sides that have one of their own."""
        sides = (("category", self.category.rate), ("product", self.product.rate))
        return {side: rate for side, rate in sides if rate}


categories_base_of = partial(base_of, verb=VERB, folder=RECIPES)
find_categories_recipe = partial(find_recipe, verb=VERB, folder=RECIPES)
"""`find_recipe` of these recipes."""
shipped_categories_recipes = partial(shipped_recipes, VERB, RECIPES)
"""`shipped_recipes` of these recipes."""


def read_categories_recipe(path: str | Path, changes: Sequence[str] = ()) -> CategoriesRecipe:
    """Read a recipe; `extends` as in `visir train`."""
    recipe = read_settings(CategoriesRecipe, path, changes, find_base=categories_base_of, own=("name",))
    check_models(recipe, path, changes, "encoders.image")
    return recipe


# Batches of products for the product tower, gathered from vectors that may be memory-mapped.


class ProductSource:
    """The products of a catalogue: a `visir.training.inputs.InputSource`."""

    def __init__(self, vectors: CatalogueVectors, modalities: Sequence[Part], *, mean: bool = True) -> None:
        self._length, self.modalities = len(vectors), tuple(modalities)
        parts = _parts(vectors, modalities)
        self._present = np.stack([parts[name].present for name in modalities], axis=1)
        self._single: dict[Part, ProductVectors] = {
            name: part for name, part in parts.items() if isinstance(part, ProductVectors)
        }
        sets = parts.get("attributes")
        self._sets = sets if isinstance(sets, AttributeVectors) else None
        if self._sets is not None and mean:
            self._single["attributes"] = ProductVectors(mean_attributes(self._sets), np.arange(self._length))
            self._sets = None

    def __len__(self) -> int:
        return self._length

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> dict[str, Tensor]:
        """The products of these rows, by modality; nothing is drawn."""
        present = self._present[rows]
        gathered: dict[str, Tensor] = {"present": torch.from_numpy(present)}
        for number, name in enumerate(self.modalities):
            if name in self._single:
                gathered[name] = torch.from_numpy(_gathered(self._single[name], rows, present[:, number]))
        if self._sets is not None:
            gathered["attributes"], gathered["filled"] = map(torch.from_numpy, _padded(self._sets, rows))
        return gathered


def widths_of(vectors: CatalogueVectors, modalities: Sequence[Part]) -> dict[Part, int]:
    """How wide the vectors of each modality are."""
    return {name: part.width for name, part in _parts(vectors, modalities).items()}


def mean_attributes(attributes: AttributeVectors) -> Floats:
    """(n, d) the mean of the attribute vectors of each product (eq. 7.5), zero where it has none."""
    # A product with a sparse matrix: no vector is copied for each product that has the attribute.
    counts = attributes.counts
    shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
    shape = (len(counts), len(attributes.vectors))
    if not len(attributes.rows):
        return np.zeros((len(counts), attributes.width), np.float32)
    weights = csr_matrix((shares, attributes.rows, attributes.offsets), shape=shape)
    return np.asarray(weights @ np.asarray(attributes.vectors, dtype=np.float32))


def _parts(vectors: CatalogueVectors, modalities: Sequence[Part]) -> dict[Part, ProductVectors | AttributeVectors]:
    available = {"image": vectors.images, "title": vectors.titles, "attributes": vectors.attributes}
    missing = [name for name in modalities if available[name] is None]
    if missing:
        raise ConfigurationError(
            f"{vectors.catalogue.name}: the model reads {' and '.join(missing)}, and there are no such vectors.",
            hint="encode them (encode_catalogue), or train without: product.modalities",
            code="model-reads-no-such",
        )
    return {name: part for name in modalities if (part := available[name]) is not None}


def _gathered(part: ProductVectors, rows: NDArray[np.int64], present: NDArray[np.bool_]) -> Floats:
    if not len(part.vectors):  # no product has one
        return np.zeros((len(rows), part.width), np.float32)
    vectors = np.asarray(part.vectors[np.where(present, part.rows[rows], 0)], np.float32)
    if not present.all():
        vectors[~present] = 0.0
    return vectors


def _padded(sets: AttributeVectors, rows: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """(k, L, d) vectors, and (k, L) whether there is one; L is at least 1."""
    begins, counts = sets.offsets[rows], sets.offsets[rows + 1] - sets.offsets[rows]
    filled = np.arange(max(int(counts.max(initial=0)), 1)) < counts[:, None]
    vectors = np.zeros((*filled.shape, sets.width), np.float32)
    positions = begins[:, None] + np.arange(filled.shape[1])
    vectors[filled] = sets.vectors[sets.rows[positions[filled]]]
    return vectors, filled


# The product side of the model: the modalities of a product are joined and brought into the common space.

_SCORING = 64
"""Width of the layer that scores attributes."""


@dataclass(frozen=True)
class ProductSpec:
    """The shape of a `ProductTower`."""

    widths: Mapping[Part, int]  # modality to the width of its vectors, in the order in which they are joined
    head: HeadSpec  # over the joined vectors; its `inputs` are the sum of the widths
    attributes: Literal["mean", "attention"] = "mean"  # as in `ProductSide`
    scaling: Literal["unit", "none"] = "unit"  # as in `ProductSide`
    absent: Literal["zero", "learnt"] = "zero"  # as in `ProductSide`

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ProductSpec:
        """From what `to_dict` gave, read back from JSON."""
        return cls(**{**values, "head": HeadSpec.from_dict(values["head"])})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class ProductTower(Tower):
    """p = g_p(concat(h_i, h_t, h_a)) (eq. 7.6), for any of the three."""

    # Takes a batch as `ProductSource` gives it: "image" and "title" (n, d), "attributes" (n, d) means or (n, L, d) with
    # "filled" (n, L) booleans, and "present" (n, modalities) booleans.
    # A modality that a product lacks is a zero vector after the scaling: it has no direction, and every other vector
    # has one. "learnt" puts a trained vector there, which begins as zero. The other common way, leaving such products
    # out of training, makes a model that has never seen the products that it will be tested on.

    def __init__(self, spec: ProductSpec) -> None:
        super().__init__(None, Head(spec.head))
        self.shape = spec
        learnt = spec.widths if spec.absent == "learnt" else {}
        self.absent = nn.ParameterDict({name: nn.Parameter(torch.zeros(width)) for name, width in learnt.items()})
        attends = spec.attributes == "attention" and "attributes" in spec.widths
        self.attention = Attention(spec.widths["attributes"]) if attends else None

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, dimension) vectors of a batch; not normalised."""
        assert not isinstance(inputs, Tensor), "products come by modality"
        parts = []
        for number, name in enumerate(self.shape.widths):
            part, present = inputs[name], inputs["present"][:, number, None]
            if name == "attributes" and self.attention is not None:
                part = self.attention(part, inputs["filled"])
            if self.shape.scaling == "unit":
                part = functional.normalize(part, dim=-1)
            absent = self.absent[name] if name in self.absent else torch.zeros_like(part[:1])
            parts.append(torch.where(present, part, absent))
        vectors: Tensor = self.head(torch.cat(parts, dim=1))
        return vectors


class Attention(nn.Module):
    """h_a = Σ_k α_k a_k with α the softmax of w · tanh(V a_k + b) over a product's own attributes."""

    # As in Bahdanau et al. 2015, but without a query: the product must have one vector for all categories. w begins as
    # zero, so training begins from the mean of eq. 7.5 and leaves it where that helps.

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, _SCORING)
        self.score = nn.Linear(_SCORING, 1, bias=False)
        nn.init.zeros_(self.score.weight)

    def forward(self, attributes: Tensor, filled: Tensor) -> Tensor:
        """(n, d) from (n, L, d) attributes, of which those count that are `filled` (n, L); zero where none is."""
        scores = self.score(torch.tanh(self.hidden(attributes)))[..., 0].masked_fill(~filled, -torch.inf)
        none = ~filled.any(dim=1, keepdim=True)
        shares = scores.masked_fill(none, 0.0).softmax(dim=1) * filled
        return torch.einsum("nl,nld->nd", shares.to(attributes.dtype), attributes)


KIND = "categories"
WEIGHTS_FILE = "heads.safetensors"
_AGAIN = "copy the whole folder again"


@dataclass(frozen=True, eq=False)
class CategoriesModel:
    """Two heads over frozen encoders; on the CPU, in evaluation mode."""

    category: Tower  # over vectors of names (eq. 7.2).
    product: ProductTower  # over the modalities of a product (eq. 7.6).
    # "categories", "images", … to the card of the encoder whose vectors it was trained over; empty for vectors without
    # a card.
    cards: Mapping[str, EncoderCard]
    name: str = "category model"  # the folder
    weights: str | None = None  # a hash over the weights
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was trained

    @property
    def modalities(self) -> tuple[str, ...]:
        """What it reads of a product: "image", "title", "attributes"."""
        return tuple(self.product.shape.widths)

    @property
    def product_modality(self) -> Modality:
        """What the vectors of products are made of: "image", "text" (titles, attributes), or both."""
        if "image" not in self.modalities:
            return "text"
        return "image" if len(self.modalities) == 1 else "text+image"

    @property
    def card(self) -> EncoderCard:
        """The card of the vectors that `embed` makes."""
        encoders = {name: card.to_dict() for name, card in self.cards.items()}
        return EncoderCard(self.name, "categories", weights=self.weights, text_preprocessing={"encoders": encoders})

    def embed(self, vectors: CatalogueVectors) -> tuple[Embeddings, Embeddings]:
        """All categories and all products of a catalogue in the common space."""
        self._refuse_others(vectors)
        source = ProductSource(vectors, tuple(self.product.shape.widths), mean=self.product.attention is None)
        catalogue, card = vectors.catalogue, self.card
        categories = self._encode(self.category, VectorSource([vectors.categories]))
        products = self._encode(self.product, source)
        return (
            Embeddings("text", catalogue.categories["id"], categories, card, normalised=True),
            Embeddings(self.product_modality, catalogue.products["id"], products, card, normalised=True),
        )

    def embed_texts(self, texts: Sequence[str], encoder: Encoder | None = None) -> Floats:
        """(n, d) unit vectors of free queries: names of categories that need not be in any tree."""
        if encoder is None:
            if "categories" not in self.cards:
                raise EncoderError(f"{self.name} does not know its text encoder.", hint="give it: encoder=…")
            encoder = load_recorded(self.cards["categories"].name, self.name)
        raise_faults(
            EncoderError,
            f"{self.name}: another text encoder",
            self._differing("categories", encoder.card),
            code="another-text-encoder",
        )
        vectors = one_each(encoder.encode_texts(list(texts), "query"), encoder.label)
        return self._encode(self.category, VectorSource([vectors]))

    def _encode(self, tower: Tower, source: VectorSource | ProductSource) -> Floats:
        if not len(source):
            return np.zeros((0, self.product.shape.head.outputs), np.float32)

        def vectors_of(inputs: Inputs) -> torch.Tensor:
            return functional.normalize(tower(inputs), dim=-1)

        tower.eval()
        return encode_source(source, vectors_of)

    def _refuse_others(self, vectors: CatalogueVectors) -> None:
        faults = [
            fault for part, card in vectors.cards.items() if part in self.cards
            for fault in self._differing(part, card)
        ]  # fmt: skip
        expected = self.category.head.spec.inputs
        if vectors.categories.shape[1] != expected:
            faults.append(f"categories: {vectors.categories.shape[1]} dimensions, trained with {expected}")
        for name, width in self.product.shape.widths.items():
            part = getattr(vectors, {"image": "images", "title": "titles"}.get(name, name))
            if part is not None and part.width != width:
                faults.append(f"{name}: {part.width} dimensions, trained with {width}")
        raise_faults(
            EmbeddingError, f"{self.name}: vectors of other encoders", faults, hint="encode with those, or train again"
        )

    def _differing(self, part: str, card: EncoderCard) -> list[str]:
        trained = self.cards.get(part)
        if trained is None:
            return []
        before, now = trained.to_dict(), card.to_dict()
        return [
            f"{part}: {field} {now[field]!r}, trained with {before[field]!r}"
            for field in trained.differences(card, "image" if part == "images" else "text")
        ]


LAYOUT = Layout.of(KIND, (WEIGHTS_FILE,))


def write_files(folder: Path, model: CategoriesModel, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write the files that `load_categories_model` reads into a folder, and return the contents of `visir.json`."""
    save_modules({"category": model.category, "product": model.product}, folder / WEIGHTS_FILE)
    return {
        "category": model.category.head.spec.to_dict(),
        "product": model.product.shape.to_dict(),
        "cards": {name: card.to_dict() for name, card in model.cards.items()},
        "facts": dict(facts),
    }


def load_categories_model(path: str | Path) -> CategoriesModel:
    """Read the folder that `visir products train` wrote.

    Raises:
        EncoderError: A file is missing or damaged, or the folder holds another kind of model.
    """
    folder = Path(path)
    description = read_description(folder)
    if description["kind"] != KIND:
        raise EncoderError(
            f"{folder} holds a checkpoint of kind {description['kind']!r}, not a category model.",
            hint="visir products train makes one",
        )
    check_files(folder)
    try:
        category = Tower(None, Head(HeadSpec.from_dict(description["category"])))
        product = ProductTower(ProductSpec.from_dict(description["product"]))
        facts = description["facts"]
        cards = {name: EncoderCard.from_dict(card) for name, card in description["cards"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise EncoderError(f"{folder}: its description is not one of a category model: {fault}", hint=_AGAIN) from fault
    load_modules(folder / WEIGHTS_FILE, {"category": category, "product": product})
    return CategoriesModel(
        category.eval(),
        product.eval(),
        cards,
        name=str(path),
        weights=hash_file(folder / WEIGHTS_FILE),
        facts=facts,
    )
