"""`visir products train`: what is printed, what is written, how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from manifests import content_of, rewrite
from refusals import refused
from verbs import say
from visir.encoders.devices import CodeNotTrustedError
from visir.products.cli.train import train
from visir.products.model import load_categories_model
from visir.products.text_search import search

WITHOUT_WEIGHTS = ("--image-model", "pixels", "--text-model", "bow:64", "--option", "size=64")
SMALL = ("--set", "optimiser.epochs=2", "--set", "category.head.hidden=[16]", "--set", "product.head.hidden=[16]")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


def test_trains_and_tells_split_epochs_and_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = say(
        train, "generated:60", "--recipe", "clip-ia-specific", *WITHOUT_WEIGHTS, *SMALL, "--fold", 2, "--out", out
    )
    assert said.status == 0, said.text
    lines = said.text.splitlines()
    assert lines[0].startswith("generated: fold 2 of 5, seed 0; ")
    assert [line.split()[0] for line in lines if line.strip()[:1].isdigit()] == ["1/2", "2/2"]
    assert "products/s" in said.text
    assert lines[-1] == f"model: {out}"
    model = load_categories_model(out)
    assert model.modalities == ("image", "attributes")
    assert model.facts["recipe"]["setting"] == "specific"
    assert model.embed_texts(["Wooden dogs"]).shape == (1, 512)
    again = say(train, "generated:60", *WITHOUT_WEIGHTS, *SMALL, "--out", out)
    assert again.status == 2
    assert "holds a finished checkpoint" in again.text


def test_a_category_model_from_elsewhere_lets_no_code_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert say(train, "generated:60", *WITHOUT_WEIGHTS, *SMALL, "--out", out).status == 0
    content = content_of(out)
    rewrite(
        out, content | {"cards": {part: card | {"name": "m?code=trusted"} for part, card in content["cards"].items()}}
    )
    model = load_categories_model(out)
    with refused(CodeNotTrustedError, out, "m?code=trusted", code="names-model-runs-code"):
        model.embed_texts(["dogs"])
    with refused(CodeNotTrustedError, out, "m?code=trusted", code="names-model-runs-code"):
        search("generated:60", "dogs", out)


def test_a_dry_run_prints_the_recipe_and_writes_nothing(tmp_path: Path) -> None:
    said = say(train, "generated:60", "--recipe", "clip-i-general", "--dry-run", "--out", tmp_path / "out")
    assert "batch = 8" in said.text
    assert f"would write: {tmp_path / 'out'}" in said.text
    assert not (tmp_path / "out").exists()


def test_a_dry_run_looks_for_the_pictures(tmp_path: Path) -> None:
    rows = [
        {"id": f"p{row}", "title": "a cup", "category_path": ["Shop", "Cups"], "image": f"{row}.png"}
        for row in range(41)
    ]
    for row in range(40):
        Image.new("RGB", (16, 16)).save(tmp_path / f"{row}.png")
    (tmp_path / "3.png").write_bytes(b"")
    (tmp_path / "shop.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = (tmp_path / "shop.jsonl", *WITHOUT_WEIGHTS[:4], "--recipe", "clip-i-general", "--dry-run")
    caught = say(train, *arguments)
    assert caught.status == 2 and "shop: 1 of 40 pictures cannot be read: image 'p3'" in caught.text
    assert "would write" in say(train, *arguments, "--skip-broken").text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "which catalogue?"),
        (("generated:60", "--recipe", "clip-itb"), "did you mean 'clip-ita'?"),
        (("generated:60", "--fold", "6"), "fold 6: there are 5"),
        (
            ("generated:60", "--set", "product.modalities=['imag']"),
            "'imag' is none of its values: did you mean 'image'?",
        ),
        (("generated:60", "--set", "product.modalities=['image', 'image']"), "each modality once"),
        (("generated:60", "--set", "objective.targets=all"), "known: multi-positive, pairs"),
    ],
)
def test_faults_are_told(arguments: tuple[str, ...], told: str) -> None:
    said = say(train, *arguments)
    assert said.status == 2
    assert told in said.text


def test_the_list_names_every_recipe() -> None:
    assert "clip-ita-general" in say(train, "--list").text
