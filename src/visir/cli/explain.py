"""`visir explain`: under which protocol was a published number computed?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.completion import complete_published
from visir.cli.options import (
    DeviceOption,
    ExamplesOption,
    ImagesOption,
    ModelOption,
    OptionalModelOption,
    PublishedCollectionOption,
    PublishedSystemOption,
    SplitOption,
    out_option,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visir.evaluation.explaining import Explanation, Material
    from visir.evaluation.published import Published, PublishedRow
    from visir.records import Collection, Protocol, Vectors
    from visir.sparse.top_terms import TopTerms


@examples(
    "visir explain results/clip --published brittleness-table-2 --as CLIP",
    "visir explain results/clip --published paper.json --data flickr8k/ --model openai/clip-vit-base-patch32",
    "visir explain results/clip --published paper.json --direction t2i",
)
def explain(
    result: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT_OR_RUN",
            help="A folder that visir evaluate --out wrote, or a log of the brittleness paper.",
            show_default=False,
        ),
    ],
    published: Annotated[
        str,
        typer.Option(
            help="Published values: a JSON or TOML file, or the name of a table that comes with visir.",
            autocompletion=complete_published,
            show_default=False,
        ),
    ],
    system: PublishedSystemOption = None,
    row: PublishedCollectionOption = None,
    direction: Annotated[
        str | None, typer.Option(help="t2i or i2t: explain the values of this direction only. Default: both.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="COLLECTION",
            help="A collection: that of the result. With --model, other splits, candidates and similarities are tried.",
        ),
    ] = None,
    model: OptionalModelOption = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPLIT",
            help="A further split whose vectors are computed, or all. Repeatable. Default: val and test, and whatever "
            "a file of vectors holds.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="How many readings are shown.")] = 5,
) -> None:
    """Find the protocol that gives a published number.

    Find the plainest reading of the protocol that gives the published values to all printed digits.

    Readings: split, captions, candidates, folds, similarity, ties, recall, cutoffs, unit, digits and more. What cannot
    be computed is listed with the reason, and what to give.
    """
    from visir.evaluation.explaining import explain as explain_run
    from visir.evaluation.published import load

    table = load(published)
    material, name, source = _material(result, data, model, also)
    explanation = explain_run(
        material,
        table,
        direction=direction,
        system=system or (name if len(table.systems) > 1 else None),
        collection=row or (source if len(table.collections) > 1 else None),
    )
    output.answer(
        {
            "sentence": explanation.sentence,
            "verdict": explanation.verdict,
            "accidents": explanation.accidents,
            "remarks": explanation.remarks,
            "ranks": explanation.scored,
            "readings": [
                {
                    "reading": str(fit.reading),
                    "fits": fit.fits,
                    "distance": fit.distance,
                    "reproduced": fit.reproduced,
                    "values": fit.values,
                    "same": [str(item) for item in fit.same],
                }
                for fit in explanation.fits[:limit]
            ],
            "not_computable": dict(explanation.not_computable),
        }
    )
    _show_explanation(explanation, limit, table.decimals)


def _show_explanation(explanation: Explanation, limit: int, decimals: int) -> None:
    """Readings are numbered and listed below the values: their words would not fit beside them."""
    from rich import box
    from rich.table import Table

    from visir.evaluation.published.judge import decimals_of

    console = output.console_of_verb()
    fits = explanation.fits[:limit]
    values = Table(box=box.SIMPLE_HEAD)
    values.add_column("", no_wrap=True)
    for heading in ("published", *(f"[{number}]" for number in range(1, len(fits) + 1))):
        values.add_column(heading.replace("[", "\\["), justify="right", no_wrap=True)
    names = {(value.task, value.label): value.published for fit in fits for value in fit.values}
    for (task, label), published in names.items():
        printed = decimals_of(label, decimals)
        cells = [f"{task} {label}", f"{published:.{printed}f}"]
        for fit in fits:
            ours = [value for value in fit.values if (value.task, value.label) == (task, label)]
            digits = f"{ours[0].ours:.{printed}f}" if ours else "–"
            cells.append(f"[bold]{digits}[/bold]" if ours and ours[0].digits != "off" else digits)
        values.add_row(*cells)
    console.print(values)
    console.print(f"Ranks: {explanation.scored}", markup=False, soft_wrap=True)
    console.print("Bold: to the printed digits. Readings, those that fit first (mean relative difference):")
    for number, fit in enumerate(fits, 1):
        exact = f"{fit.reproduced} of {len(fit.values)} to the printed digits"
        console.print(f"[{number}] {fit.reading}: {fit.distance:.2%}, {exact}", markup=False, soft_wrap=True)
        if fit.same:
            same = " / ".join(map(str, fit.same))
            console.print(f"    the same numbers come from: {same}", style="dim", markup=False, soft_wrap=True)
    if len(explanation.fits) > limit:
        console.print(f"{len(explanation.fits) - limit} further readings are not shown (--limit)", style="dim")
    console.print("Not computable from what is at hand:", style="dim")
    by_reason: dict[str, list[str]] = {}
    for reading, reason in explanation.not_computable:
        by_reason.setdefault(reason, []).append(reading)
    for reason, readings in by_reason.items():
        console.print(f"- {'; '.join(readings)}: {reason}", style="dim", soft_wrap=True, markup=False)
    for sentence in (explanation.sentence, *explanation.remarks):
        console.print(f"\n→ {sentence}", style="bold", markup=False, soft_wrap=True)


def show_doubts(table: Published, row: PublishedRow, values: Sequence[tuple[str, str]]) -> None:
    """Which of these (task, label) are doubtful in print, and why: once for each reason."""

    doubts = {label: table.doubt(row, *label) for label in values}
    for reason in dict.fromkeys(filter(None, doubts.values())):
        about = ", ".join(" ".join(name) for name, doubt in doubts.items() if doubt == reason)
        output.console_of_verb().print(
            f"doubtful in print, {about}: {reason}", style="dim", markup=False, soft_wrap=True
        )


def _material(
    path: Path, collection: str | None, model: str | None, also: list[str] | None
) -> tuple[Material, str, str]:
    """What readings are computed from, and the names of system and collection."""
    from visir.errors import ConfigurationError
    from visir.evaluation.brittleness_runs import evaluate_log, is_log, read
    from visir.evaluation.explaining import Material
    from visir.evaluation.results import load_evaluation

    evaluation = evaluate_log(read(path)) if is_log(path) else load_evaluation(path)
    result = evaluation.result
    if (collection is None) != (model is None):
        raise ConfigurationError("to search anew, both are needed.", hint="--data COLLECTION --model MODEL")
    if also and collection is None:
        raise ConfigurationError(
            "--also names splits whose vectors are computed.", hint="--data COLLECTION --model MODEL --also train"
        )
    if collection is None or model is None:
        return Material.of(evaluation), result.system, result.protocol.collection
    if result.protocol.rerank:
        raise ConfigurationError(
            f"{path} is re-ranked ({result.protocol.rerank}); a new search would leave the second stage out.",
            hint="explain it without --data and --model",
        )
    from visir.collections import open_collection

    opened = open_collection(collection)
    if opened.fingerprint != result.protocol.collection_fingerprint:
        raise ConfigurationError(
            f"{collection} is not the collection of this result (fingerprint {opened.fingerprint[:12]}, the "
            f"result's {result.protocol.collection_fingerprint[:12]}).",
            hint="name the collection that was evaluated",
        )
    vectors = _vectors(opened, model, result.protocol, also)
    return Material.of(evaluation, vectors, opened), result.system, result.protocol.collection


def _vectors(collection: Collection, model: str, protocol: Protocol, also: list[str] | None) -> tuple[Vectors, Vectors]:
    """The vectors of the splits that are tried: of the whole collection where a file has them already."""
    from visir.encoders import load
    from visir.errors import ConfigurationError, VisirError, nearest
    from visir.evaluation.systems import EncoderSystem

    encoder = load(model)
    system = EncoderSystem(encoder)
    names = [name for name in collection.splits if name]
    unknown = [name for name in also or () if name not in (*names, "all")]
    if unknown:
        raise ConfigurationError(
            f"--also {', '.join(unknown)}: there is no such split.", hint=nearest(unknown[0], (*names, "all"))
        )
    of_all = any("of the collection" in line for line in protocol.galleries.values()) or "all" in (also or ())

    def encoded(part: Collection) -> tuple[Vectors, Vectors]:
        return system.vectors(part.items("image"), "document"), system.vectors(part.items("text"), "query")

    if encoder.card.family == "imported" and not of_all:
        try:
            return encoded(collection)
        except VisirError:  # it holds vectors of some splits only
            return encoded(collection.split(protocol.split))
    wanted = [*protocol.split.split("+"), *(also if also is not None else (n for n in names if n in ("val", "test")))]
    if of_all or "all" in wanted:
        return encoded(collection)
    return encoded(collection.split("+".join(dict.fromkeys(wanted))))


# `visir explain-vector`: what a sparse vector of a picture or a text says, in words.

_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@examples(
    "visir explain-vector photo.jpg 'a dog on a beach' --model runs/sparse",
)
def explain_vector(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[IMAGE|TEXT]…", help="Picture files, texts, or ids of the collection.", show_default=False
        ),
    ] = None,
    model: ModelOption = "",
    data: Annotated[
        str | None, typer.Option("--data", metavar="COLLECTION", help="A collection: where ids are looked up.")
    ] = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    count: ExamplesOption = 10,
    terms: Annotated[int, typer.Option("--terms", min=1, help="How many words of each vector.")] = 20,
    out: Annotated[Path | None, out_option("a sheet with the pictures, page.html")] = None,
    device: DeviceOption = None,
) -> None:
    """Print the words that a sparse vector stands for.

    Print the heaviest words of vectors, with their weights; several at once as a sheet of pictures with their
    words.

    A dot marks words that a text has itself. With --data and no inputs, ten of its images with their captions.
    """
    from visir.errors import ConfigurationError, raise_faults, require
    from visir.reports.words import check_suffix, write_word_sheet

    faults = [] if model else ["no checkpoint is named (--model)"]
    if not inputs and data is None:
        faults.append("nothing to explain: name pictures or texts, or a --data COLLECTION")
    hint = 'visir explain-vector photo.jpg "a dog on a beach" --model runs/sparse'
    raise_faults(ConfigurationError, "explain-vector", faults, hint=hint)
    if out is not None:
        check_suffix(out)
    require("torch", "tokenizers", extra="sparse", purpose="sparse vectors")
    from visir.sparse.explaining import sparse_encoder, words
    from visir.sparse.top_terms import top_terms_of_sample

    encoder = sparse_encoder(model, device)
    opened = None
    if data is not None:
        from visir.collections import open_collection

        where = images[0] if images and len(images) == 1 else images
        opened = open_collection(data, images=where, split=split)
    if inputs:
        cards = words(encoder, inputs, terms, source=opened)
    else:
        assert opened is not None
        cards = top_terms_of_sample(encoder, opened, count, terms)
    output.answer([_as_json(card) for card in cards])
    for card in cards:
        _show(card)
    if out is not None:
        title = f"Words of {opened.name}" if opened is not None else "Vectors in words"
        expansion = "captions expanded" if encoder.expanded else "captions not expanded"
        write_word_sheet(out, cards, title=title, subtitle=f"{encoder.card.name} · {expansion} · top {terms}")
        output.line(f"sheet: {out}")


def _as_json(card: TopTerms) -> dict[str, Any]:
    listed = [{"word": term, "weight": weight, "own": term in card.own} for term, weight in card.terms]
    return {"title": card.title, "words": listed, "caption": None if card.caption is None else _as_json(card.caption)}


def _show(card: TopTerms) -> None:
    """A table of words with bars, the heaviest as long as `_BAR`; below a picture its caption's."""
    from rich.markup import escape
    from rich.table import Table

    heading = escape(" ".join(card.title.split()))
    if not card.terms:
        output.console_of_verb().print(f"[bold]{heading}[/bold]\n  no words\n")
    else:
        table = Table(title=heading, title_justify="left", title_style="bold", box=None, show_header=False)
        table.add_column(justify="right", width=2)
        table.add_column(min_width=14)
        table.add_column(justify="right")
        table.add_column()
        for term, weight in card.terms:
            table.add_row(
                "•" if term in card.own else "", escape(term), f"{weight:.2f}", _bar(weight / card.terms[0][1])
            )
        output.console_of_verb().print(table)
    if card.caption is not None:
        _show(card.caption)


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
