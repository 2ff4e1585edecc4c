"""`visir sessions serve`: scores over HTTP."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from visir.cli import output
from visir.cli.classify import Days, Folder, Name, make_token, token_group
from visir.cli.options import argument, command_line, name_value_pairs, option
from visir.cli.verbs import Call, calls, examples, reports, serves, streams

# The options that say how a log's columns become events, shared by `make`, `score` and `serve`.

PresetOption = Annotated[str | None, option(about="A mapping that comes with visir.")]
MappingOption = Annotated[Path | None, option(about="A mapping of your own: a TOML file.", metavar="FILE")]
HistoryOption = Annotated[Path | None, option(about="A folder of sessions: what visitors and customers did before.")]


@examples(
    "visir sessions serve buyers --state shop.state",
    "visir sessions serve buyers --host 0.0.0.0 --tokens tokens",
)
@streams
@serves(port=8766, rate=200.0, burst=2_000)
def serve(
    model: Annotated[Path, argument("MODEL")],
    front: dict[str, Any],
    preset: PresetOption = None,
    mapping: MappingOption = None,
    history: HistoryOption = None,
    state: Annotated[Path | None, option(metavar="FILE")] = None,
    queue: Annotated[int, option(min=1)] = 512,
) -> None:
    """Score events over HTTP: POST /v1/events, GET /health.

    Events are answered in the order in which they come.

    On this machine alone it needs no tokens. On any other address it wants --tokens FOLDER (visir sessions token new)
    or --no-tokens.

    Args:
        model: A folder made by visir sessions train.
        state: Go on from this file; saved every minute and at the end.
        queue: Requests that may wait.
    """
    from visir.errors import ConfigurationError
    from visir.serving.logs import log_of
    from visir.sessions.prediction.service import serve as serve_model

    if preset is not None and mapping is not None:
        raise ConfigurationError("sessions serve: --preset and --mapping.", hint="one of them")
    serve_model(
        model,
        mapping=mapping or preset,
        history=history,
        state=state,
        log=log_of(front.pop("log_form")),
        ready=lambda address: typer.echo(f"visir scores events at {address}v1/events (Ctrl+C stops it)"),
        queue=queue,
        **front,
    )


# `visir sessions score`: a saved purchase model over a stream of events.

_BYTES = 1 << 16


@examples(
    "visir sessions score buyers",
    "visir sessions score buyers --preset shop-events --state shop.state",
)
@streams
def score(
    model: Annotated[Path, argument("MODEL")],
    preset: PresetOption = None,
    mapping: MappingOption = None,
    history: HistoryOption = None,
    state: Annotated[Path | None, option(metavar="FILE")] = None,
    save_every: Annotated[int, option(metavar="LINES", min=1)] = 100_000,
    skip_read: bool = False,
) -> None:
    """Answer a stream of events: JSON lines, or CSV with a head.

    Columns are as in docs/reference/session-logs.md, times in µs; with --preset or --mapping those of the log.

    One JSON line per answer, at once: when a session begins (step 0), then whenever a page opens, up to the model's
    last step or the first order. Events that cannot be used are counted at the end on standard error.

    Args:
        model: A folder made by visir sessions train.
        state: Go on from this file, and save the state there.
        save_every: Save the state after so many lines.
        skip_read: The stream is fed from its beginning: skip what the state has read.
    """
    from dataclasses import asdict

    import orjson

    from visir.errors import ConfigurationError
    from visir.sessions.prediction.live import LiveScorer, restore_state, save_state
    from visir.sessions.prediction.purchase_model import load_model
    from visir.sessions.prediction.stream_events import fault_of, read_chunks

    if preset is not None and mapping is not None:
        raise ConfigurationError("sessions score: --preset and --mapping.", hint="one of them")
    live = LiveScorer(load_model(model))
    done = 0
    if state is not None and state.exists():
        done = restore_state(live, state)
        typer.echo(f"{state}: {done:,} lines were read before", err=True)
    elif history is not None:
        live.remember_sessions(history)
    lines = _Lines(sys.stdin.buffer, live.rejected, done if skip_read else 0)
    saved, shown = done, set()
    first = 0 if skip_read else done

    stop = _Stop()
    try:
        for events in read_chunks(lines.rows(preset is None and mapping is None), mapping or preset, live.rejected):
            stop.is_working = True
            faults = [fault_of(event) for event in events]
            for reason, advice in filter(None, faults):
                if reason not in shown:
                    shown.add(reason)
                    typer.echo(f"set aside ({reason}): {advice}", err=True)
            answers = live.observe_all(events, faults)
            sys.stdout.write("".join(orjson.dumps(asdict(answer)).decode() + "\n" for answer in answers))
            sys.stdout.flush()
            done = first + lines.read
            if state is not None and done - saved >= save_every:
                save_state(live, state, lines=done)
                saved = done
            stop.is_working = False
            if stop.is_wanted:
                break
    except KeyboardInterrupt:
        stop.is_wanted = True
    finally:
        stop.give_back()
    if stop.is_wanted:
        typer.echo(f"stopped after {done:,} lines", err=True)
    if state is not None and done != saved:
        save_state(live, state, lines=done)
    for reason, count in sorted(live.rejected.items()):
        typer.echo(f"rejected: {count:,} {reason}", err=True)


class _Stop:
    """SIGTERM and SIGINT end the stream between two pieces of it, so that no event is half done."""

    def __init__(self) -> None:
        self.is_working = self.is_wanted = False
        signals = (signal.SIGTERM, signal.SIGINT)
        self._before = {number: signal.signal(number, self._handle) for number in signals}

    def _handle(self, number: int, frame: object) -> None:
        self.is_wanted = True
        if not self.is_working:
            raise KeyboardInterrupt

    def give_back(self) -> None:
        """Let the signals do what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Lines:
    """The lines of a stream as they come, several at once where several are there."""

    # A line that is not a row is reported with its number, counted, and left out.

    def __init__(self, stream: BinaryIO, rejected: Counter[str], skipped: int) -> None:
        self.read = 0
        self._stream, self._rejected, self._skipped = stream, rejected, skipped
        self._head: list[str] | None = None
        self._is_json: bool | None = None  # by the first line

    def rows(self, checks: bool) -> Iterator[list[dict[str, Any]]]:
        """The rows of each piece of the stream; `checks`: they are events, which have certain columns."""
        rest = b""
        number = 0
        while piece := self._stream.read1(_BYTES):  # type: ignore[attr-defined]
            *whole, rest = (rest + piece).split(b"\n")
            number, begin = number + len(whole), number
            self.read = number
            yield self._rows(whole, begin, checks)
        if rest:
            self.read = number + 1
            yield self._rows([rest], number, checks)

    def _rows(self, lines: list[bytes], number: int, checks: bool) -> list[dict[str, Any]]:
        rows = (self._row(line, number + place, checks) for place, line in enumerate(lines, 1))
        return [row for row in rows if row is not None]

    def _row(self, line: bytes, number: int, checks: bool) -> dict[str, Any] | None:
        import csv

        import orjson

        from visir.sessions.prediction.stream_events import check_columns

        text = line.decode(errors="replace").strip().removeprefix("\ufeff")
        if not text:
            return None
        if self._is_json is None:
            self._is_json = text.startswith("{")
        if not self._is_json and self._head is None:
            self._head = next(csv.reader([text]))
            if checks:
                check_columns(self._head)
            return None
        if number <= self._skipped:
            return None
        try:
            if self._head is None:
                row = orjson.loads(text)
                if not isinstance(row, dict):
                    raise ValueError("not an object")
                if number == 1 and checks:
                    check_columns(list(row))
            else:
                row = dict(zip(self._head, next(csv.reader([text])), strict=True))
                if checks:
                    row["time"] = int(row["time"]) if row.get("time") else None
                    row["price"] = float(row["price"]) if row.get("price") else None
        except ValueError as fault:
            self._rejected["malformed"] += 1
            typer.echo(f"line {number}: {fault}", err=True)
            return None
        return row


