"""`visir library make`: a folder of photos, or a collection, made searchable."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli.options import (
    DeviceOption,
    ImagesOption,
    IndexSetOption,
    KindsOption,
    OptionalModelOption,
    SplitOption,
    name_value_pairs,
    out_option,
)
from visir.cli.verbs import examples
from visir.library.cli.parts import (
    LanguageOption,
    NameOption,
    SettleOption,
    SynonymsOption,
    VerifyOption,
    update_once,
    watch_on,
)


@examples(
    "visir library make ~/Photos --model openai/clip-vit-base-patch32",
    "visir library make ~/Photos --model runs/mine --out photos.visir --watch",
)
def make(
    place: Annotated[
        str,
        typer.Argument(
            metavar="PLACE", help="A folder of photos, or a collection in any known format.", show_default=False
        ),
    ],
    model: OptionalModelOption = None,
    out: Annotated[Path | None, out_option("the library's folder. Default: PLACE's name + .visir, here")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Then go on: update whenever something changes.")] = False,
    sparse: Annotated[
        str | None, typer.Option(help="A sparse head over the model (visir sparsify): search by weighted words too.")
    ] = None,
    kind: KindsOption = None,
    setting: IndexSetOption = None,
    name: NameOption = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    verify: VerifyOption = False,
    language: LanguageOption = None,
    synonyms: SynonymsOption = None,
    settle: SettleOption = 2.0,
    device: DeviceOption = None,
) -> None:
    """Make a folder of photos searchable.

    Killed at any moment, the same command goes on. Run again, it brings the library up to date: only what is new is
    encoded, moved files cost nothing. Broken photos are listed, and tried again when they change.
    """
    from visir.errors import ConfigurationError
    from visir.library.default_model import default_model
    from visir.library.layout import default_folder, is_library
    from visir.library.watch import require_watching

    if watch:
        require_watching()
    if is_library(place) and out is None:
        raise ConfigurationError(
            f"{place} is a library already.", hint=f"visir library update {shlex.quote(str(place))}"
        )
    folder = out or default_folder(place)
    if model is None and not is_library(folder):
        default = default_model(place, images or (), split)
        model = default.name
        typer.echo(f"model {model}: {default.reason} (--model takes another)", err=True)
    loaded: dict[str, Any] = {}
    update_once(
        folder,
        place,
        model=model,
        head=sparse,
        kind=kind,
        settings=name_value_pairs(setting),
        name=name,
        split=split,
        images=images or (),
        verify=verify,
        language=language,
        synonyms=synonyms,
        device=device,
        loaded=loaded,
    )
    if watch:
        watch_on(folder, settle, device=device, loaded=loaded)
