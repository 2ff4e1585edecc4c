"""`visir evaluate`: search the tasks of a source with a system, measure it, and say under which protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from visir.cli import output
from visir.cli.options import DATA, MODEL, PROTOCOL, argument, command_line, complete_model, option
from visir.cli.verbs import Call, calls, examples, reports
from visir.errors import ConfigurationError

if TYPE_CHECKING:
    from visir.evaluation.results import Evaluation


SECOND = "Second stage"
_BLIND = "blind"
"""The folder of the blind baseline inside that of the result."""


@calls(
    "visir.evaluation.evaluate:evaluate",
    tasks=option(to="task"),
    vectors=option("--embeddings", "-e", to="embeddings", kind=list[str], metavar="FILE"),
    judgements=option(kind=list[str]),
    ties=option(panel=PROTOCOL),
    similarity=option(panel=PROTOCOL),
    folds=option(min=1),
    depth=option(panel=PROTOCOL),
    measures=option(to="measure"),
    estimator=option(metavar="MODEL", panel=PROTOCOL),
    rerank=option(metavar="MODEL", panel=SECOND),
    k_test=option(metavar="N", panel=SECOND),
    tail=option(panel=SECOND),
    fusion=option("--rerank-score", panel=SECOND),
    leave="source system qrels conditions",
    also="batch_size",
)
@examples(
    "visir evaluate scenes:200 runs/first",
    "visir evaluate dataset_coco.json --images val2014/ --split test --model openai/clip-vit-base-patch32",
    "visir evaluate captions.csv --embeddings npz:vectors.npz --out results/mine",
    "visir evaluate qrels.trec run.trec",
)
@reports
def evaluate(
    collection: str,
    call: Call,
    system: Annotated[str | None, argument("[SYSTEM]")] = None,
    model: str | None = None,
    run: Annotated[list[str] | None, option(metavar="FILE")] = None,
    blind: Annotated[str | None, option(metavar="NAME")] = None,
    by: list[str] | None = None,
    out: Path | None = None,
    replace: bool = False,
) -> None:
    """Measure a model, vectors or runs on a collection.

    Measure a system on the tasks of a source under a declared protocol.

    A collection of images and captions has two tasks, text-to-image (t2i) and image-to-text (i2t).

    Prints the table and the protocol card. With --out it writes result.json, per-query Parquet files, the runs, and a
    report in one HTML file.

    Args:
        collection: A collection or a task: a file or folder in any known format, FORMAT:PATH, scenes:2000; a file of
            judgements, for a run; or a log of the brittleness paper.
        system: What is measured: a model (as --model), or the file of a run (as --run).
        task: A task: t2i, i2t, … Repeatable. Default: all.
        recall: What R@k and rsum mean: hit (default), recall (default of judgements alone), capped_recall.
        folds: How many folds: 5 gives COCO's 5-fold 1k.
        embeddings: Vectors made elsewhere: npz:FILE, npy:FOLDER, parquet:FILE; of a task also query=…, document=….
        run: A run made elsewhere: FILE in TREC, Parquet or JSON; t2i=FILE where its queries do not tell the task.
            Repeatable.
        blind: A language model that chooses without looking, beside the system in choice tasks: a collection of
            captions to learn from, or gpt2.
        by: A label of the queries: a table for each of its values, such as category or language. Repeatable.
        out: Where to write: a folder for result.json, per-query values, runs and report.
    """
    from visir.evaluation.results import RESULT
    from visir.evaluation.sources import is_alone
    from visir.storage import check_new_folder

    if out is not None:
        check_new_folder(out, RESULT, replace=replace)
    named = [item for item in (system, model, run, call.given["vectors"]) if item]
    if len(named) > 1 or not (named or is_alone(collection, None)):
        raise ConfigurationError(
            "name exactly one system to evaluate.",
            hint=f"visir evaluate {collection} SYSTEM, or --model NAME, --embeddings npz:FILE, or --run FILE",
        )
    evaluated = call(source=collection, system=system or model or run)
    baseline = None
    if blind is not None:
        baseline = call(
            "tasks split relevance depth measures",
            source=evaluated.source,
            system=f"blind:{blind}",
            recall=evaluated.protocol.recall,
            ties=evaluated.protocol.ties,
        )
    _show(evaluated, out, _curve(system or model), by, baseline, named=bool(call.given["measures"]))


def _curve(model: str | None) -> list[dict[str, Any]] | None:
    """How the model was trained, when it is a checkpoint that knows."""
    from visir.storage import read_written_json

    curve = Path(model or "", "curve.json")
    return read_written_json(curve) if model and curve.is_file() else None


def _show(
    evaluation: Evaluation,
    out: Path | None,
    training: list[dict[str, Any]] | None = None,
    by: list[str] | None = None,
    blind: Evaluation | None = None,
    *,
    named: bool = False,
) -> None:
    from visir.evaluation.results import RESULT, write_result
    from visir.records.collection import task_words
    from visir.reports import card_table, evaluation_report, measures_table, result_table
    from visir.reports.by_label import by_label_table, differences_table
    from visir.reports.evaluation import paired_differences
    from visir.reports.tables import headline_table
    from visir.storage import new_folder

    result = evaluation.result
    if out is not None:  # before anything is printed: whoever pipes the table into `head` loses nothing
        with new_folder(out, RESULT, replace=True) as change:
            write_result(change, result, evaluation.runs, evaluation.qrels)
            if blind is not None:
                write_result(change, blind.result, blind.runs, blind.qrels, f"{_BLIND}/")
            beside = {"result.json": "protocol, aggregates, versions, timing"}
            for task in result.tasks:
                beside[f"per_query_{task}.parquet"] = f"every measure of every query, {task_words(task)}"
                beside[f"run_{task}.parquet"] = f"what the search answered, {task_words(task)}"
            beside |= {f"{_BLIND}/result.json": "the same of the blind baseline"} if blind is not None else {}
            report = evaluation_report(evaluation, source=evaluation.source, training=training)
            report.write(change.file("report.html"), command=command_line(), beside=beside)
    measured = [evaluation] if blind is None else [evaluation, blind]
    labelled = [(shown.by(label), paired_differences(shown.result, label)) for label in by or [] for shown in measured]
    more: dict[str, Any] = {}
    for table, _ in labelled:
        more.setdefault("by", {}).setdefault(table.system, {})[table.label] = table.to_arrow().to_pylist()
    if blind is not None:
        more["blind"] = blind.aggregates
    output.answer({**output.plain(result.to_dict()), **more, "out": out and out.absolute()})
    for shown in measured:
        output.table(measures_table(shown.result), latex=False)
        of_paper = result_table if named else headline_table  # a row for each task, a column for each measure
        output.current().shown.append(of_paper(shown.result))
    for table, differences in labelled:
        output.table(by_label_table(table))
        if differences is not None:
            output.table(differences_table(differences))
    output.table(card_table(result.protocol), latex=False)
    if out is not None:
        output.note(f"result: {out / 'result.json'}\nreport: {out / 'report.html'}")


# `visir submit`: answers to a test split whose judgements are not published, as the benchmark takes them.


@calls(
    "visir.evaluation.submit:submit",
    source=argument("BENCHMARK", to="benchmark"),
    leave="system out name replace",
    also="batch_size",
)
@examples(
    "visir submit CIRCO/ --model openai/clip-vit-base-patch32 --compose 'sum(0.5)' --out submission.json",
    "visir submit cirr/ --model runs/combiner --out submission.json",
)
def submit(
    call: Call,
    out: Path,
    model: str | None = None,
    run: Annotated[list[str] | None, option(metavar="TASK=FILE")] = None,
    replace: bool = False,
) -> None:
    """Write the answers that a benchmark's server takes.

    Answer the queries of a split whose judgements the makers of a benchmark keep. Nothing is measured here: the file is
    handed in on their page.

    Args:
        benchmark: The folder of CIRCO or CIRR, or FORMAT:PATH.
        split: The split: test. Its judgements are not published.
        out: Where to write: the file; CIRR's two files end in -recall and -recall_subset.
        run: A run made elsewhere: it2i=FILE. Repeatable.
    """
    if (model is None) == (not run):
        raise ConfigurationError("name a model or runs.", hint="--model NAME, or --run it2i=FILE")
    submission = call(system=model or run, out=out, replace=replace)
    for note in submission.notes:
        output.line(note)
    output.facts(files=[str(file.absolute()) for file in submission.files], where=submission.where)
    for file in submission.files:
        output.line(f"written: {file}")
    output.line(f"hand in: {submission.where}")


# `visir profile`: what a model can do, on one page.


@calls(
    "visir.studies.profile.profile:profile",
    model=argument("MODEL", about=MODEL, autocompletion=complete_model),
    data=option("--data", kind=list[str], metavar="SOURCE", panel=DATA),
    reference=option(metavar="MODEL", default="colours"),
    tasks=option("--tasks", metavar="NAMES"),
    scenes=option(min=0, default=200, panel=DATA),
    at_hand=option("--at-hand/--no-at-hand", panel=DATA),
    blind=option(metavar="NAME", panel=DATA),
    also="batch_size workers",
)
@examples(
    "visir profile openai/clip-vit-base-patch32 --out clip.html",
    "visir profile runs/mine --data photos.csv --reference openai/clip-vit-base-patch32",
    "visir profile pixels --tasks classification,robustness",
)
@reports
def profile(call: Call, out: Path | None = None, replace: bool = False) -> None:
    """Say what a model can do.

    Measure every task that data is at hand for: generated scenes (no download), data sets under VISIR_DATA, and your
    own. One row for each task, by strength, with chance and a reference model beside it; --out writes one page.

    Strength is where a score stands between chance (0) and perfect (100 %). What the model cannot take is listed with
    the reason. Stopped, the same command goes on: vectors are kept.

    Args:
        data: A collection, a task, or a folder with a folder for each class: your own data. Repeatable.
        tasks: Some tasks only: an ability (retrieval, composition, language, classification, robustness), a source
            (scenes), scenes/typos; by commas, repeatable. Default: all.
        out: Where to write: a page, FILE.html.
    """
    from visir.reports.page import check_page
    from visir.reports.profile import profile_report

    if out is not None:
        check_page(out, "a profile is one page", ".htm", replace=replace)
    result = call()
    output.finish(profile_report(result), result.to_dict(), page=out, replace=replace)
