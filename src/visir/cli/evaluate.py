"""`visir evaluate`: search the tasks of a source with a system, measure it, and say under which protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from visir.cli import output
from visir.cli.options import DATA, MODEL, PROTOCOL, argument, command_line, complete_model, option, single_or_all
from visir.cli.verbs import Call, calls, examples, reports
from visir.errors import ConfigurationError

if TYPE_CHECKING:
    from visir.evaluation.results import Evaluation
    from visir.records import Collection, Items, Role, Run, Task, TaskFile, TaskSet


# Vectors made elsewhere, named on the command line: one file, or one for each side of a task.


def vectors_of_task(embeddings: list[str], task: Task) -> dict[Role, Any]:
    """The vectors of both sides of a task, from one file, or from "query=FILE" and "document=FILE"."""
    import pyarrow.compute as pc

    from visir.encoders import encode_items, load

    sides: dict[Role, Items] = {"query": task.queries, "document": task.documents}
    files = {role: name.partition("=")[2] for name in embeddings for role in sides if name.startswith(f"{role}=")}
    if len(files) != len(embeddings) and (len(embeddings) > 1 or files):
        raise ConfigurationError(
            f"of {len(embeddings)} files of vectors it is not said which is of the queries and which of the documents.",
            hint="--embeddings query=npz:FILE --embeddings document=npz:FILE",
        )
    if not files and task.queries.modality == task.documents.modality:
        shared_ids = task.queries.ids.filter(pc.is_in(task.queries.ids, task.documents.ids))
        if len(shared_ids):
            raise ConfigurationError(
                f"queries and documents share ids (e.g. {shared_ids[0].as_py()!r}), so one file cannot hold the "
                "vectors of both.",
                hint="--embeddings query=npz:FILE --embeddings document=npz:FILE",
            )
    vectors: dict[Role, Any] = {}
    encoders = {name: load(vector_file(name)) for name in dict.fromkeys(files.values() or embeddings)}
    for role, items in sides.items():
        encoder = encoders[files.get(role, next(iter(encoders)))]
        if items.modality not in encoder.modalities and not set(items.kinds) <= encoder.modalities:
            raise ConfigurationError(f"there are no vectors of the {items.title}.", hint=f"name one: {role}=npz:FILE")
        vectors[role] = encode_items(encoder, items, role)
    return vectors


def vector_file(name: str) -> str:
    """The name of the file as `load` takes it: "npz:FILE"."""
    return name if ":" in name else f"{Path(name).suffix[1:] or 'npy'}:{name}"


SECOND = "Second stage"
_BLIND = "blind"
"""The folder of the blind baseline inside that of the result."""


@calls(
    "visir.evaluation.evaluate:evaluate",
    tasks=option(to="task"),
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
    leave="source system images vectors qrels conditions device dtype",
    also="batch_size",
)
@examples(
    "visir evaluate scenes:200 --model runs/first",
    "visir evaluate dataset_coco.json --images val2014/ --split test --model openai/clip-vit-base-patch32",
    "visir evaluate captions.csv --embeddings npz:vectors.npz --out results/mine",
    "visir evaluate qrels.trec --run run.trec",
)
@reports
def evaluate(
    collection: str,
    call: Call,
    model: str | None = None,
    embeddings: Annotated[list[str] | None, option("--embeddings", "-e", metavar="FILE")] = None,
    run: Annotated[list[str] | None, option(metavar="FILE")] = None,
    blind: Annotated[str | None, option(metavar="NAME")] = None,
    by: list[str] | None = None,
    images: list[str] | None = None,
    judgements: list[str] | None = None,
    shortcuts: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
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
    from visir.evaluation.brittleness_runs import evaluate_log, is_log
    from visir.evaluation.brittleness_runs import read as read_log
    from visir.evaluation.results import RESULT
    from visir.storage import check_new_folder

    given = call.given

    if out is not None:
        check_new_folder(out, RESULT, replace=replace)
    if is_log(collection):
        if model or embeddings or run:
            raise ConfigurationError(
                f"{collection} is a run already.", hint="leave out --model, --embeddings and --run"
            )
        evaluated = evaluate_log(read_log(collection), recall=given["recall"] or "hit", ties=given["ties"] or "id")
        _show(evaluated, None, out, by=by)
        return
    if sum(map(bool, (model, embeddings, run))) != 1:
        raise ConfigurationError(
            "name exactly one system to evaluate.", hint="--model NAME, --embeddings npz:FILE, or --run FILE"
        )
    from visir.collections import open_source
    from visir.evaluation.sources import is_judgements
    from visir.records import Collection

    rerank, split, compose = given["rerank"], given["split"], given["compose"]
    if run and is_judgements(collection, beside=_task_and_file(run[0])[1]):
        if len(run) > 1 or judgements:
            raise ConfigurationError(
                f"{collection} are judgements, for one run alone.",
                hint="of several runs: visir compare FIRST SECOND --qrels FILE",
            )
        file = Path(_task_and_file(run[0])[1])
        evaluated = call(
            "tasks split relevance captions recall ties gallery folds similarity compose measures search_device "
            "estimator rerank name",
            source=collection,
            system=file,
            images=images,
        )
        _show(evaluated, None, out, by=by)
        return
    opened = open_source(
        collection, images=single_or_all(images), judgements=judgements, only_split=None if compose else split
    )
    if shortcuts:
        from visir.shortcuts import inject

        if not isinstance(opened, Collection):
            raise ConfigurationError("shortcuts go with images and captions only.", hint="leave --shortcuts out")
        opened = inject(opened, shortcuts)
    if model and model.startswith("blind:"):
        system: Any = model
    else:
        system = _system(model, embeddings, run, opened, split, given["gallery"], given["captions"], device, dtype)
    called = None  # vectors made elsewhere: their file, and who re-ranks what they find
    if embeddings:
        called = Path(embeddings[0].partition("?")[0]).stem + (f" + {rerank}" if rerank else "")
    estimator = given["estimator"]
    evaluated = call(
        source=opened,
        system=system,
        estimator="self" if estimator == "self" else _model(estimator, device, dtype),
        rerank=system if rerank is not None and rerank == model else _cross_encoder(rerank, device, dtype),
        name=given["name"] or called,
        batch_size=given["batch_size"] if model else None,
    )
    baseline = None
    if blind is not None:
        from visir.evaluation.systems.blind import BlindSystem

        baseline = call(
            "tasks split relevance depth measures",
            source=opened,
            system=BlindSystem(blind),
            recall=evaluated.protocol.recall,
            ties=evaluated.protocol.ties,
        )
    _show(evaluated, opened, out, _curve(model), by, baseline)


def _system(
    model: str | None,
    embeddings: list[str] | None,
    runs: list[str] | None,
    source: Collection | TaskFile | TaskSet,
    split: str | None,
    gallery: str,
    captions: str,
    device: str | None,
    dtype: str,
) -> Any:
    from visir.encoders import encode_items, load
    from visir.evaluation.captions import choose
    from visir.records import Collection

    if model:
        return load(model, device=device, dtype=dtype)
    pool = source if gallery == "collection" else source.split(split)
    if not embeddings:
        chosen = choose(pool, captions) if isinstance(pool, Collection) else pool
        return [_run(run, chosen) for run in runs or []]
    if not isinstance(pool, Collection):
        if len(pool.tasks) > 1:
            raise ConfigurationError(
                f"{pool.name}: vectors from files go with one task; there are {', '.join(pool.tasks)}.",
                hint="in Python: visir.evaluate(source, vectors={'image': …, 'text': …})",
            )
        return vectors_of_task(embeddings, pool.task(pool.tasks[0]))
    encoders = [load(vector_file(name)) for name in embeddings]
    return [
        encode_items(encoder, pool.items(side))
        for encoder in encoders
        for side in ("image", "text")
        if side in encoder.modalities
    ]


def _run(name: str, pool: Collection | TaskFile | TaskSet) -> Run:
    """A run from TASK=FILE, or from FILE, whose task is that of its queries; made over the declared gallery."""
    from visir.evaluation.systems.vectors import task_of
    from visir.retrieval.formats import read_run

    task, path = _task_and_file(name)
    if task:
        return read_run(path, task=task, gallery=pool.task(task).gallery)
    run = read_run(path)
    if run.task in pool.tasks:
        return run
    task = task_of(run, {name: pool.task(name) for name in pool.tasks})
    return read_run(path, task=task, gallery=pool.task(task).gallery)


def _task_and_file(name: str) -> tuple[str, str]:
    """The parts of TASK=FILE; "" and the file where no task is named. A path may hold "=" too."""
    task, equals, path = name.partition("=")
    return (task, path) if equals and not Path(name).exists() else ("", name)


def _model(name: str | None, device: str | None, dtype: str) -> Any:
    if name is None:
        return None
    from visir.encoders import load

    return load(name, device=device, dtype=dtype)


def _cross_encoder(name: str | None, device: str | None, dtype: str) -> Any:
    if name is None:
        return None
    from visir.encoders import load_cross_encoder

    return load_cross_encoder(name, device=device, dtype=dtype)


def _curve(model: str | None) -> list[dict[str, Any]] | None:
    """How the model was trained, when it is a checkpoint that knows."""
    from visir.storage import read_written_json

    curve = Path(model or "", "curve.json")
    return read_written_json(curve) if model and curve.is_file() else None


def _show(
    evaluation: Evaluation,
    source: Collection | TaskFile | TaskSet | None,
    out: Path | None,
    training: list[dict[str, Any]] | None = None,
    by: list[str] | None = None,
    blind: Evaluation | None = None,
) -> None:
    from visir.evaluation.results import RESULT, write_result
    from visir.reports import card_table, measures_table, write_report
    from visir.reports.by_label import by_label_table, differences_table
    from visir.reports.evaluation import paired_differences
    from visir.storage import new_folder

    result = evaluation.result
    if out is not None:  # before anything is printed: whoever pipes the table into `head` loses nothing
        with new_folder(out, RESULT, replace=True) as change:
            write_result(change, result, evaluation.runs, evaluation.qrels)
            if blind is not None:
                write_result(change, blind.result, blind.runs, blind.qrels, f"{_BLIND}/")
            write_report(
                change.file("report.html"),
                result,
                runs=evaluation.runs,
                qrels=evaluation.qrels,
                source=source,
                training=training,
                command=command_line(),
                beside={
                    "result.json": "protocol, aggregates, versions, timing",
                    **{f"per_query_{task}.parquet": f"every measure of every query, {task}" for task in result.tasks},
                    **{f"run_{task}.parquet": f"what the search answered, {task}" for task in result.tasks},
                    **({f"{_BLIND}/result.json": "the same of the blind baseline"} if blind is not None else {}),
                },
            )
    labelled = [shown.by(label) for label in by or [] for shown in (evaluation, blind) if shown is not None]
    apart = [
        paired_differences(shown.result, label)
        for label in by or []
        for shown in (evaluation, blind)
        if shown is not None
    ]
    rows: dict[str, Any] = {}
    for table in labelled:
        rows.setdefault(table.system, {})[table.label] = table.to_arrow().to_pylist()
    more: dict[str, Any] = {"by": rows} if rows else {}
    if blind is not None:
        more["blind"] = blind.aggregates
    output.answer({**output.plain(result.to_dict()), **more, "out": out and out.absolute()})
    output.table(measures_table(result))
    if blind is not None:
        output.table(measures_table(blind.result))
    for table, differences in zip(labelled, apart, strict=True):
        output.table(by_label_table(table))
        if differences is not None:
            output.table(differences_table(differences))
    output.table(card_table(result.protocol))
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
    system: Any = model
    if run:
        pairs = [name.partition("=") for name in run]
        if not all(equals for _, equals, _ in pairs):
            raise ConfigurationError("of which task is a run?", hint="--run it2i=FILE")
        system = {task: path for task, _, path in pairs}
    submission = call(system=system, out=out, replace=replace)
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
