"""Models as folders for the Hugging Face Hub: every library that the card names reads them, with the same vectors."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import visir
from refusals import refused
from visir.cli.main import app
from visir.errors import ConfigurationError, EncoderError, VisirError
from visir.evaluation import published
from visir.reports.export import export
from visir.storage import FileRecord, FolderError, Manifest

sys.path.append(str(Path(__file__).parents[1] / "encoders"))
import tiny_sentence
import tiny_transformers
from hub_server import Hub, running_hub

SCENES = "scenes:40?size=64"
TEXTS = ["a red circle", "two dogs on a beach", ""]
SMALL = {"optimiser.epochs": 1, "optimiser.batch": 16}


def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(3).integers(0, 256, (50, 40, 3), np.uint8))


def vectors(model: Any) -> list[Any]:
    encoder = visir.load(model, device="cpu")
    made = [encoder.encode_texts(TEXTS)] if "text" in encoder.modalities else []
    made += [encoder.encode_images([picture()])] if "image" in encoder.modalities else []
    return [np.asarray(getattr(each, "vectors", each)) for each in made]


def same(first: Any, second: Any) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(vectors(first), vectors(second), strict=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a CLIP, and models that were trained over it and over nothing."""
    folder = tmp_path_factory.mktemp("export")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISIR_CACHE", str(folder / "cache"))
        tiny_transformers.save("clip", folder / "clip")
        over = SMALL | {f"{side}.encoder": str(folder / "clip") for side in ("image", "text")}
        visir.train("scenes-heads", data=SCENES, out=folder / "heads", set=SMALL)
        visir.train("clip-finetune", data=SCENES, out=folder / "tuned", set=over)
        visir.train("clip-lora", data=SCENES, out=folder / "lora", set=over)
        yield folder


@pytest.fixture(scope="module")
def measured(place: Path) -> visir.Evaluation:
    return visir.evaluate(SCENES, str(place / "heads"), split="test")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", "hf_nobody")
    with running_hub(tmp_path / "hub", monkeypatch) as running:
        yield running


