"""Profiles, worked out by hand on toy models: scores, chance, strength, order, what is left out, what is written."""

from __future__ import annotations

import gzip
import json
import lzma
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import visir
from class_toys import class_folder, colour_model, picture
from refusals import refused
from visir.encoders.base import Encoder
from visir.errors import CollectionError, ConfigurationError, EncoderError, VisirError
from visir.evaluation.assembly import Assembly, assemble
from visir.evaluation.chance import mean_chance
from visir.evaluation.language import LanguageModel, language_model
from visir.records import Collection, EncoderCard, Items, Pools, Qrels, Task
from visir.reports.page import page_bytes
from visir.reports.profile import profile_report, profile_table
from visir.stats import estimate
from visir.studies.profile import profile as profile_call
from visir.studies.profile import result as search_task
from visir.studies.profile.profile import CAPTIONS, DATA_SETS, DataAtHand, generated_tasks, tasks_of
from visir.studies.profile.result import ABILITIES, ModelProfile, ScoreDifference, SkillScore, in_order

HOSTILE = '<script>alert("x")</script>'
NAMES = ("red", "green", "blue", "grey")
VECTORS = np.eye(4)


def pictures(folder: Path) -> Collection:
    """Four pictures with one caption each."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(NAMES):
        Image.new("RGB", (8, 8), (60 * number, 60 * number, 60 * number)).save(folder / f"{name}.png")
    return visir.open([(str(folder / f"{name}.png"), f"all {name}") for name in NAMES])


def model_of(name: str, answers: dict[str, str]) -> visir.Encoder:
    """A model that sees which picture it is, and takes each caption for the picture of `answers`."""

    def image(images: list[Image.Image]) -> np.ndarray:
        return np.stack([VECTORS[round(np.asarray(picture).mean() / 60)] for picture in images])

    def text(texts: list[str]) -> np.ndarray:
        words = [next(word for word in NAMES if word in one) for one in texts]
        return np.stack([VECTORS[NAMES.index(answers[word])] for word in words])

    return visir.Encoder.wrap(name, image=image, text=text)


RIGHT_BUT_ONE = {"red": "red", "green": "green", "blue": "blue", "grey": "red"}
ALL_WRONG = {"red": "green", "green": "red", "blue": "grey", "grey": "blue"}


def profiled(model: object, data: object = None, **options: object) -> ModelProfile:
    return visir.profile(model, data, **{"scenes": 0, "at_hand": False, "reference": None, **options})  # type: ignore[arg-type]


def test_a_score_its_chance_its_interval_and_its_strength(tmp_path: Path) -> None:
    """Three of four captions find their picture among four: from chance, 1/4, it is two thirds of the way to 1."""
    data = {"mine": pictures(tmp_path / "photos")}
    result = profiled(model_of("good", RIGHT_BUT_ONE), data, reference=model_of("bad", ALL_WRONG))
    row = result["text-to-image"]
    assert (row.name, row.ability, row.queries, row.candidates) == ("mine/text-to-image", "retrieval", 4, "4")
    assert (row.score, row.chance, row.reference) == (0.75, 0.25, 0.0)
    assert row.strength == pytest.approx(2 / 3) and row.between(0.0) == pytest.approx(-1 / 3)
    assert (row.low, row.high) == estimate([1, 1, 1, 0], ["red", "green", "blue", "grey"]).ends  # by picture
    assert row.difference is not None and row.difference.mean == 0.75
    # Three hits gained, none lost, half a query more of each outcome: (3.5 − 0.5) / 6 = 1/2 (Agresti and Min).
    assert row.difference.low == pytest.approx(0.5 - 1.959964 * (3.5 + 0.5 - 3**2 / 6) ** 0.5 / 6, abs=1e-5)
    assert dict(result.protocols[row.protocol])["galleries t2i"].startswith("4 images")
    assert result.summary == "above chance: 1 of 2; better than bad: 0 of 2, worse: 0"
    assert repr(result).splitlines()[0] == "ModelProfile(good: 2 tasks of 1 ability, beside bad)"


def test_rows_are_by_ability_and_fall_in_strength() -> None:
    def row(skill: str, ability: str, score: float, chance: float) -> SkillScore:
        return SkillScore("s", skill, skill, ability, "hit@1", 1, "2", score, 0, 1, chance, None, None, None, "p")

    # The strengths: 0.5, 0.75, −1, 0.2, and none where chance is perfect.
    given = [
        row("b", "language", 0.75, 0.5),
        row("a", "retrieval", 0.8, 0.2),
        row("d", "composition", 0.0, 0.5),
        row("c", "retrieval", 0.2, 0.0),
        row("e", "retrieval", 1.0, 1.0),
    ]
    scores = in_order(given)
    assert [entry.skill for entry in scores] == ["a", "c", "e", "d", "b"]
    profile = ModelProfile("m", "", scores)
    assert [entry.skill for entry in profile.by_strength] == ["a", "b", "c", "d", "e"]
    assert profile.abilities == ("retrieval", "composition", "language")
    assert "strongest: s/a 80.0 % (strength 75 %)" in repr(profile)


def test_equal_scores_count_against_a_model() -> None:
    """Captions of the same words in another order are one caption for a bag of words: it chooses none of them."""
    result = profiled(colour_model(texts=True), scenes=12, tasks="scenes/winoground-text,scenes/winoground-group")
    rows = {row.skill: row for row in result.scores}
    assert {name: row.chance for name, row in rows.items()} == {
        "winoground-text": 0.25,
        "winoground-group": pytest.approx(1 / 6),
    }
    assert all(row.strength <= 0 for row in rows.values())
    assert rows["winoground-text"].blind == 0 and rows["winoground-group"].blind is None


class _Breaks(Encoder):
    """Reads pictures and texts, and fails at a text."""

    card = EncoderCard("breaks", "test", revision="1")
    dimension = 4

    def embed_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        return np.ones((len(images), 4), np.float32)

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        raise EncoderError("breaks: no texts today.", hint="ask tomorrow")


def test_an_empty_cell_of_the_reference_has_its_reason(tmp_path: Path) -> None:
    data = {"mine": pictures(tmp_path / "photos")}
    for reference, reason in (
        (_Breaks(), "breaks: no texts today; ask tomorrow"),
        ("pixels", "pixels reads no texts"),
    ):
        result = profiled(model_of("good", RIGHT_BUT_ONE), data, reference=reference)
        assert [row.reference for row in result.scores] == [None, None]
        assert {row.reference_missing for row in result.scores} == {reason}
        line = f"{result.reference}: no value in 2 tasks (mine/text-to-image, mine/image-to-text): {reason}."
        assert line in profile_table(result).notes
        assert line in page_bytes(profile_report(result).page()).decode()
        assert {entry["reference_missing"] for entry in result.to_dict()["scores"]} == {reason}
        assert set(result.to_pandas()["reference_missing"]) == {reason}
    alone = profiled(model_of("good", RIGHT_BUT_ONE), data)
    assert {row.reference_missing for row in alone.scores} == {""}


def choice_table(folder: Path) -> Path:
    """The foil of each caption has its words backwards, which captions never have."""
    folder.mkdir()
    lines = ["image,caption,foil"]
    for name in NAMES[:3]:
        picture(name, 0, 0).save(folder / f"{name}.png")
        lines.append(f"{name}.png,a picture of something {name},{name} something of picture a")
    (folder / "choices.csv").write_text("\n".join(lines))
    return folder / "choices.csv"


def test_choices_of_ones_own_have_a_blind_floor(tmp_path: Path) -> None:
    captions = tmp_path / "captions.csv"
    colours = [name for name in NAMES[:3] for _ in range(3)]
    captions.write_text(
        "image,caption\n" + "\n".join(f"{n}.png,a picture of something {c}" for n, c in enumerate(colours))
    )
    source = str(choice_table(tmp_path / "mine"))
    (row,) = profiled("colours", source, blind=str(captions)).scores
    assert (row.skill, row.chance, row.blind, row.blind_missing) == ("choice", 0.5, 1.0, "")
    assert row.blind_by == "3-grams of captions"
    page = page_bytes(profile_report(profiled("colours", source, blind=str(captions))).page()).decode()
    assert "blind, by 3-grams of captions" in page
    (row,) = profiled("colours", source, blind=str(tmp_path / "mine")).scores
    assert row.blind is None and row.score == 0  # a bag of colours sees no order; its row is measured all the same
    assert "no captions, of which a language model could be made" in row.blind_missing


def test_a_floor_that_cannot_be_computed_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = profiled("colours", "scenes:12?task=winoground&size=64")
    reasons = {row.skill: row.blind_missing for row in result.scores}
    pictures_too = "a model of texts alone cannot choose among pictures"
    assert reasons == {
        "choice-image-to-text": "no language model is at hand: blind=NAME (--blind NAME), gpt2 or a file of captions",
        "choice-text-to-image": pictures_too,
        "group": pictures_too,
    }
    notes = " ".join(profile_table(result).notes)
    assert "blind" in [column.name for column in profile_table(result).columns]
    assert "blind: no value in 1 task (scenes-winoground/choice-image-to-text): no language model is at hand" in notes
    two = ", ".join(row.name for row in result.scores if row.blind_missing == pictures_too)
    assert f"blind: no value in 2 tasks ({two}): {pictures_too}." in notes
    captions = tmp_path / CAPTIONS
    captions.parent.mkdir()
    with lzma.open(captions, "wt") as stream:
        stream.writelines(f"{n}.jpg#{m}\tThere is a red fish in a pond .\n" for n in range(20) for m in range(5))
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    result = visir.profile("colours", "scenes:12?task=winoground&size=64", scenes=0, reference=None)
    assert result["choice-image-to-text"].blind == 0  # the likelier caption of two is that of both pictures
    assert "Flickr8k" in result["choice-image-to-text"].blind_by


def test_what_tasks_share_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    assembled: list[object] = []

    def counted(name: str) -> LanguageModel:
        opened.append(name)
        return language_model(name)

    def assembling(*arguments: Any, **options: Any) -> Assembly:
        assembled.append(options["tasks"])
        return assemble(*arguments, **options)

    monkeypatch.setattr(profile_call, "language_model", counted)
    monkeypatch.setattr(search_task, "assemble", assembling)
    result = profiled("colours", scenes=12, tasks="scenes/choice,scenes/winoground-text,scenes/winoground-image",
                      reference="bow")  # fmt: skip
    assert {row.blind is None for row in result.scores} == {True, False}
    assert opened == ["scenes:1000?seed=2"]
    assert assembled == [["i2t"], ["i2t", "t2i"]]  # once for each source


def test_a_model_without_texts_is_measured_on_pictures_alone() -> None:
    pytest.importorskip("sklearn")
    result = profiled("pixels", scenes=12, tasks="classification,language", reference="colours")
    assert {row.skill for row in result.scores} == {"probe-subject", "probe-flyers"}
    reasons = {row.reason for row in result.left_out}
    assert reasons == {"pixels reads no texts"}
    assert {row.ability for row in result.left_out} == {"classification", "language"}
    assert all(row.reference is not None for row in result.scores)
    with pytest.raises(VisirError, match="no task could be measured: pixels reads no texts"):
        profiled("pixels", scenes=12, tasks="language")


def test_a_model_without_pictures_chooses_among_texts() -> None:
    result = profiled("bow", scenes=12, tasks="composition", reference="colours")
    assert [row.skill for row in result.scores] == ["paraphrase-text"]
    assert {row.reason for row in result.left_out} == {"bow:4096 reads no images"}


def test_tasks_are_chosen_by_ability_source_and_name() -> None:
    result = profiled("colours", scenes=12, tasks=["scenes/choice", "scenes/de, scenes/typos"])
    assert [row.skill for row in result.scores] and {row.skill for row in result.scores} == {"choice", "de", "typos"}
    with refused(ConfigurationError, "unknown task", "retreival", meant="retrieval") as fault:
        profiled("colours", scenes=12, tasks="retreival,scenes/typo")
    assert "scenes/typos" in str(fault.value) and "robustness" in str(fault.value)
    with refused(ConfigurationError, code="no-task-measure"):
        profiled("colours")


def test_every_generated_task_is_measured_and_each_has_its_own_name() -> None:
    tasks = generated_tasks(12)
    names = [skill.name for task in tasks for skill in task.skills]
    assert len(set(names)) == len(names)
    assert {skill.ability for task in tasks for skill in task.skills} == set(ABILITIES)
    result = profiled("colours", scenes=12)
    unmeasured = {row.skill for row in result.left_out}
    assert unmeasured <= {"probe-subject", "probe-flyers"}  # they need scikit-learn
    assert {row.skill for row in result.scores} | unmeasured == set(names)
    assert all(0 < row.chance < 1 and row.protocol in result.protocols for row in result.scores)


def test_the_same_input_gives_the_same_page() -> None:
    first, second = (profiled("colours", scenes=12, tasks="scenes/choice,scenes/gaussian-noise") for _ in range(2))
    assert first.to_dict() == second.to_dict()
    assert page_bytes(profile_report(first).page()) == page_bytes(profile_report(second).page())


def test_json_has_every_number_and_no_nan(tmp_path: Path) -> None:
    result = profiled(model_of("good", RIGHT_BUT_ONE), {"mine": pictures(tmp_path / "photos")})
    values = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert values["model"] == "good" and values["reference"] is None and values["left_out"] == []
    (row,) = [row for row in values["scores"] if row["skill"] == "text-to-image"]
    assert row["name"] == "mine/text-to-image" and row["strength"] == pytest.approx(2 / 3)
    assert row["difference"] is None and values["protocols"][row["protocol"]]["recall"] == "hit"
    frame = result.to_pandas()
    assert frame["strength"].tolist() == [entry.strength for entry in result.scores]


def test_own_data_is_measured_as_what_it_is(tmp_path: Path) -> None:
    folder = class_folder(tmp_path / "colours", train=2, test=2)
    result = profiled(colour_model(), [str(folder)], tasks=["classification"])
    (row,) = [row for row in result.scores if row.skill == "classes"]
    assert (row.source, row.queries, row.candidates, row.score, row.chance) == ("colours", 6, "3", 1.0, 1 / 3)
    assert row.blind == 1 / 3  # every class is as frequent
    spoken = [("a", "en", "all red"), ("a", "de", "alles red"), ("b", "en", "all blue"), ("b", "de", "alles blue")]
    for name, colour in (("a", "red"), ("b", "blue")):
        picture(colour, 0, 0).save(tmp_path / f"{name}.png")
    table = {"image": [f"{tmp_path}/{name}.png" for name, _, _ in spoken], "caption": [text for _, _, text in spoken],
             "language": [code for _, code, _ in spoken]}  # fmt: skip
    pd = pytest.importorskip("pandas")
    opened = visir.open(pd.DataFrame(table))
    rows = profiled(colour_model(), opened).scores
    if len(opened.languages) == 2:
        assert [(row.skill, row.ability, row.score) for row in rows] == [("de", "language", 1), ("en", "language", 1)]


def test_choices_and_other_tasks_of_ones_own(tmp_path: Path) -> None:
    def skills(source: str) -> list[tuple[str, str, str]]:
        made = tasks_of("mine", visir.open(source))
        return [(skill.name, skill.ability, skill.measure) for task in made for skill in task.skills]

    assert skills("scenes:12?task=choice") == [("choice", "composition", "all_first")]
    assert skills("scenes:12?task=composed") == [("composed", "composition", "hit@1")]
    assert skills("scenes:12?task=winoground") == [
        ("choice-image-to-text", "composition", "item_score"),
        ("choice-text-to-image", "composition", "item_score"),
        ("group", "composition", "group_score"),
    ]
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in NAMES:
        Image.new("RGB", (8, 8)).save(folder / f"{name}.png")
    with refused(CollectionError, code="neither-captions-nor-classes"):
        profiled("colours", str(folder))


def test_sides_of_texts_and_pictures_are_retrieval_and_nothing_is_composed(tmp_path: Path) -> None:
    for colour in ("red", "blue"):
        picture(colour, 0, 5).save(tmp_path / f"{colour}.png")
    task = visir.open(
        {
            "queries": {"q1": "red", "q2": {"image": tmp_path / "blue.png"}},
            "documents": {"d1": {"image": tmp_path / "red.png"}, "d2": "a blue thing"},
            "qrels": {"q1": ["d1"], "q2": ["d2"]},
        }
    )
    own = profiled("colours", task)
    assert [(row.ability, row.score) for row in own.scores] == [("retrieval", 1.0)]
    assert "colours + " not in str(own.protocols) and "sum(0.5)" not in str(own.protocols)
    with pytest.raises(VisirError, match="pixels reads no texts"):
        profiled("pixels", task)


def test_data_at_hand_takes_part_and_what_is_broken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    folder = tmp_path / "mnist"
    folder.mkdir()
    shades = np.repeat(np.array([0, 1, 0, 1], np.uint8), 64) * 255
    for name in ("train", "t10k"):
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb") as stream:
            stream.write(struct.pack(">IIII", 2051, 4, 8, 8) + shades.tobytes())
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb") as stream:
            stream.write(struct.pack(">II", 2049, 4) + bytes([0, 1, 0, 1]))
    valse = next(known for known in DATA_SETS if known.name == "valse")
    (tmp_path / valse.path).mkdir(parents=True)
    (tmp_path / valse.path / "existence.json").write_text("{]")
    (tmp_path / valse.images).parent.mkdir()
    (tmp_path / valse.images).write_bytes(b"")
    result = visir.profile("colours", scenes=0, tasks="mnist,valse")
    assert {row.source for row in result.scores} == {"mnist"}
    (left,) = [row for row in result.left_out if row.source == "valse"]
    assert left.name == "valse/all" and str(tmp_path / valse.path) in left.reason


@pytest.mark.parametrize("known", DATA_SETS, ids=lambda known: known.name)
def test_each_data_set_at_hand_can_be_measured(known: DataAtHand, data_dir: Path) -> None:
    """Its test part has pictures that are there."""
    if not known.is_there(data_dir):
        pytest.skip(f"no {known.name} in {data_dir}")
    opened = known.open(data_dir)
    if known.name.startswith("flickr8k"):
        test = opened.split("test")
        assert len(test.images) == 1000 and len(test.captions) == 5000
        assert visir.encode("pixels", test.sample(5)).vectors.shape[0] == 5


def test_a_wrong_place_of_ones_own_data_is_an_error(tmp_path: Path) -> None:
    with refused(CollectionError, code="no-such-file-folder"):
        profiled("colours", str(tmp_path / "nothing.csv"))


def test_chance_in_a_gallery_is_that_of_many_random_orders() -> None:
    """Documents that are excluded for a query are no candidates of it, right or not."""
    texts = Items.of_texts({name: name for name in "abcdef"}, title="texts")
    judged = Qrels.of(list("aabb"), list("bcde"))
    excluded = Pools.of(list("aab"), list("abb"))
    task = Task("t2t", texts, texts, {"links": judged}, excluded=excluded)
    rng = np.random.default_rng(0)
    hits = []
    for out, right in (({"a", "b"}, {"c"}), ({"b"}, {"d", "e"})):
        candidates = [name for name in "abcdef" if name not in out]
        drawn = [bool({candidates[place] for place in rng.permutation(len(candidates))[:2]} & right)
                 for _ in range(20_000)]  # fmt: skip
        hits.append(np.mean(drawn))
    assert mean_chance({"t2t": task}, "t2t", "hit@2") == pytest.approx(np.mean(hits), abs=0.01)
    assert mean_chance({"t2t": task}, "t2t", "hit@1") == pytest.approx((1 / 4 + 2 / 5) / 2)
    assert np.isnan(mean_chance({"t2t": task}, "t2t", "ndcg@10"))


def test_texts_of_strangers_are_escaped_on_the_page() -> None:
    apart = ScoreDifference(0.1, 0.0, 0.2)
    row = SkillScore(
        "s", "k", HOSTILE, "language", "hit@1", 3, "2", 0.5, 0.1, 0.9, 0.5, 0.4, 0.4, apart, "p", (HOSTILE,)
    )
    result = ModelProfile(HOSTILE, HOSTILE, (row,), (), {"p": (("field", HOSTILE),)})
    page = page_bytes(profile_report(result).page("visir profile x")).decode()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert "blind" in [column.name for column in profile_table(result).columns]
