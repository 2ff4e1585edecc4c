"""`visir sessions train`: a purchase model, saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    FoldsOption,
    JobsOption,
    MemoryOption,
    NewFolder,
    ReplaceOption,
    SeedOption,
    ThreadsOption,
    out_option,
)
from visir.cli.verbs import examples
from visir.sessions.cli.serve import (
    CountedPages,
    DwellTimes,
    MappingOption,
    MinPages,
    PresetOption,
    Seed,
    SettingFrom,
    SettingsOption,
)

if TYPE_CHECKING:
    from visir.sessions import LogCounts, LogMapping


# `visir sessions predict`: the prediction study of thesis section 6.5.


def predict(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A folder of sessions.", show_default=False)],
    out: Annotated[Path, out_option("the study's folder; an interrupted study goes on in it", show_default=False)],
    settings: SettingsOption = None,
    anonymous: Annotated[int | None, typer.Option(min=1, help="So many anonymous sessions. The thesis: 22982.")] = None,
    identified: Annotated[
        int | None, typer.Option(min=1, help="So many identified sessions. The thesis: 6319.")
    ] = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option("--classifier", help="A classifier: rf, lr, knn, svm, mlp, gbdt. Repeatable. Default: all."),
    ] = None,
    folds: FoldsOption = 10,
    schemes: Annotated[
        list[str] | None, typer.Option("--folds-by", help="grouped, temporal, ungrouped (repeatable). Default: all.")
    ] = None,
    min_pages: MinPages = 12,
    counted_pages: CountedPages = "before order",
    setting_from: SettingFrom = "start",
    dwell_times: DwellTimes = "left pages",
    seed: Seed = 0,
    jobs: JobsOption = None,
) -> None:
    """Compare models and feature sets at every step of a session; then look at it: visir sessions report."""
    from visir.sessions.examples import SETTINGS
    from visir.sessions.prediction.models import MODELS, SCHEMES
    from visir.sessions.prediction.purchase_model import PurchaseUse
    from visir.sessions.prediction.study import predict as run
    from visir.sessions.reports.intent import f1_table

    chosen = settings or SETTINGS
    sizes = {"anonymous": anonymous, "identified": identified}
    summary = run(
        sessions,
        out,
        settings=chosen,  # type: ignore[arg-type]  # checked by `Sample`
        n={setting: size for setting, size in sizes.items() if size is not None},  # type: ignore[misc]
        models=classifier or MODELS,
        folds=folds,
        schemes=schemes or SCHEMES,  # type: ignore[arg-type]  # checked by `StudyPlan`
        min_pages=min_pages,
        counted_pages=counted_pages,  # type: ignore[arg-type]  # checked by `Sample`
        setting_from=setting_from,  # type: ignore[arg-type]  # likewise
        dwell_times=dwell_times,  # type: ignore[arg-type]  # likewise
        seed=seed,
        jobs=jobs,
    )
    output.answer(summary.to_json())
    for setting in chosen:
        output.table(f1_table(summary, setting))
    output.line(PurchaseUse.of(summary.card["purchases"]).sentence)
    output.line(f"{out}: study.json, cells ({summary.seconds:,.0f} s of processor time)")
    output.note(f"look at it: visir sessions report {out} --out {out}.html")


THESIS = "Protocol of the thesis"


def _of_thesis(name: str, about: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, help=about, rich_help_panel=THESIS, show_default=False)
    return option


@examples(
    "visir sessions train sessions --out buyers",
    "visir sessions train sessions --out buyers --test-from 2025-03-04",
)
def train(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A folder of sessions.", show_default=False)],
    out: Annotated[Path, out_option("the folder of the model", show_default=False)],
    classifier: Annotated[
        str | None,
        typer.Option(
            "--classifier",
            help="A classifier: blend (default), lr, gbdt, gru; of the thesis: rf, lr, knn, svm, mlp, gbdt.",
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", help="live: all sessions at every step. thesis: long sessions, as the study.")
    ] = "live",
    test_from: Annotated[
        str | None,
        typer.Option("--test-from", metavar="DATE", help="Test on sessions from this date or time on (ISO 8601)."),
    ] = None,
    test_share: Annotated[
        float | None, typer.Option("--test-share", help="Test on this share of sessions, the latest. Default: 0.3.")
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="After the test, train again on all sessions.")] = False,
    even_if_worse: Annotated[
        bool, typer.Option("--even-if-worse", help="Save a model too that loses to the base rate or to a plain LR.")
    ] = False,
    n: Annotated[
        int | None, typer.Option("--n", min=1, metavar="N", help="At most so many sessions. Default: all.")
    ] = None,
    settings: SettingsOption = None,
    min_pages: Annotated[int | None, _of_thesis("--min-pages", "Pages a session must have. Default: 12.")] = None,
    counted_pages: Annotated[
        str | None, _of_thesis("--counted-pages", 'Which pages count: "before order" (default) or "all".')
    ] = None,
    setting_from: Annotated[
        str | None, _of_thesis("--setting-from", 'What the setting follows from: "start" (default) or "session".')
    ] = None,
    features: Annotated[
        str | None, _of_thesis("--features", "The feature set: baseline or extended (default).")
    ] = None,
    seed: Seed = 0,
    replace: ReplaceOption = False,
) -> None:
    """Train a model that scores sessions page by page, test it on later sessions, and save it.

    A model that loses to the base rate or to a plain logistic regression is not saved, unless you ask for it.
    """
    from visir.errors import VisirError
    from visir.sessions.prediction.training import train as run
    from visir.sessions.reports.model_view import page_table, reliability_table

    if out.exists() and not replace:
        raise VisirError(f"{out} exists already.", hint="name a new folder, or replace it (--replace)")
    trained = run(
        sessions,
        classifier,
        protocol=protocol,  # type: ignore[arg-type]  # checked by `train`
        test_from=test_from,
        test_share=test_share,
        refit=refit,
        n=n,
        seed=seed,
        settings=settings,  # type: ignore[arg-type]  # checked by `Sample`
        min_pages=min_pages,
        counted_pages=counted_pages,  # type: ignore[arg-type]  # likewise
        setting_from=setting_from,  # type: ignore[arg-type]  # likewise
        features=features,  # type: ignore[arg-type]  # likewise
    )
    if protocol == "live":
        output.table(page_table(trained))
        output.table(reliability_table(trained))
    trained.save(out, replace=replace, even_if_worse=even_if_worse)
    output.answer({"model": out.absolute(), **output.plain(trained.card)})
    for setting, drawn in trained.card["drawn"].items():
        output.line(f"{setting}: {drawn['sessions']:,} sessions, {drawn['purchases']:,} with a purchase")
    if trained.purchases is not None:
        output.line(trained.purchases.sentence)
        if trained.purchases.warning:
            output.note(trained.purchases.warning)
    if protocol == "thesis":
        output.note("its probabilities are for sessions as long as those it learnt from; for a shop: --protocol live")
    if trained.loses_to:
        output.note(f"it loses to {' and '.join(trained.loses_to)} on later sessions")
    output.line(f"{out}: ask it: visir sessions score {out} < EVENTS")


# `visir sessions describe`: what distinguishes the sessions that buy, as tables, plots and one page.

_PAGE, _JSON, _TABLES = "report.html", "describe.json", "tables"


def describe(
    sessions: Annotated[
        Path, typer.Argument(metavar="SESSIONS", help="A folder that visir sessions make made.", show_default=False)
    ],
    out: NewFolder,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of hours, weekdays and days. Default: the one of the sessions.")
    ] = None,
    suppress: Annotated[
        int, typer.Option(min=0, help="Hide cells of fewer sessions than this, and what would reveal them.")
    ] = 0,
    threads: ThreadsOption = None,
    memory: MemoryOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Say what distinguishes sessions that buy: length, time, channel, device, switches, queries, with intervals.

    Writes one page, every table as Markdown, LaTeX and CSV, and everything as JSON.
    """
    import shlex
    import sys

    from visir.sessions.description import describe as described
    from visir.sessions.reports.sessions import (
        findings,
        unavailable_table,
        write_sessions_report,
        write_sessions_tables,
    )
    from visir.sessions.reports.statistic import statistic_table
    from visir.storage import FolderKind, new_folder

    with new_folder(out, FolderKind("description", "a description of sessions"), replace=replace) as change:
        characterisation = described(sessions, zone=zone, suppress=suppress, threads=threads, memory=memory)
        beside = write_sessions_tables(change, _TABLES, characterisation)
        change.write_json(_JSON, characterisation.to_dict())
        beside[_JSON] = "everything on this page, with the ends of all intervals"
        command = shlex.join(["visir", *sys.argv[1:]])
        write_sessions_report(change.file(_PAGE), characterisation, command=command, beside=beside)
    output.answer(characterisation.to_dict())
    output.table(statistic_table(characterisation.statistic("table-6-1")))
    for sentences in findings(characterisation).values():
        for sentence in sentences:
            output.text(sentence)
    if any(statistic.unavailable for statistic in characterisation.statistics):
        output.table(unavailable_table(characterisation))
    output.note(f"report: {out / _PAGE}")


