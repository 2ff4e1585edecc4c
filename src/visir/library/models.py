"""The models of a library, loaded when they are first needed: an update that finds nothing new loads none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.library.layout import SYSTEMS, LibraryCard, LibraryError
from visir.options import split_mark
from visir.records import EncoderCard

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.sparse.encoder import SparseEncoder


# The model of a library whose maker names none.

TEXT_MODELS = "openai/clip-vit-base-patch32, google/siglip2-base-patch16-224"
"""Models from the hub that take texts and pictures: names for messages."""


@dataclass(frozen=True)
class DefaultModel:
    """A model that visir takes where none is named."""

    name: str  # as `visir.load` takes it
    reason: str  # why this one, in a sentence that goes on after its name


def default_model(source: str | Path, images: Sequence[str | Path] = (), split: str | None = None) -> DefaultModel:
    """The model that a new library gets where none is named: one that takes texts and pictures, where one can be
    had."""
    # Without the hub it is a well-known one that is on this machine, or `pixels`, which takes pictures alone: the
    # reason then says how the library comes to take words. Products need none: they are searched by words.
    from visir.library.product_source import is_table_of_products
    from visir.library.source import absolute

    if is_table_of_products(absolute(source, [str(place) for place in images], split)[0]):
        return DefaultModel(NO_MODEL, "products are searched by words; a model adds search by meaning and by pictures")
    name = "openai/clip-vit-base-patch32"
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.constants import HF_HUB_CACHE

        cache, is_cached = str(HF_HUB_CACHE), isinstance(try_to_load_from_cache(name, "config.json"), str)
    except ImportError:
        cache, is_cached = "huggingface_hub is not installed", False
    if is_cached:
        return DefaultModel(name, "the recommended model; it is on this machine")
    if _hub_answers():
        return DefaultModel(name, "the recommended model; it is loaded from the hub once (600 MB)")
    from visir.encoders.families import models, recommended

    known = [recommended(), *models(takes=("image", "text"), form="dense")]
    if here := [model.name for model in known if model.here and model.installed and model.megabytes]:
        return DefaultModel(here[0], "it is on this machine and takes words; the hub cannot be reached")
    return DefaultModel(
        "pixels",
        "this library will not take words, because the hub cannot be reached and no model of pictures and texts is on "
        f"this machine ({cache}). What takes words without it: colours (names of colours, to try things out), the "
        "folder of a model that you copied here, or trained (visir train scenes-heads --out heads). Later: "
        "visir library update LIBRARY --model MODEL",
    )


def _hub_answers(seconds: float = 2.0) -> bool:
    import os
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0"):
        return False
    try:
        with urlopen(Request("https://huggingface.co", method="HEAD"), timeout=seconds):
            return True
    except (URLError, OSError, ValueError):
        return False


NO_MODEL = "none"
"""The name for no model: a library is then searched by words alone."""


class LibraryModels:
    """The dense encoder and the sparse head of a library."""

    def __init__(
        self,
        model: str,
        head: str | None,
        *,
        device: str | None = None,
        cards: Mapping[str, Mapping[str, Any]] | None = None,
        loaded: Mapping[str, Encoder] | None = None,
        folder: Path | None = None,
        keeps_texts: bool = True,
        threads: int = 0,
        once: bool = False,
    ) -> None:
        self.model, self.head, self._keeps_texts, self._threads = model, head, keeps_texts, threads
        self._once = once
        self._device, self._cards = device, cards or {}
        self._loaded = loaded if isinstance(loaded, dict) else dict(loaded or {})
        self._folder = folder

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder called `model`; sparse itself if `model` is a sparse head."""
        return self._load(self.model)

    @cached_property
    def dense(self) -> Encoder | None:
        """The encoder of the dense index, None where the library has only words, weighted or not."""
        if self.head == self.model or not self.model:
            return None
        self._check_same_model("dense", self.encoder)
        return self.encoder

    @cached_property
    def sparse(self) -> SparseEncoder | None:
        """The encoder of the sparse index, None where there is none."""
        if self.head is None:
            return None
        from visir.sparse.encoder import SparseEncoder

        encoder = self.encoder if self.head == self.model else self._load(self.head)
        if not isinstance(encoder, SparseEncoder):
            raise LibraryError(
                f"--sparse {self.head}: a model of dense vectors, not a head that says them in words.",
                hint="train one: visir sparsify",
            )
        self._check_same_model("sparse", encoder)
        return encoder

    @cached_property
    def dense_texts(self) -> Encoder | None:
        """The text tower of the dense encoder, where it is kept (`text_network`): a text then loads no model."""
        from visir.encoders.models.exported import runs_on_processor, text_network

        card = self._cards.get("dense")
        if not self._keeps_texts or not card or not runs_on_processor(self._device):
            return None
        return text_network(EncoderCard(**card), self._threads, once=self._once)

    def keep_texts(self, begins: Callable[[], None] = lambda: None) -> None:
        """Keep the text tower of the dense encoder, where it is loaded, that can be done and was not yet."""
        # begins: Called before work that takes seconds.
        if not self._keeps_texts or not self.model or self.model not in self._loaded or self.dense is None:
            return
        from visir.encoders.models.exported import keep_text_network

        if keep_text_network(self.dense, begins):
            self.__dict__.pop("dense_texts", None)

    @property
    def has_cross_encoder(self) -> bool:
        """Whether the model has a matching head to re-rank with (loads it; one whose text tower is kept has none)."""
        return bool(self.model) and self.dense_texts is None and self.encoder.cross_encoder is not None

    @property
    def takes_texts(self) -> bool:
        """Whether every model takes texts to search with (loads them)."""
        encoders = [encoder for encoder in (self.dense, self.sparse) if encoder is not None]
        return all("text" in encoder.for_role("query").modalities for encoder in encoders)

    def cards_of(self, before: LibraryCard) -> dict[str, Mapping[str, Any]]:
        """The cards of the library's encoders; those that it has already stay, and load no model."""
        cards = dict(before.cards)
        for system in SYSTEMS:
            if system in before.kinds and system not in cards:
                encoder = self.dense if system == "dense" else self.sparse
                cards[system] = {} if encoder is None else encoder.card.to_dict()
        return cards

    def load_as_made(self) -> None:
        """Load those that the library's vectors were made with; one in memory that has the same name and is another is
        forgotten first. Raises `LibraryError` when what lies there is another too."""
        for system, name in (("dense", self.model), ("sparse", self.head)):
            if name and name in self._loaded and self._differing(system, self._loaded[name]):
                del self._loaded[name]
        _ = self.dense, self.sparse

    def _load(self, name: str) -> Encoder:
        from visir.encoders.devices import is_gone
        from visir.encoders.loading import load_recorded

        if name not in self._loaded:
            if is_gone(name):
                raise LibraryError(
                    f"{name}: the model of this library is not there any more.",
                    hint="move it back; or say where it is now: visir library update LIBRARY --model NEW_PLACE",
                    code="model-library-not-more",
                )
            self._loaded[name] = load_recorded(
                name,
                self._folder or "the library",
                allow=f"load it before you open the library: visir.load({name!r})",
                device=self._device,
            )
        if self._threads and (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(self._threads)
        return self._loaded[name]

    def _check_same_model(self, system: str, encoder: Encoder) -> None:
        differing = self._differing(system, encoder)
        if differing:
            raise LibraryError(
                f"{encoder.card.name}: not the model that this library was made with "
                f"(other {' and '.join(differing)}).",
                hint="restore that model; or go over to another: visir library update LIBRARY --model MODEL",
                code="not-model-library-made",
            )

    def _differing(self, system: str, encoder: Encoder) -> list[str]:
        """What of an encoder is other than in the card that the library's vectors were made under."""
        card = self._cards.get(system)
        if card is None:
            return []
        return EncoderCard(**card).differences(encoder.card, "image")


def names_of(model: str | Path, head: str | Path | None) -> tuple[str, str | None]:
    """Model and head as they are loaded from any folder; a head given as the model is both, "none" is no model."""
    # Raises `LibraryError` for a head without a model.
    if str(model) in ("", NO_MODEL):
        if head is not None:
            raise LibraryError(
                f"--sparse {head}: there is no model whose vectors it could say in words.", hint="--model MODEL"
            )
        return "", None
    from visir.encoders.devices import absolute_name
    from visir.encoders.families import CHECKPOINT_FILE

    first, second = absolute_name(str(model)), None if head is None else absolute_name(str(head))
    if second is None:
        path = Path(split_mark(first)[0], CHECKPOINT_FILE)
        if path.is_file():
            from visir.files import read_json

            if read_json(path).get("kind") == "sparse":
                return first, first
    return first, second


def with_moved_models(card: LibraryCard, model: str | None, head: str | None, folder: Path) -> LibraryCard:
    """The card of a library, with other names of models: of the same that lie elsewhere now, or of others."""
    # Which it is shows when they are loaded (`visir.library.model_change.with_models`).
    if model and not card.model:
        return replace(card, model=model, head=head, texts=None)
    if model == "" and card.model:
        raise LibraryError(
            f"{folder}: --model {NO_MODEL}: this library has vectors of {card.model}, which would be lost.",
            hint="leave --model out to update it, name another model, or make another library: --out NEW_FOLDER",
            code="model-none",
        )
    moved_head = model if card.head == card.model else head
    return replace(card, model=model or card.model, head=moved_head or card.head)
