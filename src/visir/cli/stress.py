"""`visir stress`: break the queries of a retrieval system on purpose, and say how badly it breaks."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from visir.cli import output
from visir.cli.options import argument, command_line, option, single_or_all
from visir.cli.verbs import Call, calls, examples, reports

if TYPE_CHECKING:
    from visir.evaluation.stress.stress import Stress
    from visir.records import Collection


# `visir perturb`: write a collection whose captions are broken on purpose.


@examples(
    "visir perturb --list",
    "visir perturb scenes:100 nearby_char --out perturbed",
)
def perturb(
    collection: str | None = None,
    names: Annotated[list[str] | None, argument("NAME…")] = None,
    out: Path | None = None,
    severity: int = 1,
    seed: int = 0,
    profile: Literal["sound", "paper"] = "sound",
    split: str | None = None,
    images: list[str] | None = None,
    pictures: Literal["link", "copy", "none"] = "link",
    replace: bool = False,
    list_: Annotated[bool, option("--list")] = False,
) -> None:
    """Write a copy of a collection with changed captions.

    Write COLLECTION with its captions perturbed: typos, synonyms, distractions, word order, paraphrases,
    or another meaning (negation, swapped things and colours).

    Ids, links, splits and judgements stay. A caption that cannot be perturbed is kept as it is and counted; which ones
    changed, and how they read before, is in caption_facts.parquet. `visir perturb --list` says what there is.

    Args:
        collection: A file or folder in any known format, FORMAT:PATH, or scenes:2000.
        names: What to do: nearby_char, nearby_char:azerty, char_swap+synonym_noun (one after the other), 'all'.
        out: Where to write: a folder, with one collection in it for each NAME.
        profile: Rules: sound, or paper, which does what the brittleness paper's released code did.
        list_: List what comes with visir, and stop.
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


# `visir granularity`: how detailed the captions of a collection are.


@calls(
    "visir.evaluation.granularity:granularity",
    source=argument("COLLECTION", to="collection"),
    against=option(metavar="OTHER"),
    profiles=option(to="profile", kind=str, default="both"),
)
@examples(
    "visir granularity captions.csv",
    "visir granularity long.csv --against short.csv --out report",
)
@reports
def granularity(call: Call, out: Path | None = None, replace: bool = False) -> None:
    """Say how detailed captions are.

    Say how detailed captions are: adjectives, determiners, depth of concepts, words and more, with intervals.

    With --against, also which differences from other captions of the same images are more than chance.

    Args:
        collection: A file or folder in any known format, FORMAT:PATH.
        against: Other captions of the same images.
        profile: Rules: paper (nearest to Table 1), strict (what the names say), per-noun; both: the first two.
        out: Where to write: a folder for JSON, CSV, the values of every caption, and a page.
    """
    from visir.errors import ConfigurationError, nearest
    from visir.evaluation.granularity import BOTH
    from visir.reports.granularity import GRANULARITY, granularity_report
    from visir.robustness.granularity import PROFILES

    profile = call.given["profiles"]
    if profile not in (*PROFILES, "both"):
        raise ConfigurationError(
            f"unknown profile {profile!r}", hint=nearest(profile, (*PROFILES, "both")), code="unknown-profile"
        )
    call.study(granularity_report, GRANULARITY, out, replace, profiles=BOTH if profile == "both" else (profile,))


_PAGE, _TABLES = "stress.html", "tables.md"
FAILED = 1
"""The exit status when a perturbation leaves less than `--fail-under`; 2 is for faults that the user can mend."""