# `visir sessions ab-test`: an online test read out at any time.


@calls(
    "visir.sessions.online.ab_test:ab_test",
    log=argument("DECISIONS", to="decisions", kind=Path),
    shares=option(to="share", kind=list[str], default=None, metavar="NAME=SHARE"),
    error=option(default=0.05),
    planned=option(default=10_000, min=1),
    most=option(metavar="AMOUNT"),
)
@examples("visir sessions ab-test decisions.jsonl --control rules --out read-out")
@reports
def ab_test(call: Call, out: Path, replace: bool = False) -> None:
    """Read out an online test: which variant does better, with intervals that hold at any time.

    Writes a page and JSON. Look as often as you like.

    Args:
        decisions: A log of decisions: JSON lines.
        share: Planned share of a variant, once for each.
    """
    from visir.sessions.reports.ab_test import AB_TEST, ab_test_report

    shares = {
        name: _share(name, value) for name, value in name_value_pairs(call.given["shares"], "--share").items()
    } or None
    call.study(ab_test_report, AB_TEST, out, replace, shares=shares)


def _share(name: str, value: object) -> float:
    from visir.errors import ConfigurationError

    try:
        return float(str(value))
    except ValueError:
        raise ConfigurationError(f"--share {name}={value}: not a number.", hint="--share model=0.5") from None


# `visir sessions report`: a prediction study as one HTML page.


def report(study: Annotated[Path, argument("STUDY")], out: Path, replace: bool = False) -> None:
    """Show a prediction study: Figures 6.6 and 6.7, what more features bring, what folds flatter, and the protocol.

    Args:
        study: A folder made by visir sessions predict.
        out: Where to write: a page, named .html.
    """
    from visir.sessions.prediction.study import load_study, summarise
    from visir.sessions.reports.intent import intent_report

    summary = summarise(*load_study(study))
    intent_report(summary).write(out, command=command_line(), replace=replace)
    output.answer(summary.to_json())
    output.line(str(out))


# `visir sessions token`: who may post events and read scores.


def new(folder: Folder, name: Name, days: Days = None) -> None:
    """Make a token and show it, this once; the folder holds its hash only. Its scope is score: post events."""
    make_token(folder, name, ["score"], days)


app = token_group("visir sessions serve", "who may post events", new)
