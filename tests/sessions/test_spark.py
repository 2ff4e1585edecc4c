from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.parquet import read_table
from visir.sessions import preset, sessionise
from visir.sessions import spark as sessions_of_spark
from visir.sessions.examples import Sample, draw, earlier_sql, examples_sql
from visir.sessions.features import LearntFeatures, features_of
from visir.sessions.spark import sessionise_spark, spark_sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

duckdb = pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
pytest.importorskip("pyspark", reason="needs the extra 'spark'")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

MINUTE = 60_000_000
SPRING = int(datetime(2025, 3, 30, 0, 40, tzinfo=UTC).timestamp()) * 1_000_000  # 20 minutes before summer time
MAPPING = replace(
    preset("events"),
    zone="Europe/Amsterdam",
    bot="device = 'robot'",
    until=datetime.fromtimestamp(SPRING / 1e6 + 290 * 60, UTC),
    actions={**preset("events").actions, "it's a \\ page": "page"},
)


@contextmanager
def spark_at(master: str, folder: Path, **more: str) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("visir-test")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "Asia/Tokyo",  # whatever a user's is, it must not matter
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        **more,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_at("local[2]", tmp_path_factory.mktemp("spark")) as session:
        yield session


def dirty_log(folder: Path, rows: int, visitors: int, files: int = 2, seed: int = 0) -> Path:
    """Events out of order, doubled, without a visitor or a time, of bots, of the future, of changing customers."""
    draw = np.random.default_rng(seed)

    def texts(*choices: str | None) -> Any:
        return pa.array(np.array(choices, dtype=object)[draw.integers(len(choices), size=rows)].tolist(), pa.string())

    times = SPRING + draw.integers(-50, 300 * max(1, rows // visitors // 30), size=rows) * MINUTE
    table = pa.table(
        {
            "visitor": pa.array([None if v == 0 else f"v{v}" for v in draw.integers(visitors, size=rows)], pa.string()),
            "customer": texts(None, None, None, "x", "y", ""),
            "time": pc.if_else(pa.array(draw.random(rows) < 0.01), pa.scalar(None, pa.int64()), pa.array(times)),
            "device": texts("pc", "tv", None, "pc", "tv", "robot"),
            "channel": texts("paid", None, "organic"),
            "page": texts("home", "product", None),
            "query": texts("shoe", "hat", None, ""),
            "price": pa.array(draw.choice([1.5, np.nan, np.inf, 20.0], size=rows)),
            "action": texts("page", "page", "query", "add", "order", "it's a \\ page", "dance", None),
        }
    )
    twice = table.take(draw.integers(rows, size=rows // 100))
    table = pa.concat_tables([table.slice(0, rows - len(twice)), twice])
    folder.mkdir()
    cuts = np.linspace(0, rows, files + 1).astype(int)
    for k, (begin, end) in enumerate(pairwise(cuts)):
        pq.write_table(table.slice(begin, end - begin), folder / f"part {k}.parquet", row_group_size=1000)
    pq.write_table(table.slice(0, 0), folder / "part 0b.parquet")  # a file without rows
    return folder


def rows(folder: Path, part: str, order: list[str]) -> pa.Table:
    tables = [pq.read_table(file) for file in sorted((folder / part).glob("*.parquet"))]
    # Files differ in what may be null.
    tables = [pa.table(dict(zip(table.schema.names, table.columns, strict=True))) for table in tables]
    return pa.concat_tables(tables).sort_by([(name, "ascending") for name in order])


def same_folders(one: Path, other: Path) -> None:
    for part, order in (
        ("sessions", ["visitor", "session"]),
        ("events", ["visitor", "place"]),
        ("rejected", ["arrival"]),
    ):
        mine, theirs = rows(one, part, order), rows(other, part, order)
        assert mine.schema.names == theirs.schema.names
        assert mine.schema.types == theirs.schema.types
        assert mine.equals(theirs), part


def same_features(one: Path, other: Path, n: int = 500) -> None:
    """The same examples, and the same numbers of every feature at every step, to the last bit."""
    for sample in (
        Sample("anonymous", n, min_pages=3, counted_pages="all"),
        Sample("identified", n, min_pages=3, setting_from="session"),
    ):
        mine, theirs = draw(one, sample), draw(other, sample)
        assert len(mine) == len(theirs) > 9
        features = features_of(sample.setting)
        learnt, again = LearntFeatures.of(features, mine), LearntFeatures.of(features, theirs)
        assert learnt.to_json() == again.to_json()
        for step in range(11):
            assert learnt.matrix(mine, step).tobytes() == again.matrix(theirs, step).tobytes()


def test_spark_finds_what_duckdb_finds(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.sessions.spark.ROWS_PER_PARTITION", 2000)
    log = dirty_log(tmp_path / "log", 4000, 60)
    mine = sessionise(log, MAPPING, tmp_path / "duckdb")
    theirs = sessionise_spark(spark, log, MAPPING, tmp_path / "spark")
    assert mine == theirs
    assert min(mine.rejected[reason] for reason in ("no_visitor", "no_time", "future", "bot", "duplicate")) > 0
    assert min(mine.flags["late"], mine.flags["unknown_action"], mine.identified) > 0
    same_folders(tmp_path / "duckdb", tmp_path / "spark")
    same_features(tmp_path / "duckdb", tmp_path / "spark")
    for path in (tmp_path / "spark").iterdir():  # nobody else may write there, once it is done
        assert path.stat().st_mode == (tmp_path / "duckdb" / path.name).stat().st_mode
    names = [sorted(path.name for path in (tmp_path / "spark" / part).iterdir()) for part in ("sessions", "events")]
    assert names[0] == names[1] == ["part-00000.parquet", "part-00001.parquet"]  # a visitor in files of one name
    assert sorted(path.name for path in (tmp_path / "spark").iterdir()) == [
        "counts.json",
        "events",
        "rejected",
        "sessions",
        "visir.json",
    ]
    for file in (tmp_path / "spark" / "events").iterdir():  # nothing but Parquet, in the order that is promised
        table = pq.read_table(file)
        assert table.equals(table.sort_by([("visitor", "ascending"), ("place", "ascending")]))


def test_spark_refuses_what_only_duckdb_reads(tmp_path: Path, spark: SparkSession) -> None:
    with refused(ConfigurationError, "ga-sessions", "parquet and lists", code="mapping-reads-spark-parquet"):
        sessionise_spark(spark, tmp_path, preset("ga-sessions"), tmp_path / "out")
    log = dirty_log(tmp_path / "log", 10, 3)
    with refused(VisirError, "0", code="not-number-above"):
        sessionise_spark(spark, log, MAPPING, tmp_path / "out", idle_minutes=0)
    assert not (tmp_path / "out").exists()


def test_spark_gives_frames_for_logs_and_results_elsewhere(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.sessions.spark.ROWS_PER_PARTITION", 700)
    log = dirty_log(tmp_path / "log", 2000, 30)
    counts = sessionise(log, MAPPING, tmp_path / "duckdb")
    files = [f"file://{file}" for file in sorted(log.glob("*.parquet"))]
    orders = {"sessions": ["visitor", "session"], "events": ["visitor", "place"], "rejected": ["arrival"]}
    with spark_sessions(spark, files, MAPPING) as frames:
        assert frames.counts == counts
        for part, order in orders.items():
            expected = rows(tmp_path / "duckdb", part, order)
            frame = getattr(frames, part).toArrow().sort_by([(name, "ascending") for name in order])
            assert frame.cast(expected.schema).equals(expected), part


@pytest.mark.parametrize("unit", ["s", "iso", "local"])
def test_spark_reads_times_as_duckdb_does(unit: str, tmp_path: Path, spark: SparkSession) -> None:
    clocks = ["2025-03-30 01:59:59", "2025-03-30 02:30:00", "2025-10-26 02:30:00", "yesterday", None, "2024-01-01"]
    times = pa.array(clocks * 4) if unit != "s" else pa.array([1.7e9, 1_743_300_000.25, None, -1.0, 3e11, 5.0] * 4)
    log = pa.table({"visitor": [f"v{k % 5}" for k in range(24)], "time": times, "action": ["page", "order"] * 12})
    pq.write_table(log, tmp_path / "log.parquet")
    mapping = replace(preset("events"), unit=unit, time_zone="Europe/Amsterdam", zone="Europe/Amsterdam")
    counts = sessionise(tmp_path / "log.parquet", mapping, tmp_path / "duckdb")
    assert sessionise_spark(spark, tmp_path / "log.parquet", mapping, tmp_path / "spark") == counts
    assert 0 < counts.accepted < counts.read
    same_folders(tmp_path / "duckdb", tmp_path / "spark")


def test_spark_finds_nothing_in_a_log_without_rows(tmp_path: Path, spark: SparkSession) -> None:
    log = dirty_log(tmp_path / "log", 100, 3)
    empty = pq.read_table(log).slice(0, 0)
    pq.write_table(empty, tmp_path / "empty.parquet")
    counts = sessionise_spark(spark, tmp_path / "empty.parquet", MAPPING, tmp_path / "spark")
    assert counts == sessionise(tmp_path / "empty.parquet", MAPPING, tmp_path / "duckdb")
    assert (counts.read, counts.sessions) == (0, 0)
    same_folders(tmp_path / "duckdb", tmp_path / "spark")


def test_mistakes_are_named_before_spark_begins(tmp_path: Path, spark: SparkSession) -> None:
    log = dirty_log(tmp_path / "log", 10, 3)
    wrong = replace(MAPPING, events={**MAPPING.events, "page": "pgae"})
    with refused(VisirError, "events", "pgae", code="mapping-cannot-applied-log"):
        sessionise_spark(spark, log, wrong, tmp_path / "out")
    wrong = replace(MAPPING, events={**MAPPING.events, "visitor": "lower(visitr)"})
    with refused(VisirError, "visitr", code="mapping-cannot-applied-log"):
        sessionise_spark(spark, log, wrong, tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with refused(VisirError, "out"):
        sessionise_spark(spark, log, MAPPING, tmp_path / "out", replace=True)
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "out"]


def small_log(visitors: list[Any] | pa.Array, **columns: Any) -> pa.Table:
    """Events seven minutes apart, of these visitors in turn."""
    times = pa.array([SPRING + k * 7 * MINUTE for k in range(len(visitors))])
    actions = ["order" if k % 4 == 3 else "page" for k in range(len(visitors))]
    return pa.table({"visitor": visitors, "time": times, "action": actions, **columns})


def test_visitors_are_those_of_duckdb_whatever_spark_would_make_of_the_sql(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.sessions.spark.ROWS_PER_PARTITION", 4)
    # For DuckDB substring(…, 0, 3) has two letters, for Spark three.
    pq.write_table(small_log([f"{'ab' if k % 5 else 'cd'}{k % 9}" for k in range(24)]), tmp_path / "log.parquet")
    events = {**preset("events").events, "visitor": "substring(visitor, 0, 3)"}
    mapping = replace(preset("events"), events=events)
    counts = sessionise(tmp_path / "log.parquet", mapping, tmp_path / "duckdb")
    assert sessionise_spark(spark, tmp_path / "log.parquet", mapping, tmp_path / "spark") == counts
    assert pq.read_table(tmp_path / "spark" / "events")["visitor"].unique().to_pylist() in (["ab", "cd"], ["cd", "ab"])
    same_folders(tmp_path / "duckdb", tmp_path / "spark")


def test_names_of_files_and_columns_that_spark_gives_a_meaning(tmp_path: Path, spark: SparkSession) -> None:
    log = tmp_path / "log"
    log.mkdir()
    awkward = {name: ["x", None] * 4 for name in ("arrival", "a.b`c", "arrival_in_log", "file_of_row", "nes ted")}
    files = [log / "a 50%25 #ä.parquet", log / "[1] {b}.parquet"]
    for file in files:
        pq.write_table(small_log(["v", "w"] * 4, **awkward), file)
    mapping = replace(preset("events"), raw={**preset("events").raw, "customer": ("a.b`c",)})
    source = [*files, files[0]]  # a file twice
    counts = sessionise(source, mapping, tmp_path / "duckdb")
    assert sessionise_spark(spark, source, mapping, tmp_path / "spark") == counts
    assert (counts.read, counts.rejected["duplicate"]) == (24, 16)
    same_folders(tmp_path / "duckdb", tmp_path / "spark")


def test_logs_that_spark_reads_otherwise_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    def refused(match: str, **files: pa.Table) -> None:
        for name, table in files.items():
            (tmp_path / "log" / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, tmp_path / "log" / name)
        with pytest.raises(VisirError, match=match):
            sessionise_spark(spark, tmp_path / "log", preset("events"), tmp_path / "out")
        shutil.rmtree(tmp_path / "log")
        assert list(tmp_path.iterdir()) == []

    whole = [1, 2] * 4
    mixed = {"a.parquet": small_log(pa.array(whole, pa.int32())), "b.parquet": small_log(pa.array(whole, pa.int64()))}
    refused("Spark cannot read the log: .*MERGE", **mixed)
    refused(r'names begin with "." or "_"[\s\S]*_a.parquet', **{"_a.parquet": small_log(whole)})


@pytest.mark.parametrize("own", [True, False])
def test_names_of_folders_are_no_columns(tmp_path: Path, spark: SparkSession, own: bool) -> None:
    """Whether the log has such a column or not; and each file is read once, whatever pattern its name is."""
    log = small_log(["v", "w"] * 4)
    log = log.append_column("device", pa.array(["phone"] * len(log))) if own else log
    for name in ("device=Tablet/a[1].parquet", "device=Tablet/a1.parquet", "device=pc/{a,b}.parquet"):
        (tmp_path / "log" / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(log.set_column(0, "visitor", [[f"{name} {at}" for at in range(8)]]), tmp_path / "log" / name)
    counts = sessionise(tmp_path / "log", preset("events"), tmp_path / "duckdb")
    assert sessionise_spark(spark, tmp_path / "log", preset("events"), tmp_path / "spark") == counts
    assert counts.read == 24
    devices = {
        name for path in (tmp_path / "duckdb" / "sessions").iterdir() for name in read_table(path)["device"].to_pylist()
    }
    assert devices == {"phone" if own else None}
    same_folders(tmp_path / "duckdb", tmp_path / "spark")
    files = [str(path) for path in sorted((tmp_path / "log").rglob("*.parquet"))]
    with spark_sessions(spark, files, preset("events")) as frames:
        assert frames.sessions.count() == 24


def test_times_of_int96_are_read_as_duckdb_reads_them(tmp_path: Path, spark: SparkSession) -> None:
    log = small_log(["v", "w"] * 4)
    log = log.set_column(1, "time", log["time"].cast(pa.timestamp("us")))
    pq.write_table(log, tmp_path / "log.parquet", use_deprecated_int96_timestamps=True)
    mapping = replace(preset("events"), unit="iso")
    counts = sessionise(tmp_path / "log.parquet", mapping, tmp_path / "duckdb")
    assert sessionise_spark(spark, tmp_path / "log.parquet", mapping, tmp_path / "spark") == counts
    same_folders(tmp_path / "duckdb", tmp_path / "spark")


def test_workers_without_visir_are_named(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in Path(pa.__file__).parent.parent.iterdir():
        if "visir" not in path.name:
            (packages / path.name).symlink_to(path)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    log = dirty_log(tmp_path / "log", 10, 3)
    with refused(VisirError, "No module named", "visir", code="python-of-workers"):
        sessionise_spark(spark, log, MAPPING, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_task_that_is_tried_again_replaces_what_it_wrote(tmp_path: Path, spark: SparkSession) -> None:
    log = dirty_log(tmp_path / "log", 300, 9)
    sessionise_spark(spark, log, MAPPING, tmp_path / "out")
    work = sessions_of_spark._Work(MAPPING, 30, "1GB")
    table = sessions_of_spark._by_visitor(spark, sorted(log.glob("*.parquet")), work)[0].toArrow()
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("part-*")}
    again = tmp_path / "again"
    for part in ("sessions", "events", "rejected"):
        (again / part).mkdir(parents=True)
        (again / part / "part-00000.parquet").write_bytes(b"half of a file")
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("pyspark.TaskContext.get", lambda: types.SimpleNamespace(partitionId=lambda: 0))
        (counts,) = sessions_of_spark._written(work, again, iter(table.to_batches()))
    assert counts.num_rows == 1
    assert {path.relative_to(again): path.read_bytes() for path in again.rglob("part-*")} == {
        path.relative_to(tmp_path / "out"): data for path, data in before.items()
    }


@pytest.mark.nightly
def test_a_cluster_of_two_workers_finds_the_same_in_a_million_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_cluster import standalone_cluster

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    log = dirty_log(tmp_path / "log", 1_000_000, 40_000, files=3)
    mine = sessionise(log, MAPPING, tmp_path / "duckdb")
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    with (
        standalone_cluster(cluster, workers=2) as master,
        spark_at(
            master,
            tmp_path,
            **{"spark.executor.memory": "900m", "spark.executor.cores": "1", "spark.sql.shuffle.partitions": "8"},
        ) as spark,
    ):
        theirs = sessionise_spark(spark, log, MAPPING, tmp_path / "spark")
        # The driver, and an executor of each worker.
        assert spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3
        for part in ("sessions", "events"):
            spark.read.parquet(str(tmp_path / "spark" / part)).createOrReplaceTempView(part)
        sample = Sample("identified", n=200, min_pages=4, setting_from="session")
        spark.sql(examples_sql(sample)).createOrReplaceTempView("examples")
        examples = spark.sql("SELECT * FROM examples ORDER BY began, visitor, session").collect()
        earlier = spark.sql(earlier_sql("examples", 30)).collect()
    assert mine == theirs
    same_folders(tmp_path / "duckdb", tmp_path / "spark")
    # A few only: each brings all earlier sessions of its customer, who are few here and have thousands.
    same_features(tmp_path / "duckdb", tmp_path / "spark", 30)
    with duckdb.connect() as engine:
        for part in ("sessions", "events"):
            engine.execute(f"CREATE VIEW {part} AS SELECT * FROM '{tmp_path / 'duckdb' / part}/*.parquet'")
        engine.execute(f"CREATE TABLE examples AS {examples_sql(sample)}")
        queries = ("FROM examples ORDER BY began, visitor, session", earlier_sql("examples", 30))
        for query, found in zip(queries, (examples, earlier), strict=True):
            expected = engine.execute(query).fetchall()
            assert len(expected) > 0
            assert [tuple(row) for row in found] == expected
