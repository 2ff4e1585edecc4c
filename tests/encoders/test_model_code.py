"""Code of other repositories that a model runs: which commit runs, what the card says, and what the store keeps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_sentence
import tiny_transformers as tiny
from hub_server import COMMIT, Hub, running_hub

import visir
from refusals import refused
from visir.encoders.checkpoints import save_part
from visir.encoders.loading import load
from visir.encoders.models.hub import trusted_code
from visir.encoders.models.own_code import other_repositories
from visir.errors import EncoderError
from visir.records import EncoderCard

FIRST, SECOND, THIRD = "1" * 40, "2" * 40, "3" * 40
CLIP_CODE = """
from transformers import CLIPConfig, CLIPModel

from .shift import SHIFT


class X9Config(CLIPConfig):
    model_type = "x9"


class X9(CLIPModel):
    config_class = X9Config

    def get_text_features(self, *args, **kwargs):
        output = super().get_text_features(*args, **kwargs)
        output.pooler_output = output.pooler_output.roll(SHIFT, -1)
        return output
"""
BERT_CODE = """
from transformers import BertConfig, BertModel


class X8Config(BertConfig):
    model_type = "x8"


class X8(BertModel):
    config_class = X8Config

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.last_hidden_state = output.last_hidden_state.roll(SHIFT, -1)
        return output
"""
TOKENIZER_CODE = """
from transformers import BertTokenizer


class Upper(BertTokenizer):
    pass
