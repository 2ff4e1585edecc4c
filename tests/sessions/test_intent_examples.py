from __future__ import annotations

import shutil
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from intent_log import BEGAN, DAY, MINUTE, Row, event, folder_of, random_log

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions import preset, sessionise
from visir.sessions.examples import Sample, draw, earlier_sql, examples_sql
from visir.sessions.table_labels import NEVER, SessionExamples

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")


def pages(visitor: str, start: float, count: int, **more: object) -> list[Row]:
    return [event(visitor, start + place, f"p{place}", **more) for place in range(count)]


def order(visitor: str, minute: float, **more: object) -> Row:
    return event(visitor, minute, None, "order", **more)


def test_an_example_has_its_first_ten_pages_and_when_they_opened(tmp_path: Path) -> None:
    rows = pages("a", 0, 12, device="pc", channel="paid")
    rows.insert(1, event("a", 0.5, None, "query", query="shoe"))
    found = draw(folder_of(rows, tmp_path), Sample("anonymous"))
    assert (len(found), found.visitor[0], found.session[0], found.customer[0]) == (1, "a", 1, None)
    assert [found.pages.names[code] for code in found.pages.codes[0]] == [f"p{k}" for k in range(10)]
    assert ((found.opened[0] - BEGAN) / MINUTE).tolist() == [float(k) for k in range(11)], "and when the tenth was left"
    assert (found.hour[0], found.weekday[0], bool(found.purchase[0])) == (0, 6, False)
    assert (found.device.names, found.channel.names) == (("pc",), ("paid",))
    assert (found.device_step[0], found.channel_step[0], found.customer_step[0]) == (0, 0, NEVER)


def test_pages_count_before_the_first_order_unless_all_are_asked_for(tmp_path: Path) -> None:
    late = [*pages("late", 0, 12), order("late", 12)]
    early = [*pages("early", 0, 11), order("early", 11), *pages("early", 11.5, 3)]
    where = folder_of([*late, *early, *pages("short", 0, 11)], tmp_path)
    assert draw(where, Sample("anonymous")).visitor.tolist() == ["late"]
    assert sorted(draw(where, Sample("anonymous", counted_pages="all")).visitor) == ["early", "late"]
    assert sorted(draw(where, Sample("anonymous", min_pages=11)).visitor) == ["early", "late", "short"]


def test_settings_are_told_by_the_first_request_or_by_the_whole_session(tmp_path: Path) -> None:
    later = pages("later", 0, 12)
    later[3]["customer"] = "x"  # the fourth page: known at step 4
    rows = [*pages("known", 0, 12, customer="k"), *later, *pages("never", 0, 12)]
    where = folder_of(rows, tmp_path)
    assert draw(where, Sample("identified")).visitor.tolist() == ["known"]
    anonymous = draw(where, Sample("anonymous"))
    assert anonymous.visitor.tolist() == ["later", "never"]
    assert anonymous.customer_step.tolist() == [4, NEVER]
    whole = draw(where, Sample("identified", setting_from="session"))
    assert whole.visitor.tolist() == ["known", "later"]
    assert whole.customer_step.tolist() == [0, 0], "the session is the customer's from its beginning"
    assert draw(where, Sample("anonymous", setting_from="session")).visitor.tolist() == ["never"]


def test_the_thesis_s_reading_gives_a_session_the_past_of_who_logs_in_later(tmp_path: Path) -> None:
    # Bought the day before; logs in at the tenth page. By the first request: anonymous, and no past.
    rows = [*pages("pc", 0, 2, customer="x"), order("pc", 2, customer="x"), *pages("tv", DAY / MINUTE, 12)]
    rows[-3]["customer"] = "x"
    where = folder_of(rows, tmp_path)
    thesis = draw(where, Sample("identified", setting_from="session", counted_pages="all"))
    assert thesis.earlier.orders.tolist() == [1] and thesis.is_known(0).tolist() == [True]
    assert draw(where, Sample("anonymous")).is_known(9).tolist() == [False]
    with refused(VisirError, "identified", "12", code="no-session-pages"):
        draw(where, Sample("identified"))


def test_what_an_event_after_the_first_tells_is_known_at_its_step(tmp_path: Path) -> None:
    rows = pages("a", 0, 12)
    rows[2]["device"] = "pc"  # third page
    rows.insert(1, event("a", 0.5, None, "query", channel="paid"))  # on the first page: known when the second opens
    found = draw(folder_of(rows, tmp_path), Sample("anonymous"))
    assert (found.device_step[0], found.channel_step[0]) == (3, 2)
    assert [found.known_device(k).codes[0] for k in (0, 2, 3, 10)] == [-1, -1, 0, 0]


def test_the_past_are_sessions_that_were_over(tmp_path: Path) -> None:
    day = DAY / MINUTE
    rows = [
        *pages("phone", 0, 2, customer="x", device="smartphone"),  # over on day 0
        order("phone", 2, customer="x"),
        *pages("pc", day - 25, 3, customer="x", device="pc"),  # ends 23 minutes before: not known to be over
        *pages("tv", day, 12, customer="x", device="tv"),  # the example
        *pages("phone", 2 * day, 2, customer="x"),  # the future
        *pages("other", 0, 2, customer="y"),
        order("other", 2, customer="y"),
    ]
    found = draw(folder_of(rows, tmp_path), Sample("identified"))
    assert found.visitor.tolist() == ["tv"]
    assert found.earlier.offsets.tolist() == [0, 1]
    assert (found.earlier.device.names, found.earlier.orders.tolist()) == (("smartphone",), [1])
    assert (found.earlier.ended - BEGAN).tolist() == [2 * MINUTE]


