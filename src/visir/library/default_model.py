"""The model of a library whose maker names none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
    from visir.library.models import NO_MODEL
    from visir.library.source import absolute
    from visir.library.sources import is_table_of_products

    if is_table_of_products(absolute(source, [str(place) for place in images], split)[0]):
        return DefaultModel(NO_MODEL, "products are searched by words; a model adds search by meaning and by pictures")
    name = "openai/clip-vit-base-patch32"
    if _is_cached(name):
        return DefaultModel(name, "the recommended model; it is on this machine")
    if _hub_answers():
        return DefaultModel(name, "the recommended model; it is loaded from the hub once (600 MB)")
    here = _on_this_machine()
    if here:
        return DefaultModel(here[0], "it is on this machine and takes words; the hub cannot be reached")
    return DefaultModel(
        "pixels",
        "this library will not take words, because the hub cannot be reached and no model of pictures and texts is on "
        f"this machine ({_cache()}). What takes words without it: colours (names of colours, to try things out), the "
        "folder of a model that you copied here, or trained (visir train scenes-heads --out heads). Later: "
        "visir library update LIBRARY --model MODEL",
    )


def _on_this_machine() -> list[str]:
    """Well-known models of pictures and texts whose weights lie in the local cache of the hub."""
    from visir.encoders.known_models import models, recommended

    listed = [recommended(), *models(takes=("image", "text"), form="dense")]
    return list(dict.fromkeys(model.name for model in listed if model.here and model.installed and model.megabytes))


def _cache() -> str:
    """Where the hub's models are looked for."""
    try:
        from huggingface_hub.constants import HF_HUB_CACHE
    except ImportError:
        return "huggingface_hub is not installed"
    return str(HF_HUB_CACHE)


def _is_cached(name: str) -> bool:
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return False
    return isinstance(try_to_load_from_cache(name, "config.json"), str)


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