"""


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    tiny.save("clip", folder)
    return folder


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_sentence.save(tmp_path_factory.mktemp("sentences") / "model")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "visir"))
    with running_hub(tmp_path / "cache", monkeypatch) as running:
        yield running


def mapped(model: Path, folder: Path, file: str = "config.json", **values: Any) -> Path:
    """A copy of a model, with other values in one of its configurations."""
    if not folder.is_dir():
        shutil.copytree(model, folder)
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return folder


def code_repository(hub: Hub, folder: Path, commit: str, name: str = "others/code", **files: str) -> None:
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / f"{file}.py").write_text(content)
    (folder / "model.safetensors").write_bytes(b"of another model, and not wanted")
    hub.commit(name, folder, commit)


def foreign_clip(hub: Hub, clip: Path, folder: Path, code: str = "others/code--") -> None:
    auto_map = {"AutoModel": f"{code}modeling_x9.X9", "AutoConfig": f"{code}modeling_x9.X9Config"}
    hub.repositories["someone/clip"] = mapped(clip, folder, model_type="x9", auto_map=auto_map)


def test_a_new_commit_of_the_code_gives_new_vectors(hub: Hub, clip: Path, tmp_path: Path) -> None:
    foreign_clip(hub, clip, tmp_path / "clip")
    code_repository(hub, tmp_path / "1", FIRST, modeling_x9=CLIP_CODE, shift="SHIFT = 0\n")
    plain = load(clip, device="cpu").encode_texts(["a dog"])
    encoder = load("someone/clip?code=trusted", device="cpu")
    assert encoder.card.code_revisions == {"others/code": FIRST} and encoder.card.revision == COMMIT
    assert f"others/code {FIRST}" in repr(encoder.card)
    np.testing.assert_array_equal(visir.encode(encoder, ["a dog"]).vectors, plain)  # the store has them now

    code_repository(hub, tmp_path / "2", SECOND, modeling_x9=CLIP_CODE, shift="SHIFT = 1\n")
    later = load("someone/clip?code=trusted", device="cpu")
    assert later.card.code_revisions == {"others/code": SECOND}
    assert later.card.weights != encoder.card.weights and later.card.fingerprint != encoder.card.fingerprint
    np.testing.assert_array_equal(visir.encode(later, ["a dog"]).vectors, np.roll(plain, 1, axis=-1))

    again = load(f"someone/clip?code=trusted&code_revision={FIRST}", device="cpu")
    assert again.card.code_revisions == {"others/code": FIRST} and again.card.is_same_model(encoder.card)
    np.testing.assert_array_equal(visir.encode(again, ["a dog"]).vectors, plain)

    # A checkpoint over it stays with the code that it was trained over.
    assert save_part(encoder, tmp_path, "base")["name"] == f"{encoder.card.name}&code_revision=others/code@{FIRST}"
    assert save_part(again, tmp_path, "base")["name"] == again.card.name


def test_without_a_network_the_code_comes_from_the_cache(
    hub: Hub, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    foreign_clip(hub, clip, tmp_path / "clip")
    code_repository(hub, tmp_path / "1", FIRST, modeling_x9=CLIP_CODE, shift="SHIFT = 0\n")
    online = load("someone/clip?code=trusted", device="cpu")
    assert "model.safetensors" in hub.downloads and hub.downloads.count("model.safetensors") == 1  # not the code's
    code_repository(hub, tmp_path / "2", SECOND, modeling_x9=CLIP_CODE, shift="SHIFT = 1\n")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    offline = load("someone/clip?code=trusted", device="cpu")
    assert offline.card == online.card
    shutil.rmtree(tmp_path / "cache" / "models--others--code")
    with refused(EncoderError, "someone/clip", code="runs-code-another-repository"):
        load("someone/clip?code=trusted", device="cpu")


def test_code_that_is_not_to_be_had_is_known_before_the_weights(hub: Hub, clip: Path, tmp_path: Path) -> None:
    foreign_clip(hub, clip, tmp_path / "clip")
    with refused(EncoderError, code="model-needs-python-code") as caught:
        load("someone/clip", device="cpu")
    assert "and in others/code, which it names" in caught.value.hint and "code_revision" in caught.value.hint
    with pytest.raises(EncoderError, match=r"could not be had: others/code: .*no such model on the hub"):
        load("someone/clip?code=trusted", device="cpu")
    code_repository(hub, tmp_path / "1", FIRST, modeling_x9=CLIP_CODE, shift="SHIFT = 0\n")
    with pytest.raises(EncoderError, match=f"others/code: the hub has no revision '{THIRD}' of it"):
        load(f"someone/clip?code=trusted&code_revision={THIRD}", device="cpu")
    assert "model.safetensors" not in hub.downloads
    with refused(EncoderError, "others/coda", code="code-revision") as caught:
        load("someone/clip?code=trusted&code_revision=others/coda@1", device="cpu")
    assert caught.value.hint == "its code lies in others/code"
    with refused(EncoderError, code="encoder-code-revision"):
        load(f"{clip}?code=trusted&code_revision=1", device="cpu")


def test_a_model_that_names_its_own_repository_runs_the_code_of_its_revision(
    hub: Hub, clip: Path, tmp_path: Path
) -> None:
    """As `push_to_hub` writes it; transformers, given a folder, would take the newest code."""
    foreign_clip(hub, clip, tmp_path / "1", code="someone/clip--")
    old = hub.repositories["someone/clip"]
    for folder, shift in ((old, 0), (Path(shutil.copytree(old, tmp_path / "2")), 1)):
        (folder / "modeling_x9.py").write_text(CLIP_CODE)
        (folder / "shift.py").write_text(f"SHIFT = {shift}\n")
    hub.commit("someone/clip", tmp_path / "2", SECOND)
    plain = load(clip, device="cpu").encode_texts(["a dog"])
    newest = load("someone/clip?code=trusted", device="cpu")
    np.testing.assert_array_equal(newest.encode_texts(["a dog"]), np.roll(plain, 1, axis=-1))
    first = load("someone/clip?code=trusted", device="cpu", revision=COMMIT)
    np.testing.assert_array_equal(first.encode_texts(["a dog"]), plain)
    assert first.card.code_revisions == {} and (first.card.revision, newest.card.revision) == (COMMIT, SECOND)


def test_several_repositories_through_sentence_transformers(hub: Hub, sentences: Path, tmp_path: Path) -> None:
    """Model, configuration and tokenizer from three places, each at a commit of its own."""
    folder = mapped(
        sentences,
        tmp_path / "model",
        model_type="x8",
        auto_map={"AutoModel": "others/model--modeling_x8.X8", "AutoConfig": "others/config--modeling_x8.X8Config"},
    )
    words = {"auto_map": {"AutoTokenizer": [None, "others/words--upper.Upper"]}, "tokenizer_class": "Upper"}
    mapped(sentences, folder, "tokenizer_config.json", **words)
    hub.repositories["someone/sentences"] = folder
    code_repository(hub, tmp_path / "c", FIRST, "others/config", modeling_x8="SHIFT = 0\n" + BERT_CODE)
    code_repository(hub, tmp_path / "m", SECOND, "others/model", modeling_x8="SHIFT = 0\n" + BERT_CODE)
    code_repository(hub, tmp_path / "w", THIRD, "others/words", upper=TOKENIZER_CODE)
    name = "st:someone/sentences?code=trusted"
    with refused(EncoderError, "lies in others/config and others/model and others/words"):
        load(f"{name}&code_revision={FIRST}", device="cpu")
    encoder = load(name, device="cpu")
    commits = {"others/config": FIRST, "others/model": SECOND, "others/words": THIRD}
    assert encoder.card.code_revisions == commits
    plain = load(f"st:{sentences}", device="cpu").encode_texts(["a dog"])
    np.testing.assert_array_equal(encoder.encode_texts(["a dog"]), plain)
    pinned = load(f"{name}&code_revision=others/model@{SECOND},others/words@{THIRD}", device="cpu")
    assert pinned.card.code_revisions == commits

    # Transformers remembers X8 for the configuration, whose code did not change.
    code_repository(hub, tmp_path / "m2", "4" * 40, "others/model", modeling_x8="SHIFT = 1\n" + BERT_CODE)
    with refused(EncoderError, "modeling_x8.py", code="code-changed-python-still") as caught:
        load(name, device="cpu")
    assert caught.value.hint == "start Python again, then load the model"


def test_edited_code_in_a_folder_is_another_model(clip: Path, sentences: Path, tmp_path: Path) -> None:
    auto_map = {"AutoModel": "modeling_x9.X9", "AutoConfig": "modeling_x9.X9Config"}
    folder = mapped(clip, tmp_path / "clip", model_type="x9", auto_map=auto_map)
    (folder / "modeling_x9.py").write_text(CLIP_CODE)
    (folder / "shift.py").write_text("SHIFT = 0\n")
    before = load(f"{folder}?code=trusted", device="cpu")
    (folder / "shift.py").write_text("SHIFT = 1\n")
    after = load(f"{folder}?code=trusted", device="cpu")
    assert before.card.weights != after.card.weights and before.card.code_revisions == {}
    vectors = before.encode_texts(["a dog"])
    np.testing.assert_array_equal(after.encode_texts(["a dog"]), np.roll(vectors, 1, axis=-1))

    auto_map = {"AutoModel": "modeling_x8.X8", "AutoConfig": "config_x8.X8Config"}
    folder = mapped(sentences, tmp_path / "sentences", model_type="x8", auto_map=auto_map)
    (folder / "config_x8.py").write_text(BERT_CODE.partition("class X8(")[0])
    (folder / "modeling_x8.py").write_text("SHIFT = 0\n" + BERT_CODE)
    load(f"st:{folder}?code=trusted", device="cpu")
    assert load(f"st:{folder}?code=trusted", device="cpu").encode_texts(["a dog"]).shape == (1, 32)
    (folder / "modeling_x8.py").write_text("SHIFT = 1\n" + BERT_CODE)
    with refused(EncoderError, "modeling_x8.py", code="code-changed-python-still"):
        load(f"st:{folder}?code=trusted", device="cpu")


def test_where_configurations_name_code(tmp_path: Path) -> None:
    files = {
        "config.json": {
            "auto_map": {"AutoModel": "a/model--m.X"},
            "text_config": {"auto_map": {"AutoConfig": "t/c--m.C"}},
        },
        "processor_config.json": {"image_processor": {"auto_map": {"AutoImageProcessor": {"pil": "p/i--m.P"}}}},
        "tokenizer_config.json": {"auto_map": ["w/old--m.T", None], "name": "not--this"},
        "modules.json": [{"type": "s/t--own.Transformer", "path": ""}],
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert other_repositories([tmp_path]) == ["a/model", "p/i", "s/t", "t/c", "w/old"]


def test_revisions_of_code_in_names() -> None:
    for value, expected in (
        ("abc", {"": "abc"}),
        ("a/b@1,c/d@2", {"a/b": "1", "c/d": "2"}),
    ):
        trusted = trusted_code("m", {"code": "trusted", "code_revision": value})
        assert trusted is not None and trusted.revisions == expected
    for value in ("a/b@", "@1", "b@1", "1,2", "a/b@1,2", "a/b@1,a/b@2"):
        with refused(EncoderError, code="code-revision-cannot-read") as caught:
            trusted_code("m", {"code": "trusted", "code_revision": value})
        assert "OWNER/NAME@COMMIT" in caught.value.hint
    with refused(EncoderError, code="code-revision-names-code"):
        trusted_code("m", {"code_revision": "1"})
    card = EncoderCard("m", "f", code_revisions={"a/b": "1"})
    assert EncoderCard.from_dict(card.to_dict()) == card
    assert "code_revisions" not in EncoderCard("m", "f").to_dict()
