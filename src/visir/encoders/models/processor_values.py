"""The settings of an image processor of `transformers` as plain values, for the card."""

from __future__ import annotations

from typing import Any

_PREFIXES = ("do_", "rescale_", "image_", "crop_", "include_", "patch_", "temporal_", "merge_", "min_", "max_")


def backend_of(processor: Any) -> str:
    """The implementation of an image processor: "pil" or "torchvision"."""
    if hasattr(processor, "backend"):
        return str(processor.backend)
    return "torchvision" if type(processor).__name__.endswith("Fast") else "pil"


def processor_values(processor: Any, backend: str | None = None) -> dict[str, Any]:
    """Every setting of an image processor that changes its pixels, as plain values."""
    from PIL.Image import Resampling

    data = getattr(processor, "data_config", None)  # timm's
    settings = {
        key: _plain(value)
        for key, value in (processor.to_dict() if data is None else data).items()
        if data is not None or key.startswith(_PREFIXES) or key in ("size", "resample")
    }
    settings.pop("image_processor_type", None)
    if isinstance(settings.get("resample"), int):
        settings["resample"] = Resampling(settings["resample"]).name.lower()
    name = type(processor).__name__.removesuffix("Pil").removesuffix("Fast")
    return {"class": name, "backend": backend or backend_of(processor), **settings}


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "items"):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    return str(value)
