"""`visir probe`: which latent facts of generated scenes a model's vectors hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    BatchSizeOption,
    DeviceOption,
    DtypeOption,
    FoldsOption,
    ModelOption,
    ReplaceOption,
    SeedOption,
    ShortcutsOption,
    SplitOption,
    command_line,
    out_option,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from visir.evaluation.probes import ProbeResult
    from visir.storage import FolderKind

_JSON, _PAGE = "probes.json", "probes.html"


@examples(
    "visir probe 'scenes:2000?seed=1' --model runs/mine",
)
def probe(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help="Generated scenes: 'scenes:2000?seed=1', with a seed that no training used.",
            show_default=False,
        ),
    ],
    model: ModelOption,
    split: SplitOption = None,
    shortcuts: ShortcutsOption = None,
    folds: FoldsOption = 5,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    dtype: DtypeOption = "float32",
    batch_size: BatchSizeOption = None,
    out: Annotated[Path | None, out_option("a folder for probes.json and probes.html")] = None,
    replace: ReplaceOption = False,
) -> None:
    """Read facts of generated scenes from a model's vectors.

    Read every latent fact of generated scenes from a model's vectors, with linear probes.

    How well is what all captions tell in the vectors, what one of them tells, and what none tells? Prints accuracies
    beside chance; with --out it writes them as JSON and as a page with plots.
    """
    from visir.collections import open_collection
    from visir.encoders import encode_dense, load
    from visir.errors import require
    from visir.evaluation.probes import probe_vectors
    from visir.storage import check_new_folder

    if out is not None:
        check_new_folder(out, _kind(), replace=replace)
    require("sklearn", extra="shortcuts", purpose="visir probe")  # before an hour of encoding, not after
    opened = open_collection(collection)
    if shortcuts:
        from visir.shortcuts import inject

        opened = inject(opened, shortcuts)
    opened = opened.split(split)
    encoder = load(model, device=device, dtype=dtype)
    images, texts = (encode_dense(encoder, opened, side, batch_size=batch_size) for side in ("image", "text"))
    _show(probe_vectors(opened, images, texts, folds=folds, seed=seed), out)


def _kind() -> FolderKind:
    from visir.storage import FolderKind

    return FolderKind("probes", "a probe report")


def _show(result: ProbeResult, out: Path | None) -> None:
    from visir.reports.probes import facts_table, roles_table, write_probe_report
    from visir.storage import new_folder

    if out is not None:
        with new_folder(out, _kind(), replace=True) as change:
            change.write_json(_JSON, result.to_dict())
            beside = {_JSON: "every number of this page"}
            write_probe_report(change.file(_PAGE), result, command=command_line(), beside=beside)
    output.answer(result.to_dict())
    output.table(facts_table(result))
    output.table(roles_table(result))
    if out is not None:
        output.note(f"report: {out / _PAGE}")
