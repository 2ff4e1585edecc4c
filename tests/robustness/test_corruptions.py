"""Corruptions of pictures, worked by hand where they can be; the view, its keys, and what refuses it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from refusals import refused
from visir.collections import open_collection
from visir.collections.portable import load, save
from visir.encoders.encoding import load_images
from visir.encoders.loading import load as load_encoder
from visir.encoders.store import content_fingerprint
from visir.errors import CollectionError, ConfigurationError, EncoderError
from visir.records import Collection
from visir.robustness.corruptions import CORRUPTIONS, SEVERITIES, corrupt, pictures, write_pictures
from visir.robustness.random_stream import RandomStream

NAMES = ("gaussian_blur", "gaussian_noise", "jpeg", "occlusion", "rotation")


def photo(width: int = 60, height: int = 40, seed: int = 0) -> Image.Image:
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))


def changed(name: str, picture: Image.Image, severity: int, key: str = "a", seed: int = 0) -> NDArray[np.uint8]:
    return np.asarray(CORRUPTIONS.get(name).change(picture, RandomStream(seed, name, key), severity))


def scenes(count: int = 6) -> Collection:
    return open_collection(f"scenes:{count}?size=64")


def test_all_are_registered_and_describe_themselves() -> None:
    assert tuple(CORRUPTIONS) == NAMES
    for name, one in CORRUPTIONS.items():
        assert one.name == name and one.about.endswith(".") and len(one.steps) == len(SEVERITIES) == 5
    assert CORRUPTIONS.get("occlusion").describe(3) == "20 % of the area"


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(SEVERITIES),
    st.integers(0, 2**40),
)
def test_any_picture_keeps_its_size_and_itself(name: str, width: int, height: int, severity: int, seed: int) -> None:
    picture = photo(width, height)
    before = np.asarray(picture).copy()
    made = CORRUPTIONS.get(name).change(picture, RandomStream(seed, name, "a"), severity)
    assert made.size == (width, height) and made.mode == "RGB"
    assert np.array_equal(np.asarray(picture), before)
    again = CORRUPTIONS.get(name).change(picture, RandomStream(seed, name, "a"), severity)
    assert np.array_equal(np.asarray(made), np.asarray(again))


@pytest.mark.parametrize("name", NAMES)
def test_each_severity_is_further_away(name: str) -> None:
    """Of a smooth picture with an edge, which every one of the five spoils more and more."""
    ramp = np.tile(np.linspace(0, 255, 224, dtype=np.uint8)[:, None, None], (1, 224, 3)).copy()
    ramp[60:160, 60:160] = (200, 30, 60)
    picture = Image.fromarray(ramp)
    gaps = [np.abs(changed(name, picture, one).astype(int) - ramp).mean() for one in SEVERITIES]
    assert gaps == sorted(gaps) and gaps[0] > 0 and gaps[4] > 1.5 * gaps[0]


def test_occlusion_covers_what_it_says() -> None:
    """200 × 100 white, severity 3: 20 % of the area, sides √0.2 = 0.4472: 89 × 45 pixels of grey."""
    made = changed("occlusion", Image.new("RGB", (200, 100), "white"), 3)
    rows, columns = np.nonzero((made == 127).all(axis=2))
    assert (columns.max() - columns.min() + 1, rows.max() - rows.min() + 1) == (89, 45)
    assert len(rows) == 89 * 45 and (made[(made != 127).any(axis=2)] == 255).all()
    places = {changed("occlusion", Image.new("RGB", (200, 100), "white"), 3, key).tobytes() for key in "abcdef"}
    assert len(places) == 6  # another picture, another place


def test_rotation_turns_as_far_as_it_says() -> None:
    """A white right-pointing bar on black, 45 degrees: its tip is then above or below the middle, never at the side."""
    bar = np.zeros((101, 101, 3), np.uint8)
    bar[48:53, 50:98] = 255
    sides = set()
    for key in "abcdefgh":
        made = changed("rotation", Image.fromarray(bar), 5, key)
        inside = made[:, :, 0].astype(int)
        inside[(made == 127).all(axis=2)] = 0
        # The tip was 44 to the right; now 44·cos 45° = 31 to the right and 31 up or down.
        assert inside[50, 90] < 20
        sides.add("up" if inside[50 - 31, 50 + 31] > 200 else "down" if inside[50 + 31, 50 + 31] > 200 else "lost")
    assert sides == {"up", "down"}


def test_noise_has_the_deviation_it_says_and_the_grain_of_the_input() -> None:
    grey = Image.new("RGB", (224, 224), (127, 127, 127))
    made = changed("gaussian_noise", grey, 1).astype(float) - 127
    assert abs(made.std() / 255 - 0.08) < 0.002 and abs(made.mean()) < 0.5
    # 448 pixels: grains of 2 × 2, so that scaling down to 224 gives the same noise as on the small picture.
    large = changed("gaussian_noise", grey.resize((448, 448)), 1)
    assert np.array_equal(large[::2, ::2], large[1::2, 1::2])
    assert np.array_equal(large[::2, ::2], changed("gaussian_noise", grey, 1))


def test_noise_stays_in_the_range_of_a_picture() -> None:
    """Half of the grains of white would be whiter: they are white, not black."""
    for grey, beyond in ((255, "white"), (0, "black")):
        made = changed("gaussian_noise", Image.new("RGB", (64, 64), (grey,) * 3), 1).astype(float)
        assert 0.45 < (made == grey).mean() < 0.6 and abs(made - grey).max() < 128, beyond


def test_jpeg_is_pillows() -> None:
    """By reference: saved at quality 15 and read again."""
    import io

    stream = io.BytesIO()
    photo().save(stream, "JPEG", quality=15)
    assert np.array_equal(changed("jpeg", photo(), 3), np.asarray(Image.open(io.BytesIO(stream.getvalue()))))


def test_blur_of_a_constant_is_itself_and_scales_with_the_picture() -> None:
    assert (changed("gaussian_blur", Image.new("RGB", (50, 50), (9, 90, 200)), 5) == (9, 90, 200)).all()
    edge = np.zeros((448, 448, 3), np.uint8)
    edge[:, 224:] = 255
    wide = (np.diff(changed("gaussian_blur", Image.fromarray(edge), 3)[224, :, 0].astype(int)) > 0).sum()
    slim = (np.diff(changed("gaussian_blur", Image.fromarray(edge[::2, ::2]), 3)[112, :, 0].astype(int)) > 0).sum()
    assert 1.8 < wide / slim < 2.2


def test_the_view_says_what_it_is() -> None:
    plain = scenes()
    view = corrupt(plain, "gaussian_blur", 2, seed=5)
    assert str(view.corrupted) == "pictures: gaussian_blur, severity 2, seed 5"
    assert view.split("val").corrupted == view.corrupted
    others = [corrupt(plain, "gaussian_blur", 3, 5), corrupt(plain, "jpeg", 2, 5), corrupt(plain, "gaussian_blur", 2)]
    assert len({one.fingerprint for one in (plain, view, *others)}) == 5
    assert len({content_fingerprint(one.items("image")) for one in (plain, view, *others)}) == 5
    assert content_fingerprint(view.items("text")) == content_fingerprint(plain.items("text"))


def test_what_a_model_sees_is_what_the_report_shows() -> None:
    view = corrupt(scenes(), "occlusion", 5)
    encoder = load_encoder("bow")
    encoder.preprocess = lambda image: np.asarray(image)  # type: ignore[method-assign]
    batches = load_images(view.items("image"), encoder, start=0, batch_size=4, workers=2, skip_broken=False)
    seen = [one for batch in batches for one in batch.pixels]
    look = pictures(view)
    assert len(seen) == view.images.num_rows
    assert all(np.array_equal(one, np.asarray(look(row))) for row, one in enumerate(seen))
    assert all((one == 127).all(axis=2).mean() > 0.45 for one in seen)


def test_the_order_of_a_collection_changes_no_picture() -> None:
    plain = scenes()
    turned = corrupt(replace(plain, images=plain.images.take(list(range(plain.images.num_rows))[::-1])), "jpeg", 4)
    last = plain.images.num_rows - 1
    one, other = pictures(corrupt(plain, "rotation", 4)), pictures(corrupt(plain, "rotation", 4).split("val"))
    test = plain.split("val").images["id"][0].as_py()
    row = plain.images["id"].to_pylist().index(test)
    assert np.array_equal(np.asarray(one(row)), np.asarray(other(0)))
    straight = pictures(corrupt(plain, "jpeg", 4))
    assert np.array_equal(np.asarray(pictures(turned)(0)), np.asarray(straight(last)))


def test_another_process_draws_the_same() -> None:
    code = (
        "import hashlib; from visir.collections import open_collection; from visir.robustness.corruptions import *;"
        "c = open_collection('scenes:6?size=64');"
        "print(hashlib.sha256(b''.join(pictures(corrupt(c, n, 3, 7))(2).tobytes() for n in CORRUPTIONS)).hexdigest())"
    )
    import hashlib

    here = b"".join(pictures(corrupt(scenes(), name, 3, 7))(2).tobytes() for name in CORRUPTIONS)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == hashlib.sha256(here).hexdigest()


def test_faults_are_all_named() -> None:
    with pytest.raises(ConfigurationError) as fault:
        corrupt(scenes(), "blurr", 6, -1)
    for part in ("3 faults", "'blurr'", "gaussian_blur", "severity 6: 1 to 5", "seed -1"):
        assert part in str(fault.value)
    with refused(ConfigurationError, "corrupted already", hint=False):
        corrupt(corrupt(scenes(), "jpeg"), "rotation")


def test_a_view_is_not_saved_but_its_pictures_are(tmp_path: Path) -> None:
    view = corrupt(scenes(), "gaussian_noise", 4)
    with refused(CollectionError, code="view-whose-pictures-corrupted"):
        save(view, tmp_path / "refused")
    written = write_pictures(view, tmp_path / "pictures")
    assert written.corrupted is None and "gaussian_noise, severity 4" in written.source
    save(written, tmp_path / "folder")
    back = load(tmp_path / "folder")
    for row in range(view.images.num_rows):
        assert np.array_equal(np.asarray(pictures(back)(row)), np.asarray(pictures(view)(row)))


def test_vectors_made_elsewhere_are_refused(tmp_path: Path) -> None:
    from visir.encoders import encode

    plain = scenes()
    ids = np.array(plain.images["id"].to_pylist())
    np.savez(tmp_path / "v.npz", image=np.eye(len(ids), dtype=np.float32), image_ids=ids)
    with refused(EncoderError, code="vectors-made-elsewhere-know"):
        encode(load_encoder(f"npz:{tmp_path / 'v.npz'}"), corrupt(plain, "jpeg"), "image")
