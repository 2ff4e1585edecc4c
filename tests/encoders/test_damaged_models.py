"""Folders of models with a file missing, damaged, or of somebody who wants his code to run."""

from __future__ import annotations

import builtins
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
import tiny_late
import tiny_multi_vector
import tiny_sentence

import visir
from refusals import refused
from visir.encoders.loading import load
from visir.encoders.models.hub import complete_weights
from visir.errors import EncoderError, VisirError

MODELS = {
    "st": tiny_sentence.save,
    "routed": tiny_sentence.save_routed,
    "colbert": tiny_multi_vector.save_text,
    "colpali": lambda folder: tiny_late.save("colpali", folder),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {name: tmp_path_factory.mktemp(name) / name for name in MODELS}
    for name, save in MODELS.items():
        save(folders[name])
    return folders


@pytest.mark.parametrize("name", MODELS)
def test_a_model_without_its_tokenizer_is_refused(saved: dict[str, Path], tmp_path: Path, name: str) -> None:
    """transformers makes one of a few tokens instead: every text would have nearly the same vector."""
    copy = Path(shutil.copytree(saved[name], tmp_path / "copy"))
    sorted(copy.rglob("tokenizer.json"))[0].unlink()
    with pytest.raises(EncoderError):
        load(copy, device="cpu")
    if name != "colpali":
        with refused(EncoderError, code="no-tokenizer-folder-none"):
            load(copy, device="cpu")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("content", ["[]", '"x"', '["a"]', "5"])
def test_a_configuration_that_is_none(saved: dict[str, Path], tmp_path: Path, name: str, content: str) -> None:
    for file in ("config.json", "modules.json", "config_sentence_transformers.json"):
        copy = Path(shutil.copytree(saved[name], tmp_path / file))
        if (copy / file).is_file():
            (copy / file).write_text(content)
            if (file, content) != ("modules.json", "[]"):
                with pytest.raises(EncoderError, match=r"no configuration of a model|no list of modules") as caught:
                    load(copy, device="cpu")
                assert file in caught.value.message and caught.value.hint


def test_nobody_is_asked_on_the_terminal_whether_code_may_run(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code runs with ?code=trusted; transformers would ask "[y/N]" in the middle of a program."""
    copy = Path(shutil.copytree(saved["colpali"], tmp_path / "copy"))
    monkeypatch.setattr(builtins, "input", lambda *_: pytest.fail("asked"))
    ran = tmp_path / "ran"
    (copy / "own.py").write_text(f"open({str(ran)!r}, 'w')\nclass C: pass\n")
    for file in ("config.json", "processor_config.json", "tokenizer_config.json"):
        if (copy / file).is_file():
            config = json.loads((copy / file).read_text())
            config["auto_map"] = {"AutoConfig": "own.C", "AutoProcessor": "own.C", "AutoTokenizer": ["own.C", "own.C"]}
            config |= {"model_type": "x9"} if file == "config.json" else {"processor_class": "X9"}
            (copy / file).write_text(json.dumps(config))
    try:
        load(copy, device="cpu")
    except EncoderError as fault:
        print(fault)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("config", "modules"),
    [
        ({"model_type": 5, "architectures": 7}, [5]),
        ({"model_type": 5, "architectures": 7}, None),
        ({"architectures": [None, {"a": 1}]}, None),
        ({"model_type": ["clip"]}, None),
        ({"types": 5}, [{}]),
        ("[" * 100_000, None),
        ({}, "[" * 100_000),
    ],
)
def test_configurations_of_other_types_are_refused(config: object, modules: object, tmp_path: Path) -> None:
    for name, content in (("config.json", config), ("modules.json", modules)):
        if content is not None:
            (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    for name in (str(tmp_path), f"st:{tmp_path}"):
        with refused(VisirError, tmp_path):
            load(name, device="cpu")
        with refused(VisirError, tmp_path):
            visir.load_cross_encoder(name, device="cpu")
    with suppress(VisirError):  # what of it can be read is shown
        visir.models(tmp_path)


@pytest.mark.parametrize("name", ["*" * 5000, "x" * 5000, "owner/" + "x" * 5000])
def test_a_name_that_no_file_can_have_is_unknown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with refused(EncoderError, code="no-model-list"):
        visir.models(name)
    with pytest.raises(EncoderError):
        load(name)


@pytest.mark.parametrize("name", ["st", "routed", "colbert"])
def test_weights_that_a_sentence_model_lacks_are_not_made_up(saved: dict[str, Path], tmp_path: Path, name: str) -> None:
    """A pooler is not missed, because nothing reads it; any other weight is."""
    copy = Path(shutil.copytree(saved[name], tmp_path / "copy"))
    _leave_out(copy, "pooler.")
    visir.load(str(copy), device="cpu")
    _leave_out(copy, "layer.1.")
    with refused(EncoderError, "layer.1.", code="weights-not-checkpoint"):
        visir.load(str(copy), device="cpu")


@pytest.mark.parametrize("left_out", ["pooler.", "classifier.", "layer.1."])
@pytest.mark.parametrize("old", [False, True])
def test_weights_that_a_re_ranker_lacks_are_not_made_up(tmp_path: Path, left_out: str, old: bool) -> None:
    """Its classifier reads the pooler: with a random one, every load would give other scores."""
    folder = tiny_sentence.save_re_ranker(tmp_path / "ranker", old=old)
    visir.load_cross_encoder(str(folder), device="cpu")
    _leave_out(folder, left_out)
    with refused(EncoderError, left_out, code="weights-not-checkpoint"):
        visir.load_cross_encoder(str(folder), device="cpu")


def _leave_out(folder: Path, part: str) -> None:
    from safetensors.torch import load_file, save_file

    for file in folder.rglob("model.safetensors"):
        state = load_file(file)
        rest = {name: value for name, value in state.items() if part not in name}
        if len(rest) < len(state):
            save_file(rest, file, {"format": "pt"})


def test_two_threads_that_check_weights_leave_transformers_as_it_was() -> None:
    """The second begins while the first one's check is in place, and must not take that for the library's own."""
    from transformers import PreTrainedModel

    own = PreTrainedModel.from_pretrained.__func__
    waiting = Thread(target=_check_nothing)
    with complete_weights("first", lambda _: ()):
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()  # it waits for this one to end
    waiting.join()
    try:
        assert PreTrainedModel.from_pretrained.__func__ is own
    finally:
        PreTrainedModel.from_pretrained = classmethod(own)


def _check_nothing() -> None:
    with complete_weights("second", lambda _: ()):
        pass


def test_what_another_thread_loads_meanwhile_is_not_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import AutoModel

    copy = Path(shutil.copytree(saved["st"], tmp_path / "copy"))
    [file] = copy.rglob("model.safetensors")
    state = {name: value for name, value in load_file(file).items() if "layer.1." not in name}
    save_file(state, file, {"format": "pt"})
    with complete_weights("mine", lambda kind: ()), ThreadPoolExecutor(1) as other:
        assert other.submit(AutoModel.from_pretrained, str(file.parent)).result() is not None
        with refused(EncoderError, "layer.1.", code="weights-not-checkpoint"):
            AutoModel.from_pretrained(str(file.parent))