@calls(
    "visir.evaluation.stress.stress:stress",
    perturbations=option(kind=str),
    corruptions=option("--corruptions", kind=str),
    picture_severity=option(min=1, max=5),
    leave="source model images ties relevance test name device dtype",
    also="batch_size",
)
@examples(
    "visir stress scenes:100 --model runs/first",
    "visir stress captions.csv --model runs/mine --fail-under 90",
)
@reports
def stress(
    collections: Annotated[list[str], argument("COLLECTION...")],
    call: Call,
    model: list[str] | None = None,
    runs: Path | None = None,
    command: str | None = None,
    images: list[str] | None = None,
    by: list[str] | None = None,
    fail_under: Annotated[float | None, option(metavar="PERCENT")] = None,
    device: str | None = None,
    dtype: str = "float32",
    out: Path | None = None,
    replace: bool = False,
) -> None:
    """Break queries on purpose, and measure what is lost.

    Perturb captions and pictures, search with them, and say how much retrieval is lost.

    Perturbed captions are queries over the plain images, corrupted pictures queries over the plain captions. Each loss
    comes with its interval, significance (Holm's correction over all of them), and how many queries could be changed.

    --fail-under 90 looks at rsum (R@1 + R@5 + R@10 of the perturbed task, all queries): status 1 when after any
    one perturbation less than 90 % of the unperturbed rsum is left.

    Args:
        collections: A file or folder in any known format, FORMAT:PATH, or scenes:2000; several for tables side by side.
        perturbations: Of captions, by commas: nearby_char,synonym_noun; or none. Default: those that damage captions.
        corruptions: Of pictures, by commas: gaussian_blur,jpeg; or all. Default: none.
        model: A model: a hub name, a checkpoint folder, st:…, openclip:…, pixels (visir models). Repeatable.
        runs: Instead of a model: a folder of runs, none.trec and one for each perturbation (visir perturb).
        command: Instead of a model: a command that searches: 'mysearch {queries} {run}'. Needs --out.
        by: A label of the queries: what each perturbation costs for each of its values, such as language. Repeatable.
        fail_under: Exit with status 1 when less than this percentage of rsum is left after any perturbation.
        out: Where to write: a folder for the page, stress.json, stress.csv, per-query values.
    """
    from visir.errors import ConfigurationError, raise_faults

    faults = []
    if sum(map(bool, (model, runs, command))) != 1:
        faults.append("name exactly one kind of system: --model NAME, --runs FOLDER, or --command 'search {queries} …'")
    if command and out is None:
        faults.append("--command keeps queries and runs in --out, which is not named")
    if (runs or command) and len(collections) > 1:
        faults.append("--runs and --command are of one collection")
    if fail_under is not None and not 0 < fail_under <= 100:
        faults.append(f"--fail-under {fail_under:g}: a percentage above 0, up to 100")
    raise_faults(ConfigurationError, "visir stress", faults)
    several = len(collections) * len(model or [""]) > 1
    if out is not None:
        _take(out, replace)
    if several and out is not None and len({_slug(name) for name in model or [""]}) < len(model or [""]):
        raise ConfigurationError("two models have the same name, and so the same folder.", hint="name each once")

    from visir.collections import open_collection
    from visir.encoders import load
    from visir.evaluation.stress.answers import CommandSystem, RunFolder
    from visir.evaluation.stress.stress import with_correction

    given = call.given
    named = {
        "perturbations": _listed(given["perturbations"], None),
        "corruptions": _listed(given["corruptions"], None if runs is not None else []),
        "estimator": given["estimator"] and load(given["estimator"], device=device, dtype=dtype),
        "batch_size": given["batch_size"] if model else None,
    }
    studies: list[Stress] = []
    parts: list[Collection] = []
    where = single_or_all(images)
    every = [open_collection(source, images=where) for source in collections]
    for opened in every:
        _check_labels(opened, by or [])
    for opened in every:
        for name in model or [""]:
            system: Any
            if runs is not None:
                system = RunFolder(runs)
            elif command is not None and out is not None:
                system = CommandSystem(command, out / "command")
            else:
                system = load(name, device=device, dtype=dtype)
            studies.append(call(source=opened, model=system, **named))
            parts.append(opened if given["gallery"] == "collection" else opened.split(given["split"]))
    studies = with_correction(_told_apart(studies))
    _show(studies, parts, out, fail_under, by or [])
    if fail_under is not None:
        failed = [(study, effect) for study in studies for effect in study.under(fail_under)]
        for study, effect in failed:
            output.line(
                f"fails: {effect.outcome.title} leaves {effect.overall.percent_left:.1f} % of the rsum of "
                f"{study.system} on {study.collection}, less than {fail_under:g} %"
            )
        if failed:
            raise typer.Exit(FAILED)
        output.line(f"passes: at least {fail_under:g} % of rsum is left after every perturbation")


