"""`visir sessions train`: a purchase model, saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from visir.cli import output
from visir.cli.options import argument, option
from visir.cli.verbs import Call, calls, examples, reports
from visir.sessions.cli.serve import MappingOption, PresetOption

if TYPE_CHECKING:
    from visir.sessions import LogCounts, LogMapping


# `visir sessions predict`: the prediction study of thesis section 6.5.


@calls(
    "visir.sessions.prediction.study:predict",
    sessions=argument("SESSIONS"),
    settings=option("--setting", "-s", default=None),
    models=option("--classifier", to="classifier", default=None),
    schemes=option("--folds-by", default=None),
    min_pages=option(default=12),
    leave="out n",
)
@reports
def predict(
    call: Call,
    out: Path,
    anonymous: Annotated[int | None, option(min=1)] = None,
    identified: Annotated[int | None, option(min=1)] = None,
) -> None:
    """Compare models and feature sets at every step of a session; then look at it: visir sessions report.

    Args:
        settings: A setting: anonymous or identified. Repeatable. Default: both.
        classifier: A classifier: rf, lr, knn, svm, mlp, gbdt. Repeatable. Default: all.
        schemes: grouped, temporal, ungrouped (repeatable). Default: all.
        out: Where to write: the study's folder; an interrupted study goes on in it.
        anonymous: So many anonymous sessions. The thesis: 22982.
        identified: So many identified sessions. The thesis: 6319.
    """
    from visir.sessions.examples import SETTINGS
    from visir.sessions.prediction.models import MODELS, SCHEMES
    from visir.sessions.prediction.purchase_model import PurchaseUse
    from visir.sessions.reports.intent import f1_table

    chosen = call.given["settings"] or SETTINGS
    sizes = {"anonymous": anonymous, "identified": identified}
    summary = call(
        out=out,
        settings=chosen,
        n={setting: size for setting, size in sizes.items() if size is not None},
        models=call.given["models"] or MODELS,
        schemes=call.given["schemes"] or SCHEMES,
    )
    output.answer(summary.to_json())
    for setting in chosen:
        output.table(f1_table(summary, setting))
    output.line(PurchaseUse.of(summary.card["purchases"]).sentence)
    output.line(f"{out}: study.json, cells ({summary.seconds:,.0f} s of processor time)")
    output.note(f"look at it: visir sessions report {out} --out {out}.html")


THESIS = "Protocol of the thesis"


@calls(
    "visir.sessions.prediction.training:train",
    sessions=argument("SESSIONS"),
    model=option("--classifier", to="classifier"),
    test_from=option(metavar="DATE"),
    n=option("--n", min=1, metavar="N"),
    settings=option("--setting", "-s"),
    min_pages=option(panel=THESIS),
    counted_pages=option(panel=THESIS),
    setting_from=option(panel=THESIS),
    features=option(panel=THESIS),
)
@examples(
    "visir sessions train sessions --out buyers",
    "visir sessions train sessions --out buyers --test-from 2025-03-04",
)
def train(call: Call, out: Path, even_if_worse: bool = False, replace: bool = False) -> None:
    """Train a model that scores sessions page by page, test it on later sessions, and save it.

    A model that loses to the base rate or to a plain logistic regression is not saved, unless you ask for it.

    Args:
        classifier: A classifier: blend (default), lr, gbdt, gru; of the thesis: rf, lr, knn, svm, mlp, gbdt.
        protocol: live: all sessions at every step. thesis: long sessions, as the study.
        settings: A setting: anonymous or identified. Repeatable. Default: both.
        out: Where to write: the folder of the model.
        even_if_worse: Save a model too that loses to the base rate or to a plain LR.
    """
    from visir.errors import VisirError
    from visir.sessions.reports.model_view import page_table, reliability_table

    if out.exists() and not replace:
        raise VisirError(
            f"{out} exists already.", hint="name a new folder, or replace it (--replace)", code="exists-already"
        )
    trained, protocol = call(), call.given["protocol"]
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


@calls(
    "visir.sessions.description.describe:describe", folder=argument("SESSIONS", to="sessions"), suppress=option(min=0)
)
@reports
def describe(call: Call, out: Path, replace: bool = False) -> None:
    """Say what distinguishes sessions that buy: length, time, channel, device, switches, queries, with intervals.

    Writes one page, every table as Markdown, LaTeX and CSV, and everything as JSON.

    Args:
        sessions: A folder that visir sessions make made.
    """
    from visir.sessions.reports.sessions import DESCRIPTION, sessions_report

    call.study(sessions_report, DESCRIPTION, out, replace)


# `visir sessions generate`: a log whose causes are known.


@calls(
    "visir.sessions.simulator.generate:generate",
    sessions=option(default=100_000),
    dirt=option(kind=float, default=0.0, min=0, max=1),
    leave="out shop",
)
def generate(out: Path, call: Call, logs_in_at_checkout: Annotated[float, option(min=0, max=1)] = 0.0) -> None:
    """Make a shop's log whose causes are known, of any size: a larger log begins with the smaller one.

    Args:
        dirt: Dirt of every kind, each as this share of the events.
        logs_in_at_checkout: The share of customers' sessions in which they log in at the checkout, or not at all.
    """
    from visir.sessions.simulator import Dirt, Shop

    dirt = call.given["dirt"]
    log = call(
        out=out,
        shop=Shop(logs_in_at_checkout=logs_in_at_checkout),
        dirt=Dirt.of_every_kind(dirt) if dirt else None,
    )
    output.facts(out=out.absolute(), **output.plain(log))
    output.line(
        f"{out}: {log.rows:,} rows, {log.sessions:,} sessions, {log.purchases:,} with a purchase, {log.people:,} people"
    )
    if log.dirt:
        output.line("dirt: " + ", ".join(f"{count:,} {kind}" for kind, count in log.dirt.items()))
    output.note(f"its sessions: visir sessions make {out}/events --mapping {out}/mapping.toml --out FOLDER")


# `visir sessions make`: raw events in, sessions out, everything counted.


@calls(
    "visir.sessions.making:make",
    log=argument("LOG...", kind=list[Path]),
    idle_minutes=option(to="idle", default=30.0),
    locations=option(to="location", default=None),
    buckets=option(min=1),
    leave="out mapping",
)
@examples("visir sessions make log/ --preset events --out sessions")
def make(call: Call, out: Path, preset: PresetOption = None, mapping: MappingOption = None) -> None:
    """Find the sessions of a raw log.

    Find the sessions of a raw log. Rejected rows are counted by reason and written beside them.

    Args:
        log: Files, folders or tar archives.
        location: Accept events of this location only; several times for several.
    """
    from visir.sessions import LogCounts

    made = call(out=out, mapping=_mapping(preset, mapping), locations=call.given["locations"] or ())
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
