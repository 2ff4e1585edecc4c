"""`visir library update` and `watch`: a library follows its photos."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from visir.cli.options import (
    DeviceOption,
    IndexSetOption,
    KindsOption,
    name_value_pairs,
)
from visir.cli.verbs import examples, streams
from visir.library.cli.parts import (
    LanguageOption,
    LibraryFolder,
    NameOption,
    SettleOption,
    SynonymsOption,
    VerifyOption,
    update_once,
    watch_on,
)


@examples(
    "visir library update photos.visir",
)
def update(
    library: LibraryFolder,
    verify: VerifyOption = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A model: another, or a first one (everything is encoded anew), or the new place of its own.",
        ),
    ] = None,
    sparse: Annotated[
        str | None,
        typer.Option(
            help="A sparse head over the model: another, or a first one, or the new place of the library's own."
        ),
    ] = None,
    kind: KindsOption = None,
    setting: IndexSetOption = None,
    name: NameOption = None,
    language: LanguageOption = None,
    synonyms: SynonymsOption = None,
    device: DeviceOption = None,
) -> None:
    """Bring a library up to date with its photos.

    Bring a library up to date with its photos: new, changed, moved and deleted files.

    Only what is new is encoded, by the library's own model. Another --model encodes everything anew; the library
    answers with the old one until that is done, and what was stopped goes on with any update. With another --kind or
    --set its indexes are made anew from the vectors that they hold.
    """
    from visir.library.layout import check_first_update_done

    check_first_update_done(library)
    settings = name_value_pairs(setting)
    models = {"model": model, "head": sparse}
    update_once(
        library,
        None,
        **models,
        kind=kind,
        settings=settings,
        name=name,
        verify=verify,
        language=language,
        synonyms=synonyms,
        device=device,
        loaded={},
    )


@streams
def watch(library: LibraryFolder, settle: SettleOption = 2.0, device: DeviceOption = None) -> None:
    """Update a library whenever its photos change, until Ctrl-C."""
    from visir.library.watch import require_watching

    require_watching()
    loaded: dict[str, Any] = {}
    update_once(library, None, device=device, loaded=loaded)
    watch_on(library, settle, device=device, loaded=loaded)
