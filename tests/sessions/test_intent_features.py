from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from intent_log import BEGAN, DAY, MINUTE, event, folder_of, random_log

from refusals import refused
from visir.errors import VisirError
from visir.evaluation.published import open_table
from visir.sessions.examples import SETTINGS, Sample, draw
from visir.sessions.features import FEATURES, LearntFeatures, features_of
from visir.sessions.table_labels import NEVER, STEPS, CodedTexts, EarlierSessions, SessionExamples

NAMES = [one.name for one in FEATURES]


def made(
    pages: list[str | None],
    dwell: list[float],
    *,
    buys: bool = False,
    device: str | None = "pc",
    earlier: tuple[tuple[str | None, int, float], ...] = (),
) -> SessionExamples:
    """One session with these pages and dwell times (seconds); earlier: device, orders, days ago."""
    opened = BEGAN + np.cumsum([0, *dwell[:STEPS]]) * 1e6
    ends = np.array([BEGAN - days * DAY for *_, days in earlier], np.int64)
    return SessionExamples(
        visitor=np.array(["v"], object),
        session=np.array([1]),
        customer=np.array(["c"], object),
        began=np.array([BEGAN]),
        ended=np.array([BEGAN]),
        hour=np.array([20]),
        weekday=np.array([6]),
        purchase=np.array([buys]),
        pages=CodedTexts.of(np.array([pages], object)),
        opened=opened.astype(np.int64)[None, :],
        device=CodedTexts.of([device]),
        device_step=np.array([0 if device else NEVER]),
        channel=CodedTexts.of([None]),
        channel_step=np.array([NEVER]),
        customer_step=np.array([0]),
        reached=np.array([STEPS]),
        visits=np.array([0]),
        added=np.zeros((1, STEPS + 1), np.int64),
        queried=np.zeros((1, STEPS + 1), np.int64),
        earlier=EarlierSessions(
            np.array([0, len(earlier)]),
            CodedTexts.of([name for name, *_ in earlier]),
            np.array([orders for _, orders, _ in earlier], np.int64),
            ends,
        ),
    )


def joined(parts: list[SessionExamples]) -> SessionExamples:
    """Several examples as one."""

    def words(get) -> CodedTexts:  # type: ignore[no-untyped-def]
        told = [np.array([*get(part).names, None], object)[get(part).codes] for part in parts]
        return CodedTexts.of(np.concatenate(told))

    plain = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in SessionExamples.__dataclass_fields__
        if name not in ("pages", "device", "channel", "earlier", "current_page_left")
    }
    counts = np.concatenate([part.earlier.counts for part in parts])
    return SessionExamples(
        **plain,
        pages=words(lambda one: one.pages),
        device=words(lambda one: one.device),
        channel=words(lambda one: one.channel),
        earlier=EarlierSessions(
            np.concatenate([[0], np.cumsum(counts)]),
            words(lambda one: one.earlier.device),
            np.concatenate([part.earlier.orders for part in parts]),
            np.concatenate([part.earlier.ended for part in parts]),
        ),
    )


def value(name: str, examples: SessionExamples, step: int, learnt: LearntFeatures) -> list[float]:
    return learnt.matrix(examples, step)[:, [feature.name for feature in learnt.features].index(name)].tolist()


def test_the_sets_are_those_of_table_6_7() -> None:
    table = open_table("thesis-table-6-7")
    said = {f"{one.scope}: {one.name}": ["✓" if on else "–" for on in (one.dynamic, one.baseline)] for one in FEATURES}
    assert said == {row: list(cells) for row, cells in table.rows.items()}
    sizes = {
        (setting, which): len(features_of(setting, which)) for setting in SETTINGS for which in ("baseline", "extended")
    }  # type: ignore[arg-type]
    assert sizes == {
        ("anonymous", "baseline"): 4,
        ("anonymous", "extended"): 9,
        ("identified", "baseline"): 6,
        ("identified", "extended"): 15,
    }


TWO = joined(
    [
        made(["a", "b"] * 5, [10, 20, 60, *[1] * 7], buys=True, earlier=(("tv", 1, 9.0), ("pc", 0, 2.0))),
        made(["a", "a"] * 5, [5] * 10, device="tv", earlier=(("tv", 0, 3.0),)),
    ]
)
LEARNT = LearntFeatures.of(FEATURES, TWO)


def test_dwell_times_are_those_of_pages_that_were_left() -> None:
    mean, spread = "current page dwell time, mean", "current page dwell time, σ"
    for step in (0, 1):
        assert np.isnan(value(mean, TWO, step, LEARNT)).all()
        assert np.isnan(value(spread, TWO, step, LEARNT)).all()
    assert value(mean, TWO, 2, LEARNT) == [10, 5]
    assert value(spread, TWO, 2, LEARNT) == [0, 0]
    assert value(mean, TWO, 4, LEARNT) == [30, 5]  # (10 + 20 + 60) / 3
    assert value(spread, TWO, 4, LEARNT)[0] == pytest.approx((1400 / 3) ** 0.5)  # 20² + 10² + 30² = 1400


