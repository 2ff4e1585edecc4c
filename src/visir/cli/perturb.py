"""`visir perturb`: write a collection whose captions are broken on purpose."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from visir.cli import output
from visir.cli.options import (
    ImagesOption,
    ListOption,
    ReplaceOption,
    SeedOption,
    SeverityOption,
    SplitOption,
    out_option,
    pictures_option,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from visir.records import Collection


@examples(
    "visir perturb --list",
    "visir perturb scenes:100 nearby_char --out perturbed",
)
def perturb(
    collection: Annotated[
        str | None,
        typer.Argument(
            metavar="COLLECTION",
            help="A file or folder in any known format, FORMAT:PATH, or scenes:2000.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME…",
            help="What to do: nearby_char, nearby_char:azerty, char_swap+synonym_noun (one after the other), 'all'.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, out_option("a folder, with one collection in it for each NAME")] = None,
    severity: SeverityOption = 1,
    seed: SeedOption = 0,
    profile: Annotated[
        Literal["sound", "paper"],
        typer.Option(help="Rules: sound, or paper, which does what the brittleness paper's released code did."),
    ] = "sound",
    split: SplitOption = None,
    images: ImagesOption = None,
    pictures: Annotated[Literal["link", "copy", "none"], pictures_option()] = "link",
    replace: ReplaceOption = False,
    list_: ListOption = False,
) -> None:
    """Write a copy of a collection with changed captions.

    Write COLLECTION with its captions perturbed: typos, synonyms, distractions, word order, paraphrases,
    or another meaning (negation, swapped things and colours).

    Ids, links, splits and judgements stay. A caption that cannot be perturbed is kept as it is and counted; which ones
    changed, and how they read before, is in caption_facts.parquet. `visir perturb --list` says what there is.
    """
    from visir.collections import open_collection, portable
    from visir.errors import ConfigurationError
    from visir.robustness.perturb import perturb as perturb_collection
    from visir.robustness.perturbations import find, names_in

    if list_:
        _list()
        return
    if collection is None or not names:
        raise ConfigurationError(
            "what to perturb, and how?", hint="visir perturb COLLECTION NAME --out FOLDER; names: visir perturb --list"
        )
    chosen = list(dict.fromkeys(chain.from_iterable(names_in(profile) if name == "all" else [name] for name in names)))
    for name in chosen:  # before anything is read
        for step in name.split("+"):
            find(step)
    if out is None:
        raise ConfigurationError("no folder to write to.", hint="--out FOLDER")
    opened = open_collection(collection, images=images, split=split)
    for name in chosen:
        perturbed = perturb_collection(opened, name, severity=severity, seed=seed, profile=profile)
        folder = out / name.replace(":", "-")
        portable.save(perturbed, folder, pictures, replace=replace)
        _print_examples(folder, perturbed)


def _print_examples(folder: Path, perturbed: Collection) -> None:
    """The coverage, and three captions before and after."""
    from visir.robustness.perturb import CHANGED, ORIGINAL

    facts = perturbed.caption_facts
    assert facts is not None, "a perturbed collection keeps its original texts"
    changed = facts[CHANGED].to_numpy(zero_copy_only=False)
    share = f" ({100 * changed.mean():.1f} %)" if len(changed) else ""
    done = output.current().facts.setdefault("collections", [])
    done.append({"folder": folder.absolute(), "changed": int(changed.sum()), "captions": len(changed)})
    output.line(f"{folder}: {changed.sum():,} of {len(changed):,} captions changed{share}")
    for row in changed.nonzero()[0][:3].tolist():
        output.line(f"  - {facts[ORIGINAL][row].as_py()}\n  + {perturbed.captions['text'][row].as_py()}")


def _list() -> None:
    from visir.robustness.perturbations import PERTURBATIONS

    output.answer(
        {
            name: {"family": item.family, "severity": item.severity, "about": item.about, "paper": item.paper_about}
            for name, item in PERTURBATIONS.items()
        }
    )
    for name, perturbation in PERTURBATIONS.items():
        severity = f"; severity: {perturbation.severity}" if perturbation.severity else ""
        output.line(f"{name} ({perturbation.family}{severity})")
        released = "not in the released code" if perturbation.paper is None else perturbation.paper_about or "the same"
        output.line(f"  {perturbation.about}\n  paper: {released}")
