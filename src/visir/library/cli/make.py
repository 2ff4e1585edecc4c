"""`visir library make`: a folder of photos, or a collection, made searchable."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli import output
from visir.cli.index import place_in_words
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
from visir.cli.verbs import examples, streams
from visir.display import counted
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

# `visir library info`: what a library holds.


@examples(
    "visir library info photos.visir",
)
def info(library: LibraryFolder) -> None:
    """Say what a library holds.

    Say what a library holds: pictures, captions, models, indexes.
    """
    from rich.table import Table

    from visir.library.layout import check_first_update_done
    from visir.library.models import NO_MODEL
    from visir.library.snapshot import LibrarySnapshot

    check_first_update_done(library)
    with LibrarySnapshot.open(library) as opened:
        card = opened.card
        count = opened.database.value
        table = Table("library", opened.name, show_edge=False)
        rows = {
            "source": card.source + (f", split {card.split}" if card.split else ""),
            card.unit: f"{len(opened):,}",
            "files": f"{count('SELECT count(*) FROM files'):,}",
            "captions": f"{count('SELECT count(*) FROM captions'):,}",
            "broken": f"{count('SELECT count(*) FROM broken'):,}",
            "taken out": f"{count('SELECT count(*) FROM removed'):,}",
            "model": opened.model or NO_MODEL,
            "sparse head": opened.head or "none",
            "generation": str(opened.generation),
        }
        captions = {} if opened.captions is None else {"captions": opened.captions}
        for system, index in {**opened.indexes, **captions}.items():
            about = index.info()
            shown = f"{about.kind}, {about.documents:,} × {about.dimension:,}, {place_in_words(about)}"
            rows[f"{opened.label(system)} index"] = shown + (
                "" if about.place else f", {about.details.get('parts', 1)} parts, {about.deleted:,} deleted rows"
            )
        if opened.words is not None:
            words = opened.words.index
            rows["words"] = f"{len(words.terms):,} in {', '.join(words.fields)}; language {words.language.name}"
            rows["synonyms"] = f"{len(card.words.get('synonyms', ())):,} rules"
        elif card.unit == "products":
            rows["words"] = f"none; visir library update {shlex.quote(str(library))} adds them"
        output.answer({"library": opened.name, **rows})
        for title, value in rows.items():
            table.add_row(title, value)
        output.rich_table(table)


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
    from visir.library.layout import default_folder, is_library
    from visir.library.models import default_model
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


# `visir library update` and `watch`: a library follows its photos.


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


# `visir library check`: is every byte as it was written?


@examples(
    "visir library check photos.visir",
)
def check(library: LibraryFolder) -> None:
    """Read every byte of a library, and check it.

    Read every byte of a library and compare it with its checksums.
    """
    from visir.errors import docs_page
    from visir.library.check import check
    from visir.library.layout import LibraryError

    faults = check(library)
    output.answer({"library": library.absolute(), "faults": [str(fault) for fault in faults]})
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise LibraryError(
            f"{library}: {counted(len(faults), 'faults')}:\n{listed}",
            hint=f"{docs_page('background/libraries')} says what to do",
        )
    output.line(f"{library}: everything is as it was written")
