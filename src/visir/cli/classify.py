"""`visir classify`: measure a model as a classifier, or label photos with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import DATA, argument, option
from visir.cli.verbs import Call, calls, examples, group, reports
from visir.display import counted

if TYPE_CHECKING:
    from visir.evaluation.classification.labelling import PictureLabels


_ROWS = 20


@calls(
    "visir.evaluation.classification.classify:classify",
    source=argument("PICTURES"),
    classes=option(metavar="NAMES"),
    templates=option("--template", "-t", kind=list[str]),
    shots=option(kind=str),
    draws=option(min=1),
    methods=option("--method"),
    truth=option(panel=DATA),
    split=option(panel=DATA),
    train=option(panel=DATA),
    also="skip_broken batch_size workers",
)
@examples(
    "visir classify data/ --model openai/clip-vit-base-patch32",
    "visir classify 'torchvision:Food101?root=data' --model openai/clip-vit-base-patch32 --shots 1,2,4,8,16 --out food",
    "visir classify photos/ --classes 'cat,dog,other' --model openai/clip-vit-base-patch32 --out labels.csv",
)
@reports
def classify(call: Call, out: Path | None = None, replace: bool = False) -> None:
    """Classify pictures, and measure how well; or label photos.

    Classify pictures with prompts (zero-shot) and with a few training pictures of each class (--shots). Prints top-1
    and top-5 accuracy and the mean over classes, with intervals and beside chance.

    Photos whose classes are not known are labelled with --classes: the best classes of each, as CSV.

    Args:
        source: A folder with a folder for each class, a table with a column of classes, torchvision:NAME?root=FOLDER,
            IDX files, hf:NAME; or photos to label.
        classes: Class names: 'cat,dog', a file, clip/food101. Default: those of the data.
        templates: 'a photo of a {}.', a file, clip/imagenet. Repeatable. Default: CLIP's for the data set.
        shots: Training pictures of each class: 16; 1,2,4,8,16; all; 0 for none.
        methods: zero-shot, linear-probe, tip-adapter, tip-adapter-f. Repeatable.
        split: The split: test. Default: test, else val, else everything.
        out: Where to write: a folder for the report; for labels a new CSV file.
    """
    from visir.evaluation.classification.labelling import PictureLabels

    _check_out(out, replace)
    result = call()
    if isinstance(result, PictureLabels):
        _show_labels(result, out, replace)
    else:
        from visir.reports.classification import classification_report

        output.finish(classification_report(result), result.to_dict(), out and _report_folder(out))


def _check_out(out: Path | None, replace: bool) -> None:
    """Refuse a place that is taken before anything is encoded."""
    from visir.evaluation.classification.labelling import CLASSIFICATION
    from visir.storage import check_new_file, check_new_folder

    if out is None:
        return
    if out.suffix.lower() == ".csv":
        check_new_file(out, replace=replace)
    check_new_folder(_report_folder(out), CLASSIFICATION, replace=replace)


def _report_folder(out: Path) -> Path:
    """Where the report of a measured classification goes; beside labels.csv it is "labels"."""
    return out.with_suffix("") if out.suffix.lower() == ".csv" else out


def _show_labels(labels: PictureLabels, out: Path | None, replace: bool) -> None:
    from visir.reports.classification import labels_table

    output.answer(labels.to_arrow().to_pylist())
    if out is not None:
        labels.save(out, replace=replace)
    elif not output.wants_json() and not sys.stdout.isatty():
        output.line(labels.to_csv().rstrip("\n"))
        return
    output.table(labels_table(labels, _ROWS))
    if out is not None:
        output.note(f"labels of {counted(len(labels), 'pictures')}: {out}")
    elif len(labels) > _ROWS:
        output.note("--out labels.csv writes them all")


# `visir probe`: which latent facts of generated scenes a model's vectors hold.


@calls(
    "visir.evaluation.probes:probe",
    source=argument("COLLECTION", to="collection"),
    also="batch_size",
)
@examples("visir probe 'scenes:2000?seed=1' --model runs/mine")
@reports
def probe(call: Call, out: Path | None = None, replace: bool = False) -> None:
    """Read facts of generated scenes from a model's vectors.

    Read every latent fact of generated scenes from a model's vectors, with linear probes.

    How well is what all captions tell in the vectors, what one of them tells, and what none tells? Prints accuracies
    beside chance; with --out it writes them as JSON and as a page with plots.

    Args:
        collection: Generated scenes: 'scenes:2000?seed=1', with a seed that no training used.
        out: Where to write: a folder for probes.json and probes.html.
    """
    from visir.reports.probes import PROBES, probe_report

    call.study(probe_report, PROBES, out, replace)


# The verbs of tokens, for every application that has a service: who may do what.

Folder = Annotated[Path, argument("FOLDER", about="The folder of tokens.")]
Name = Annotated[str, option(about="A name: whose token, or what for.")]
Days = Annotated[float | None, option(about="For how many days. Default: for ever.")]


def show(folder: Folder) -> None:
    """Who has a token, for what, and until when."""
    from visir.errors import raise_faults
    from visir.reports.table import Column, Table
    from visir.serving.tokens import SCOPES, Token, TokenError, read_tokens

    def until(token: Token) -> str:
        over = " (over)" if token.expired() else ""
        return "never" if token.expires is None else f"{token.expires.isoformat()}{over}"

    tokens, faults = read_tokens(folder)
    columns = [
        Column("name", of="name"),
        Column("scopes", of=lambda token: ", ".join(scope for scope in SCOPES if scope in token.scopes)),
        Column("made", of=lambda token: token.made.isoformat()),
        Column("expires", of=until),
    ]
    output.table(Table.over(tokens, columns))
    raise_faults(TokenError, str(folder), faults, hint="these admit nobody; revoke them, and make them anew")


def revoke(folder: Folder, name: Name) -> None:
    """Take a token out of the folder; a running service refuses it from the next second on."""
    from visir.serving.tokens import revoke_token

    revoke_token(folder, name)
    output.line(f"{folder}: {name!r} revoked")


def make_token(folder: Path, name: str, scopes: list[str], days: float | None) -> None:
    """Make a token and print it."""
    from visir.serving.tokens import new_token

    token = new_token(folder, name, scopes, days)
    output.answer({"name": name, "token": token})
    output.line(token)
    typer.echo(f"{folder}: {name!r} added; the token is shown this once", err=True)


def token_group(verb: str, who: str, new: Callable[..., None]) -> typer.Typer:
    """The group `token` of an application, whose verb `new` makes tokens for the verb that serves."""
    return group("token", f"Tokens for {verb}: {who}.", {"new": new, "list": show, "revoke": revoke})