def test_the_current_page_s_dwell_time_counts_by_name() -> None:
    # The other reading: at step k the k-th page was left, so step 1 has one dwell time, and step k what step k + 1 has.
    mean, spread = "current page dwell time, mean", "current page dwell time, σ"
    left = replace(TWO, current_page_left=True)
    assert np.isnan(value(mean, left, 0, LEARNT)).all()
    assert (value(mean, left, 1, LEARNT), value(spread, left, 1, LEARNT)) == ([10, 5], [0, 0])
    assert value(mean, left, 3, LEARNT) == [30, 5]  # (10 + 20 + 60) / 3
    for name in (mean, spread):
        for step in range(1, STEPS):
            assert value(name, left, step, LEARNT) == value(name, TWO, step + 1, LEARNT)
    assert value(mean, left, 10, LEARNT) == [9.7, 5]  # (10 + 20 + 60 + 7 · 1) / 10
    others = [number for number, name in enumerate(NAMES) if name not in (mean, spread)]
    np.testing.assert_array_equal(LEARNT.matrix(left, 5)[:, others], LEARNT.matrix(TWO, 5)[:, others])


def test_the_page_score_is_the_mean_log_ratio_of_two_chains() -> None:
    # States after: a, b, none, unseen. One session each, every transition + 1:
    # buys     start→a 2/5; a→b (5 times) 6/9, a→a 1/9; b→a (4 times) 5/8
    # buys not start→a 2/5; a→a (9 times) 10/13, a→b 1/13
    score = "page sequence score"
    assert value(score, TWO, 0, LEARNT) == [0, 0]
    assert value(score, TWO, 1, LEARNT) == [0, 0]
    first = log((6 / 9) / (1 / 13))
    assert value(score, TWO, 2, LEARNT) == pytest.approx([first / 2, log((1 / 9) / (10 / 13)) / 2])
    back = log((5 / 8) / (1 / 4))  # nobody who does not buy leaves b: 1 of 4
    assert value(score, TWO, 3, LEARNT)[0] == pytest.approx((first + back) / 3)
    new = made(["a", "new", None, "b", *["a"] * 6], [1] * 10)
    unseen = log((1 / 9) / (1 / 13))
    after_unseen = log((1 / 4) / (1 / 4))
    assert value(score, new, 3, LEARNT)[0] == pytest.approx((unseen + after_unseen) / 3)


def test_the_past_in_numbers() -> None:
    said = {name: value(name, TWO, 0, LEARNT) for name in NAMES[9:13]}
    assert said["number of orders"] == [1, 0]
    assert said["days since last purchase"][0] == 9
    assert np.isnan(said["days since last purchase"][1])
    assert said["number of sessions"] == [2, 1]
    assert said["number of devices"] == [2, 1]


def test_the_device_score_is_that_of_the_earlier_sessions() -> None:
    # States after: pc, tv, none, unseen. Before a purchase tv, pc: start→tv 2/5, tv→pc 2/5. Otherwise tv: start→tv 2/5,
    # and nothing leaves tv: tv→pc 1/4.
    assert value("device sequence score", TWO, 0, LEARNT) == pytest.approx([log((2 / 5) / (1 / 4)) / 2, 0])
    alone = made(["a"] * 10, [1] * 10)
    assert value("device sequence score", alone, 0, LEARNT) == [0]