def test_a_sample_depends_on_its_seed_and_on_nothing_else(tmp_path: Path) -> None:
    rows = random_log(40)
    where = folder_of(rows, tmp_path / "a")
    drawn = keys(draw(where, Sample("anonymous", n=10)))
    assert len(drawn) == 10
    assert drawn < keys(draw(where, Sample("anonymous")))
    assert keys(draw(where, Sample("anonymous", n=11))) > drawn
    assert keys(draw(where, Sample("anonymous", n=10, seed=1))) != drawn
    fewer = [row for row in rows if row["time"] < BEGAN + 15 * DAY or row["customer"] is None]
    again = folder_of(list(reversed(fewer)), tmp_path / "b")
    assert keys(draw(again, Sample("anonymous", n=10_000))) >= drawn & keys(draw(again, Sample("anonymous")))


@pytest.mark.parametrize(
    "sample", [Sample("anonymous", n=30, min_pages=8), Sample("identified", min_pages=8, setting_from="session")]
)
def test_slices_and_files_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Sample) -> None:
    rows = random_log(40)
    for row in rows:
        row["visitor"] = row["visitor"].replace("v1", "o'v")
    whole = told(draw(folder_of(rows, tmp_path), sample))
    assert whole["began"][1][0] >= 30
    sessionise(tmp_path / "log.parquet", preset("events"), tmp_path / "of 5", buckets=5)
    assert told(draw(tmp_path / "of 5", sample)) == whole
    for events in (1, 100):  # a slice is never less than a visitor
        monkeypatch.setattr("visir.sessions.examples.EVENTS_AT_ONCE", events)
        assert told(draw(tmp_path / "sessions", sample)) == whole
    for part in ("sessions", "events"):  # what is not visir's is not read, whatever its name
        one = next((tmp_path / "of 5" / part).glob("*.parquet"))
        shutil.copy(one, one.with_name("part-00000 (copy).parquet"))
        one.with_name("mine.parquet").write_text("mine\n")
    assert told(draw(tmp_path / "of 5", sample)) == whole
    one.unlink()
    with refused(VisirError, f"events/{one.name} is missing"):
        draw(tmp_path / "of 5", sample)


def told(part: object) -> Any:
    """Every array of examples, as bytes."""
    if isinstance(part, np.ndarray):
        return part.tolist() if part.dtype == object else (part.dtype.str, part.shape, part.tobytes())
    return {one.name: told(getattr(part, one.name)) for one in fields(part)} if is_dataclass(part) else part


def keys(examples: SessionExamples) -> set[tuple[str, int]]:
    return set(zip(examples.visitor, examples.session.tolist(), strict=True))


def test_steps_end_two_pages_before_the_shortest_session() -> None:
    assert Sample("anonymous").steps == range(11)
    assert Sample("anonymous", min_pages=5).steps == range(4)
    assert Sample("anonymous", min_pages=40).steps == range(11)


def test_faults_are_told(tmp_path: Path) -> None:
    with refused(ConfigurationError, meant="identified") as fault:
        Sample("identifed", min_pages=1)  # type: ignore[arg-type]
    assert "leaves no step" in str(fault.value)
    with pytest.raises(VisirError, match="longest session has 3 pages"):
        draw(folder_of(pages("a", 0, 3), tmp_path), Sample("identified"))
    with pytest.raises(VisirError, match="visir sessions make LOG"):
        draw(tmp_path, Sample("anonymous"))


def test_columns_are_whole_numbers(tmp_path: Path) -> None:
    found = draw(folder_of(random_log(20), tmp_path), Sample("identified", min_pages=8))
    for name in ("session", "began", "hour", "opened", "device_step"):
        assert getattr(found, name).dtype == np.int64
    assert found.purchase.dtype == bool


@pytest.mark.nightly
@pytest.mark.parametrize(
    "sample",
    [
        Sample("identified", min_pages=8, n=40),
        Sample("anonymous", min_pages=8, counted_pages="all", setting_from="session"),
    ],
    ids=["drawn", "all"],
)
def test_spark_gives_the_same_rows_from_the_same_text(sample: Sample, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs the extra 'spark'")
    import duckdb
    from pyspark.sql import SparkSession

    where = folder_of(random_log(40), tmp_path)
    local = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = local.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    engine = duckdb.connect()
    for part in ("sessions", "events"):
        spark.read.parquet(str(where / part)).createOrReplaceTempView(part)
        engine.execute(f"CREATE VIEW {part} AS SELECT * FROM read_parquet('{where}/{part}/*.parquet')")
    rows = [tuple(row) for row in spark.sql(examples_sql(sample)).collect()]
    assert rows == engine.execute(examples_sql(sample)).fetchall()
    assert rows
    spark.sql(examples_sql(sample)).createOrReplaceTempView("examples")
    engine.execute(f"CREATE TABLE examples AS {examples_sql(sample)}")
    past = [tuple(row) for row in spark.sql(earlier_sql("examples", 30)).collect()]
    assert past == engine.execute(earlier_sql("examples", 30)).fetchall()
    assert past or sample.setting == "anonymous"