# `visir sessions generate`: a log whose causes are known.


def generate(
    out: NewFolder,
    sessions: Annotated[int, typer.Option(help="At least so many sessions, of about eight events each.")] = 100_000,
    seed: SeedOption = 0,
    dirt: Annotated[
        float, typer.Option(min=0, max=1, help="Dirt of every kind, each as this share of the events.")
    ] = 0.0,
    logs_in_at_checkout: Annotated[
        float,
        typer.Option(
            "--logs-in-at-checkout",
            min=0,
            max=1,
            help="The share of customers' sessions in which they log in at the checkout, or not at all.",
        ),
    ] = 0.0,
    planted: Annotated[
        bool, typer.Option("--planted", help="Write what nobody can see too: intents, chances.")
    ] = False,
    replace: ReplaceOption = False,
) -> None:
    """Make a shop's log whose causes are known, of any size: a larger log begins with the smaller one."""
    from visir.sessions.simulator import Dirt, Shop, generate

    log = generate(
        out,
        sessions,
        seed=seed,
        shop=Shop(logs_in_at_checkout=logs_in_at_checkout),
        dirt=Dirt.of_every_kind(dirt) if dirt else None,
        planted=planted,
        replace=replace,
    )
    output.facts(out=out.absolute(), **output.plain(log))
    output.line(
        f"{out}: {log.rows:,} rows, {log.sessions:,} sessions, {log.purchases:,} with a purchase, {log.people:,} people"
    )
    if log.dirt:
        output.line("dirt: " + ", ".join(f"{count:,} {kind}" for kind, count in log.dirt.items()))
    output.note(f"its sessions: visir sessions make {out}/events --mapping {out}/mapping.toml --out FOLDER")