def test_conversion_and_switching() -> None:
    # One of two bought: overall 1/2. pc: (1 + 1/2) / 2, tv: (0 + 1/2) / 2; a new device: 1/2.
    assert value("device conversion rate", TWO, 0, LEARNT) == [0.75, 0.25]
    assert value("device conversion rate", made(["a"] * 10, [1] * 10, device="phone"), 0, LEARNT) == [0.5]
    # The one purchase came from pc to pc; names: pc alone, so P(pc → pc) = 2/2, and for tv what all do.
    assert value("switch probability", TWO, 0, LEARNT) == [0, 0]
    more = joined([TWO, made(["a"] * 10, [1] * 10, buys=True, device="tv", earlier=(("pc", 0, 1.0),))])
    # pc → pc 1, pc → tv 1, with one more each 2/4; tv → nothing, 1/2.
    assert value("switch probability", more, 0, LearntFeatures.of(FEATURES, more)) == [0.5, 0.5, 0.5]


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
    return folder_of(random_log(60), tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def drawn(log_folder: Path) -> SessionExamples:
    return draw(log_folder, Sample("identified", min_pages=10, setting_from="session"))


def test_labels_of_the_validation_fold_change_no_feature(drawn: SessionExamples) -> None:
    rows = np.arange(len(drawn)) % 3 > 0
    shuffled = drawn.purchase.copy()
    shuffled[~rows] = ~shuffled[~rows]
    other = replace(drawn, purchase=shuffled)
    mine, theirs = LearntFeatures.of(FEATURES, drawn, rows), LearntFeatures.of(FEATURES, other, rows)
    assert mine.states == theirs.states
    for step in range(9):
        np.testing.assert_array_equal(mine.matrix(drawn, step), theirs.matrix(other, step))
    turned = replace(drawn, purchase=~drawn.purchase)  # labels of the training fold do: this test can fail
    assert LearntFeatures.of(FEATURES, turned, rows).states != mine.states


@pytest.mark.parametrize("step", [0, 1, 3, 6])
def test_events_after_a_step_change_no_feature_at_it(step: int, drawn: SessionExamples, tmp_path: Path) -> None:
    learnt = LearntFeatures.of(FEATURES, drawn)
    before = learnt.matrix(drawn, step)
    seen: dict[tuple[str, int], int] = {}
    cut = []
    rows = sorted(random_log(60), key=lambda row: (row["visitor"], row["time"]))
    latest: dict[str, tuple[int, int]] = {}
    for row in rows:  # everything of a session after its step-th page is another page, device, customer, time
        number, time = latest.get(row["visitor"], (0, -DAY))
        number += row["time"] - time > 30 * MINUTE
        latest[row["visitor"]] = (number, row["time"])
        key = (row["visitor"], number)
        begins = key not in seen
        pages = seen.setdefault(key, 0)
        seen[key] += row["action"] == "page"
        if pages >= max(step, 1) and not begins:
            own = {"page": "another", "channel": "new", "time": row["time"] + 1_000}
            row = {**row, **own, "action": "page"}
        cut.append(row)
    again = draw(
        folder_of(cut, tmp_path), Sample("identified", min_pages=10, counted_pages="all", setting_from="session")
    )
    place = {key: row for row, key in enumerate(zip(again.visitor, again.session.tolist(), strict=True))}
    at = [place[key] for key in zip(drawn.visitor, drawn.session.tolist(), strict=True)]
    # Orders of earlier sessions became pages above, so what the past holds differs; what the session holds must not.
    session = [number for number, one in enumerate(FEATURES) if one.scope == "session"]
    np.testing.assert_array_equal(learnt.matrix(again, step)[at][:, session], before[:, session])


def test_the_future_changes_no_history(drawn: SessionExamples, tmp_path: Path) -> None:
    rows = random_log(60)
    noon = BEGAN + 10 * DAY
    future = [
        event(f"new{number}", 11 * 24 * 60 + number, None, "order", customer=f"c{number}", device="tv")
        for number in range(60)
    ]
    again = draw(folder_of(rows + future, tmp_path), Sample("identified", min_pages=10, setting_from="session"))
    place = {key: row for row, key in enumerate(zip(again.visitor, again.session.tolist(), strict=True))}
    past = np.flatnonzero(drawn.began < noon)
    at = [place[drawn.visitor[row], int(drawn.session[row])] for row in past]
    learnt = LearntFeatures.of(FEATURES, drawn)
    np.testing.assert_array_equal(learnt.matrix(again, 5)[at], learnt.matrix(drawn, 5)[past])
    later = np.flatnonzero(drawn.began > BEGAN + 13 * DAY)
    at = [place[drawn.visitor[row], int(drawn.session[row])] for row in later]
    assert (learnt.matrix(again, 5)[at] != learnt.matrix(drawn, 5)[later]).any()  # this test can fail


def test_one_example_alone_has_the_same_features(drawn: SessionExamples) -> None:
    learnt = LearntFeatures.from_json(LearntFeatures.of(FEATURES, drawn).to_json(), FEATURES)
    for step in (0, 2, 8):
        every = learnt.matrix(drawn, step)
        for row in range(0, len(drawn), 7):
            np.testing.assert_array_equal(learnt.matrix(only(drawn, row), step), every[row : row + 1])


def only(examples: SessionExamples, row: int) -> SessionExamples:
    first, last = examples.earlier.offsets[row : row + 2]
    own = {
        name: getattr(examples, name)[row : row + 1]
        for name in SessionExamples.__dataclass_fields__
        if name not in ("pages", "device", "channel", "earlier", "current_page_left")
    }
    words = {
        name: CodedTexts(getattr(examples, name).names, getattr(examples, name).codes[row : row + 1])
        for name in ("pages", "device", "channel")
    }
    past = examples.earlier
    own["earlier"] = EarlierSessions(
        np.array([0, last - first]),
        CodedTexts(past.device.names, past.device.codes[first:last]),
        past.orders[first:last],
        past.ended[first:last],
    )
    return SessionExamples(**own, **words)


def test_one_outcome_teaches_nothing(drawn: SessionExamples) -> None:
    with refused(VisirError, code="nothing-tell-apart"):
        LearntFeatures.of(FEATURES, drawn, drawn.purchase)
    with refused(VisirError, "magic", code="unknown-features"):
        LearntFeatures.from_json({"magic": {}}, FEATURES)
