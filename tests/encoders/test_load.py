"""From names to encoders: the forms there are, and what is said of a name that is none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refusals import refused
from visir.encoders import FAMILIES, load
from visir.encoders.families import Family, family_of
from visir.encoders.loading import hub_unreachable, require_packages
from visir.errors import EncoderError, MissingPackageError, VisirError
from visir.storage import Manifest


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("pixels", "pixels"),
        ("bow", "bag-of-words"),
        ("bow:512", "bag-of-words"),
        ("mobilenet_v2", "mobilenet"),
        ("mobilenet_v2:models", "mobilenet"),
        ("onnx:a/b.onnx#x:0", "onnx"),
        ("npz:vectors.npz", "imported"),
        ("openclip:RN50/openai", "openclip"),
        ("st:all-MiniLM-L6-v2", "sentence"),
        ("openai/clip-vit-base-patch32", "transformers"),
    ],
)
def test_names_tell_their_family(name: str, family: str) -> None:
    assert family_of(name).name == family


def test_every_family_describes_itself_and_its_example_is_its_own(tmp_path: Path) -> None:
    for name, family in FAMILIES.items():
        assert name == family.name
        assert family.title and family.form and family.example
        if name not in ("checkpoint", "peft"):  # whose examples are folders that are not there
            assert family_of(family.example) is family


@pytest.mark.parametrize(
    ("marker", "family"),
    [("visir.json", "checkpoint"), ("modules.json", "sentence"), ("open_clip_config.json", "openclip"),
     ("config.json", "transformers")],
)  # fmt: skip
def test_folders_tell_their_family_by_what_they_hold(tmp_path: Path, marker: str, family: str) -> None:
    (tmp_path / "config.json").write_text("{}")  # most folders have one beside the more telling file
    (tmp_path / marker).write_text("{}")
    assert family_of(str(tmp_path)).name == family


def test_an_unknown_name_gets_the_nearest_one_and_all_forms() -> None:
    with pytest.raises(EncoderError) as caught:
        load("pixel")
    text = str(caught.value)
    assert "unknown encoder 'pixel'" in text
    assert "did you mean 'pixels'?" in text
    assert all(family.form in text for _, family in FAMILIES.items())


def test_a_folder_without_a_model_and_a_bare_file_are_told_apart(tmp_path: Path) -> None:
    with refused(EncoderError, code="folder-holds-no-model"):
        load(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"")
    with refused(EncoderError, code="file-needs-prefix-says"):
        load(tmp_path / "model.onnx")


def test_options_that_could_only_be_ignored_are_refused_all_at_once() -> None:
    with pytest.raises(EncoderError) as caught:
        load("bow", device="cuda", dtype="float8", revision="main")
    text = str(caught.value)
    assert "3 faults" in text
    assert "device 'cuda': it computes on the CPU only" in text
    assert "dtype 'float8': unknown; did you mean 'float" in text
    assert "revision 'main': a name of this family has no revisions" in text
    with refused(EncoderError, "dtype", "bfloat16", "it computes in float32"):
        load("pixels", dtype="bfloat16")


def test_a_missing_package_comes_with_the_command_that_installs_it() -> None:
    family = Family("rare", "t", "rare:X", "rare:x", "nowhere", extra="rare", packages=("json", "not_a_package"))
    with pytest.raises(MissingPackageError) as caught:
        require_packages(family)
    assert "the family 'rare' needs the package 'not_a_package'" in str(caught.value)
    assert "pip install 'visir[rare]'" in str(caught.value)


def test_no_network_is_said_with_what_goes_without() -> None:
    text = str(hub_unreachable("openai/clip-vit-base-patch32", ConnectionError()))
    assert "openai/clip-vit-base-patch32: not on this machine, and the hub could not be reached" in text
    assert "copy the model's folder here and pass its path" in text
    assert "colours takes pictures and names of colours, bow takes texts only" in text


def test_an_unknown_kind_of_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "visir.json").write_bytes(Manifest("tower").to_bytes())
    with refused(VisirError, "kind", "checkpoint", "tower", code="unknown-name") as caught:
        load(tmp_path)
    assert "did you mean 'towers'?" in caught.value.hint
    (tmp_path / "visir.json").write_text("[]")
    with refused(EncoderError, code="not-describe-folder-visir"):
        load(tmp_path)


def test_mobilenet_says_which_file_it_needs(tmp_path: Path) -> None:
    with refused(EncoderError, "mobilenetv2_dynrange_float32.onnx", code="weights-not-there") as caught:
        load(f"mobilenet_v2:{tmp_path}")
    assert "set VISIR_DATA" in caught.value.hint


def test_a_light_encoder_imports_nothing_heavy() -> None:
    code = (
        "import sys; from visir.encoders import load; load('bow'); load('pixels');"
        "print([m for m in ('torch', 'transformers', 'onnxruntime', 'pandas') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_paths_with_a_slip_say_which_folder_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    for name, near in (("./modles/mine", "models/mine"), ("models/deep/mine", None), ("~/nowhere/x", None)):
        with refused(EncoderError, code="no-such-folder") as caught:
            load(name)
        assert caught.value.message.endswith(": no such folder.")
        expected = f"did you mean {near}?" if near else f"relative paths begin at {tmp_path}"
        assert expected in caught.value.hint and "ORGANISATION/NAME" in caught.value.hint
    for name, near in (("modles/mine", "models/mine"), ("models/nine", "models/mine"), ("cats/mine", None)):
        with pytest.raises(
            EncoderError, match=f"^{name}: there is no such folder here; as a name on the hub: "
        ) as caught:
            load(name)
        assert caught.value.hint.startswith(f"did you mean the folder {near}?" if near else "connect to the network")
    (tmp_path / "file").write_text("?")
    with refused(EncoderError, "file", code="file-no-folder"):
        load(f"st:{tmp_path}/file")
    monkeypatch.setenv("HOME", str(tmp_path))
    with refused(EncoderError, code="folder-holds-no-model"):
        load("~/models/mine")