def test_a_checkpoint_with_its_results(place: Path, measured: visir.Evaluation, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard, parse_eval_result_entries
    from yaml import safe_load

    out = tmp_path / "out"
    dataset = {"dataset": ["scenes=me/scenes", "scenes:i2t=me/scenes:pictures"]}
    done = visir.export(place / "heads", measured, out=out, repository="me/heads", licence="mit", reads="en", **dataset)
    assert same(place / "heads", out)
    assert visir.open(out).recipe == visir.open(place / "heads").recipe
    data = ModelCard.load(out / "README.md").data
    assert (data.license, data.language, data.library_name) == ("mit", ["en"], "visir")
    numbers = {(each.task_name, each.metric_name): each for each in data.eval_results}
    for task, words in (("t2i", "text → image"), ("i2t", "image → text")):
        for k in (1, 5, 10):
            shown = numbers[words, f"R@{k}"]
            assert shown.metric_value == pytest.approx(100 * measured[f"{task} R@{k}"], abs=1e-4)
            assert shown.metric_args["low"] <= shown.metric_value <= shown.metric_args["high"]
            assert shown.dataset_args["protocol"] == measured.protocol.fingerprint
    entries = parse_eval_result_entries(safe_load((out / ".eval_results" / "scenes-test.yaml").read_text()))
    found = {(each.dataset_id, each.task_id): each for each in entries}
    assert set(found) == {("me/scenes", "t2i"), ("me/scenes", "pictures")}
    entry = found["me/scenes", "t2i"]
    assert entry.value == pytest.approx(100 * measured["t2i R@1"], abs=1e-4)
    assert measured.protocol.fingerprint[:12] in entry.notes and "95 % interval" in entry.notes
    assert measured.protocol.galleries["t2i"] in entry.notes and "chance" in entry.notes
    whole = json.loads((out / entry.source_url.partition("/main/")[2]).read_text())
    assert whole["aggregates"] == measured.aggregates and whole["protocol_fingerprint"] == measured.protocol.fingerprint
    # The way back: the folder is a table of published values, and its numbers are those of the result.
    row = published.load(out).row()
    assert row.collection == "scenes" and row.values["t2i"]["R@1"] == pytest.approx(100 * measured["t2i R@1"], abs=1e-4)
    explained = visir.explain(measured, out)
    assert str(explained.best.reading) == "the protocol of the result"
    assert explained.best.reproduced == len(explained.best.values) == 8  # three recalls and rsum of each
    alone = published.load(out / ".eval_results" / "scenes-test.yaml").row(collection="me/scenes").values
    assert alone == {"t2i": {"R@1": entry.value}, "pictures": {"R@1": found["me/scenes", "pictures"].value}}
    [known] = visir.models(str(out))
    assert known.dimension == visir.load(out).dimension
    texts = [path.read_text() for path in out.rglob("*") if path.suffix in (".json", ".toml", ".md", ".yaml")]
    assert len(texts) >= 6 and not any(str(place) in text for text in texts)  # no path of this machine
    assert not any((out / name).exists() for name in ("steps.jsonl", "training.html"))
    assert any("steps.jsonl" in note for note in done.notes)


def test_the_card_is_edited_and_the_model_still_loads(place: Path, tmp_path: Path) -> None:
    visir.export(place / "heads", out=tmp_path / "out")
    page = tmp_path / "out" / "README.md"
    page.write_text(page.read_text() + "\nMore of it.\n")
    (tmp_path / "out" / ".gitattributes").write_text("*.safetensors filter=lfs\n")  # the Hub's own
    assert same(place / "heads", tmp_path / "out")


def test_numbers_of_what_it_was_trained_on_are_called_so(place: Path, tmp_path: Path) -> None:
    whole = visir.evaluate(SCENES, str(place / "heads"))
    card = export(place / "heads", whole, out=tmp_path / "all").card
    test = export(
        place / "heads", visir.evaluate(SCENES, str(place / "heads"), split="test"), out=tmp_path / "test"
    ).card
    assert "trained on a part of this split" in card and "trained on a part of this split" not in test


def test_results_of_another_system_are_doubted(place: Path, measured: visir.Evaluation, tmp_path: Path) -> None:
    assert any("is that this model" in note for note in export(place / "tuned", measured, out=tmp_path / "a").notes)
    assert not any("is that this model" in note for note in export(place / "heads", measured, out=tmp_path / "b").notes)


def test_a_tuned_clip_is_a_clip_of_transformers(place: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoProcessor

    out = tmp_path / "out"
    done = export(place / "tuned", out=out, base="openai/clip-vit-base-patch32")
    assert same(place / "tuned", out) and not same(place / "clip", out)
    assert "library_name: transformers" in done.card and "- openai/clip-vit-base-patch32" in done.card
    model, processor = AutoModel.from_pretrained(out).eval(), AutoProcessor.from_pretrained(out)
    assert type(model).__name__ == "CLIPModel"
    with torch.inference_mode():
        texts = processor(text=TEXTS, return_tensors="pt", padding=True)
        features = model.get_text_features(**texts)
        features = getattr(features, "pooler_output", features).numpy()
    assert np.allclose(features, vectors(out)[0], atol=1e-5)
    temperature = json.loads((place / "tuned" / "visir.json").read_text())["content"]["facts"]["objective"][
        "temperature"
    ]
    assert float(model.logit_scale.detach().exp()) == pytest.approx(1 / temperature, rel=1e-5)
    assert str(place) not in (out / "recipe.toml").read_text()


def test_it_can_stay_as_visir_wrote_it(place: Path, tmp_path: Path) -> None:
    export(place / "tuned", out=tmp_path / "out", framework="visir")
    assert Manifest.read(tmp_path / "out").kind == "towers" and same(place / "tuned", tmp_path / "out")
    with refused(ConfigurationError, code="not-of-transformers"):
        export(place / "heads", out=tmp_path / "other", framework="transformers")
    assert not (tmp_path / "other").exists()


def test_adapters_need_the_name_of_their_base(place: Path, hub: Hub, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModel

    with refused(ConfigurationError, code="base-on-this-machine"):
        export(place / "lora", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    hub.repositories["me/clip"] = place / "clip"
    done = export(place / "lora", out=tmp_path / "out", base="me/clip")
    assert same(place / "lora", tmp_path / "out")  # over the base of that name
    texts = (
        path.read_text(errors="replace")
        for path in (tmp_path / "out").rglob("*")
        if path.suffix in (".json", ".toml", ".md")
    )
    assert not any(str(place) in text for text in texts)
    assert 'subfolder="adapter"' in done.card and "base_model_relation: adapter" in done.card
    model = PeftModel.from_pretrained(AutoModel.from_pretrained("me/clip"), str(tmp_path / "out"), subfolder="adapter")
    assert model.peft_config["default"].base_model_name_or_path == "me/clip"
    export(place / "lora" / "adapter", out=tmp_path / "peft", base="me/clip")
    assert same(place / "lora" / "adapter", tmp_path / "peft")


def test_what_it_is_built_over_is_taken_along(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    heads = Path(shutil.copytree(place / "heads", tmp_path / "heads"))
    visir.sparsify(model=str(heads), data=SCENES, out=tmp_path / "sparse", set={"optimiser.epochs": 1})
    expected = vectors(tmp_path / "sparse")
    done = export(tmp_path / "sparse", out=tmp_path / "out")
    shutil.rmtree(heads)
    assert all(np.array_equal(one, other) for one, other in zip(expected, vectors(tmp_path / "out"), strict=True))
    assert any("taken along" in note for note in done.notes) and "weighted words" in done.card
    (tmp_path / "out" / "base" / "towers.safetensors").write_bytes(b"")
    with refused(EncoderError, code="checkpoint-damaged"):
        visir.load(tmp_path / "out")


def test_folders_of_other_libraries(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = tiny_sentence.save(tmp_path / "st")
    (folder / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: de\nbase_model: bert/base\n---\n\n# Old\n")
    (folder / "evil.py").write_text("raise SystemExit")
    (folder / "training_args.bin").write_bytes(b"pickle")
    done = export(folder, out=tmp_path / "out")
    assert same(folder, tmp_path / "out")
    head = done.card.partition("\n---\n")[0]
    assert all(
        part in head for part in ("license: apache-2.0", "- de", "- bert/base", "library_name: sentence-transformers")
    )
    assert not list((tmp_path / "out").rglob("*.py")) and not list((tmp_path / "out").rglob("*.bin"))
    assert any("evil.py" in note for note in done.notes)
    vector = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS[:2])
    assert np.allclose(vector, vectors(tmp_path / "out")[0][:2], atol=1e-6)


def test_pickles_are_not_published(tmp_path: Path) -> None:
    folder = tmp_path / "clip"
    model = tiny_transformers.save("clip", folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with refused(ConfigurationError, code="no-safetensors"):
        export(folder, out=tmp_path / "out")


def test_from_export_to_upload_to_a_model_by_name(
    place: Path, measured: visir.Evaluation, hub: Hub, tmp_path: Path
) -> None:
    done = export(place / "heads", measured, out=tmp_path / "out", repository="me/heads", dataset="scenes=me/scenes")
    assert not hub.made and not hub.repositories  # nothing leaves before somebody says so
    address = done.upload()
    assert "me/heads" in address and hub.made == {"me/heads": "private"}
    assert ".eval_results/scenes-test.yaml" in hub.files("me/heads")
    assert same(place / "heads", "me/heads")
    assert visir.load("me/heads").card.name == "me/heads"


def test_results_for_a_model_of_others_become_a_pull_request(
    measured: visir.Evaluation, hub: Hub, tmp_path: Path
) -> None:
    done = export("someone/clip", measured, out=tmp_path / "out", dataset="scenes=me/scenes")
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.*") if path.is_file()) == [
        "scenes-test.json",
        "scenes-test.yaml",
    ]
    assert "--create-pr" in done.command and done.card == ""
    assert done.upload().endswith("/someone/clip/discussions/1")
    assert len(hub.pull_requests) == 1 and not hub.made and "someone/clip" not in hub.repositories
    assert (hub.uploads / "someone" / "clip" / ".eval_results" / "scenes-test.yaml").is_file()
    with refused(ConfigurationError, code="nothing-to-export"):
        export("someone/clip", measured, out=tmp_path / "other")


def test_no_upload_without_a_token(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    done = export(place / "heads", out=tmp_path / "out")
    with refused(ConfigurationError, code="not-uploaded") as caught:
        done.upload()
    assert "OWNER/NAME" in caught.value.message and "token" in caught.value.message


@pytest.mark.parametrize(
    "wrong",
    [
        {"licence": "The MIT"},
        {"reads": "english"},
        {"repository": "mine"},
        {"dataset": "scenes"},
        {"trained_on": "mine"},
    ],
)
def test_wrong_options_at_the_door(place: Path, tmp_path: Path, wrong: dict[str, str]) -> None:
    with refused(ConfigurationError, code="export-options"):
        export(place / "heads", out=tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_nothing_is_replaced(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    with refused(FolderError):
        export(place / "heads", out=tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    export(place / "heads", out=tmp_path / "out")
    with refused(VisirError):
        export(place / "heads", out=tmp_path / "out")


def test_the_verb(place: Path, measured: visir.Evaluation, tmp_path: Path) -> None:
    measured.save(tmp_path / "result")
    arguments = ["export", str(place / "heads"), str(tmp_path / "result"), "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, [*arguments, "--dataset", "scenes=me/scenes"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["command"].startswith("hf upload OWNER/NAME") and said["folder"] == str(tmp_path / "out")
    assert (tmp_path / "out" / ".eval_results" / "scenes-test.yaml").is_file()


def _strange(place: Path, folder: Path) -> Path:
    """A CLIP of strangers: places of a machine, and code, in its settings."""
    shutil.copytree(place / "clip", folder)
    for name, changes in (
        ("config.json", {"_name_or_path": "/home/alice/private/clip", "auto_map": {"AutoModel": "evil/code--m.Model"}}),
        ("tokenizer_config.json", {"name_or_path": "/home/alice/private/clip"}),
    ):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | changes))
    return folder


def test_settings_of_strangers_name_no_place_and_their_code_is_told(place: Path, tmp_path: Path) -> None:
    done = export(_strange(place, tmp_path / "theirs"), out=tmp_path / "out")
    assert same(place / "clip", tmp_path / "out")
    assert not any(b"alice" in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert any("config.json names code that is not in the folder: evil/code--m.Model" in note for note in done.notes)


def test_links_that_lead_out_of_a_model_are_not_published(place: Path, tmp_path: Path) -> None:
    theirs = _strange(place, tmp_path / "theirs")
    (tmp_path / "secret").write_text("PRIVATE")
    (theirs / "notes.txt").symlink_to(tmp_path / "secret")
    with refused(ConfigurationError, "notes.txt", code="links-not-published"):
        export(theirs, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    cached = tmp_path / "models--a--b" / "snapshots" / "0"
    cached.mkdir(parents=True)
    shutil.copytree(place / "clip", tmp_path / "models--a--b" / "blobs")
    for path in (place / "clip").iterdir():
        (cached / path.name).symlink_to(Path("../../blobs", path.name))  # as the Hub's cache has its files
    export(cached, out=tmp_path / "out")
    assert same(place / "clip", tmp_path / "out") and not any(
        path.is_symlink() for path in (tmp_path / "out").iterdir()
    )


@pytest.mark.parametrize(
    "head",
    ["language: [no, en]", "datasets: 5", "base_model: 'x](http://evil)<img src=x>'", "base_model: [1, {a: b}]",
     "language: ['<b>evil', en]", "license: |\n  evil\n  # b", "license: {a: evil}", "a: [", "language: &a [*a]"],
)  # fmt: skip
def test_the_head_of_a_card_of_strangers_is_taken_over_where_it_has_its_form(
    head: str, place: Path, tmp_path: Path
) -> None:
    theirs = _strange(place, tmp_path / "theirs")
    (theirs / "README.md").write_text(f"---\n{head}\n---\nA model.\n")
    card = export(theirs, out=tmp_path / "out").card
    assert "evil" not in card and ("- en\n" in card) == ("en]" in head)


def test_a_checkpoint_of_strangers_brings_no_code_and_writes_no_card(place: Path, tmp_path: Path) -> None:
    theirs = shutil.copytree(place / "heads", tmp_path / "theirs")
    for name in ("evil.py", "weights.pkl", "inside/weights.bin"):
        (theirs / name).parent.mkdir(exist_ok=True)
        (theirs / name).write_bytes(b"evil")
    manifest = Manifest.read(theirs)
    content = json.loads(json.dumps(manifest.content))
    content["facts"]["recipe"]["name"] = "`<img src=x>\n# Owned"
    content["facts"]["recipe"]["data"]["collection"] = "a\n\n# Owned </details>[x](javascript:1)"
    records = {name: FileRecord.of(theirs / name) for name in ("evil.py", "weights.pkl", "inside/weights.bin")}
    (theirs / "visir.json").write_bytes(replace(manifest, content=content, files=manifest.files | records).to_bytes())
    done = export(theirs, out=tmp_path / "out")
    assert not any(b"evil" in path.read_bytes() for path in (tmp_path / "out").rglob("*.p*") if path.is_file())
    assert not (tmp_path / "out" / "inside").exists() and any("evil.py" in note for note in done.notes)
    lines = done.card.splitlines()
    assert not any(line.startswith("# Owned") for line in lines)
    assert not any("](javascript" in line.replace("\\]", "") for line in lines)
    assert same(theirs, tmp_path / "out")