def _told_apart(studies: list[Stress]) -> list[Stress]:
    """Collections of one name (a source and its refined captions, perhaps) get a piece of their fingerprint."""
    from dataclasses import replace

    fingerprints: dict[str, set[str]] = {}
    for study in studies:
        fingerprints.setdefault(study.collection, set()).add(study.protocol.collection_fingerprint)
    return [
        replace(study, collection=f"{study.collection} {study.protocol.collection_fingerprint[:6]}")
        if len(fingerprints[study.collection]) > 1
        else study
        for study in studies
    ]


def _listed(text: str | None, otherwise: list[str] | None) -> list[str] | None:
    """Names by commas; "none" is an empty list, "all" all there are (None)."""
    if text is None:
        return otherwise
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else None if names == ["all"] else names


def _slug(name: str) -> str:
    import re

    return re.sub(r"[^\w.-]+", "-", Path(name).name or name).strip("-") or "system"


def _check_labels(collection: Collection, labels: list[str]) -> None:
    """Refuse a label that no query has before anything is searched."""
    from visir.evaluation.by_label import check_label
    from visir.records import caption_labels

    known = caption_labels(collection.captions)
    for label in labels:
        check_label(label, [] if known is None else known.column_names[1:], collection.name)


def _show(
    studies: list[Stress], parts: list[Collection], out: Path | None, fail_under: float | None, by: list[str]
) -> None:
    from visir.reports import Section, StudyReport, to_markdown
    from visir.reports.report import STORED
    from visir.reports.stress import (
        STRESS,
        as_dict,
        beside_one_another,
        effects_table,
        stress_by_label_table,
        whole_report,
    )
    from visir.storage import changing

    labelled = [[study.by(label) for label in by] for study in studies]
    tables = [effects_table(study) for study in studies]
    tables += [stress_by_label_table(shown) for of_study in labelled for shown in of_study]
    tables += beside_one_another(studies)
    pages = []
    if out is not None:
        with changing(out, STRESS, busy=f"{out}: another process is writing there; waiting for it") as change:
            change.keep_only()  # of an earlier study nothing stays beside this one
            change.commit()
            for study, part in zip(studies, parts, strict=True):
                folder = "" if len(studies) == 1 else f"{_slug(study.system)}-{_slug(study.collection)}/"
                report = whole_report(study, part, fail_under=fail_under)
                report.write_files(change, _PAGE, report.files, folder=folder, command=command_line())
                pages.append(out / folder / _PAGE)
            if len(studies) > 1:
                change.write(_TABLES, "\n\n".join(to_markdown(table) for table in tables).encode())
                pages.append(out / _TABLES)
                together = StudyReport("brittleness reports", out.name, [Section("tables", "Side by side", tables)])
                change.write(STORED, together.to_bytes(command_line()))
    rows = [{shown.label: shown.to_arrow().to_pylist() for shown in of_study} for of_study in labelled]
    more: list[dict[str, Any]] = [{"by": of_study} if by else {} for of_study in rows]
    plain = [{**as_dict(study), **added} for study, added in zip(studies, more, strict=True)]
    output.answer({"studies": output.plain(plain), "pages": pages})
    for table in tables:
        output.table(table)
    for page in pages:
        output.note(f"report: {page}")


def _take(out: Path, replace: bool) -> None:
    """Make the folder, or see that it may be written anew."""
    from visir.errors import VisirError
    from visir.reports.stress import STRESS
    from visir.storage import Manifest, is_made_by_visir, put

    if is_made_by_visir(out, "stress") and Manifest.read(out).files and not replace:
        raise VisirError(f"{out} holds a study already.", hint="name a new folder, or replace it with --replace")
    put(out, STRESS, {})
