"""Folders of models with a file missing, damaged, or of somebody who wants his code to run."""

from __future__ import annotations

import builtins
import json
import shutil
from pathlib import Path

import pytest
import tiny_late
import tiny_multi_vector
import tiny_sentence

from visir.encoders.loading import load
from visir.errors import EncoderError

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
        with pytest.raises(EncoderError, match="there is no tokenizer in this folder"):
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