# `visir sessions make`: raw events in, sessions out, everything counted.


@examples(
    "visir sessions make log/ --preset events --out sessions",
)
def make(
    log: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="Files, folders or tar archives.", show_default=False)
    ],
    out: NewFolder,
    preset: PresetOption = None,
    mapping: MappingOption = None,
    idle: Annotated[float, typer.Option(help="More minutes than this without a request end a session.")] = 30.0,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of hours, weekdays and days. Default: the mapping's."),
    ] = None,
    location: Annotated[
        list[str] | None, typer.Option(help="Accept events of this location only; several times for several.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(min=1, help="Parts of the work. Default: by the log's rows.")] = None,
    threads: ThreadsOption = None,
    memory: MemoryOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Find the sessions of a raw log.

    Find the sessions of a raw log. Rejected rows are counted by reason and written beside them.
    """
    from visir.sessions import LogCounts
    from visir.sessions import make as make_sessions

    made = make_sessions(
        log,
        out,
        mapping=_mapping(preset, mapping),
        idle_minutes=idle,
        zone=zone,
        locations=location or (),
        buckets=buckets,
        threads=threads,
        memory=memory,
        replace=replace,
    )
    output.facts(out=out.absolute(), **made.counts)
    _show(LogCounts(**made.counts), out)
    for sentence in made.advice:
        output.note(sentence)


def _mapping(name: str | None, path: Path | None) -> LogMapping:
    from visir.errors import ConfigurationError
    from visir.sessions import load_mapping, preset, presets

    if name is not None and path is None:
        return preset(name)
    if path is not None and name is None:
        return load_mapping(path)
    raise ConfigurationError(
        "sessions make: say how the log's columns become events, in one of two ways.",
        hint=f"--preset NAME ({', '.join(presets())}) or --mapping FILE",
    )


def _show(counts: LogCounts, out: Path) -> None:
    """Every count with what it means; reasons and flags that did not occur are left out."""
    from rich.table import Table

    from visir.sessions import FLAGS, REASONS
    from visir.sessions.table_labels import passed_over_words

    def share(part: int, whole: int) -> str:
        return f"{part / whole:.2%}" if whole else ""

    table = Table("", "count", "share", "what it is", show_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    table.add_row("rows read", f"{counts.read:,}", "", "")
    table.add_row("accepted", f"{counts.accepted:,}", share(counts.accepted, counts.read), "of the rows")
    for reason, count in counts.rejected.items():
        if count:
            table.add_row(f"  rejected: {reason}", f"{count:,}", share(count, counts.read), REASONS[reason])
    for flag, count in counts.flags.items():
        if count:
            table.add_row(f"  accepted: {flag}", f"{count:,}", share(count, counts.read), FLAGS[flag])
    if counts.malformed:
        table.add_row("malformed lines", f"{counts.malformed:,}", "", "no rows; listed in malformed.parquet")
    if counts.passed_over:
        table.add_row("files passed over", f"{len(counts.passed_over):,}", "", passed_over_words(counts.passed_over))
    table.add_row("visitors", f"{counts.visitors:,}", "", "")
    table.add_row("sessions", f"{counts.sessions:,}", "", "")
    for name, part, whole, meaning in (
        ("identified", counts.identified, counts.sessions, "of the sessions: a customer is known"),
        ("with a purchase", counts.purchases, counts.sessions, "of the sessions"),
        ("both", counts.purchases_identified, counts.purchases, "of the purchase sessions are identified"),
    ):
        table.add_row(f"  {name}", f"{part:,}", share(part, whole), meaning)
    if counts.purchases_without_page:
        part, meaning = counts.purchases_without_page, "of the purchase sessions: no page to learn from"
        table.add_row("  without a page", f"{part:,}", share(part, counts.purchases), meaning)
    if not output.wants_json():
        output.rich_table(table)
    if counts.read and not counts.accepted:
        most = max(counts.rejected, key=lambda reason: counts.rejected[reason])
        output.line(f"no row was accepted, most because of {most}: are the mapping's columns, unit and limits right?")
    output.line(f"{out}: sessions, events, rejected, counts.json")
