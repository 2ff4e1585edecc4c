"""The page and the service show what each word of a search matched in a picture (models of late interaction)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="visir[serve] is not installed")
import httpx

import visir
from colour_patches import ColourPatches, draw_patches

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_patches(tmp_path_factory.mktemp("regions") / "photos")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    library = visir.index(folder, ColourPatches(), out=folder.with_name("photos.visir"))
    with library.serve(port=0, background=True) as service:
        yield service.url.rstrip("/")


def test_the_service_answers_and_explains_with_regions(address: str) -> None:
    at = f"{address}/v1/libraries/photos"
    hits = httpx.post(f"{at}/search", json={"text": "red blue", "k": 2}).json()["hits"]
    item = next(hit["id"] for hit in hits if hit["name"] == "red-blue.png")
    explained = httpx.post(f"{at}/items/{item}/explain", json={"text": "red blue"}).json()
    words = explained["regions"]["words"]
    assert [word["word"] for word in words] == ["red", "blue"]
    assert words[0]["boxes"] == [[0.0, 0.0, 0.25, 0.25]] and explained["regions"]["missing"] == ""
    total = sum(word["score"] for word in words) + explained["regions"]["other"]
    assert total == pytest.approx(explained["parts"]["dense"]["score"], abs=1e-3)
    assert explained["parts"]["dense"]["label"] == "late interaction"
    answer = httpx.post(f"{at}/search", json={"text": "red", "system": "dense"}).json()
    assert (answer["system"], answer["label"]) == ("dense", "late interaction")
    [info] = httpx.get(f"{address}/v1/libraries").json()
    assert (info["systems"], info["labels"]) == (["dense"], {"dense": "late interaction"})
    assert httpx.post(f"{at}/items/{item}/explain", json={"like": hits[1]["id"]}).json()["regions"] is None


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (CHROMIUM names one)")
def test_a_word_marks_its_place_in_the_picture_and_can_be_reached_by_key(address: str) -> None:
    play_of = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    axe_of = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    with play_of.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        lines: list[str] = []
        page.on("console", lambda message: lines.append(message.text))
        page.on("pageerror", lambda error: lines.append(str(error)))
        page.goto(f"{address}/?text=blue%20red%20and")
        page.locator("#text").fill("a blue thing")
        page.locator("#text").press("Enter")
        page.get_by_role("link", name="blue-red.png").click()
        words = page.locator(".matched button")
        play_of.expect(words).to_have_count(3)
        blue = page.get_by_role("button", name=re.compile("blue ?: top left, score 1"))
        overlay = page.locator("svg.overlay")
        play_of.expect(overlay).to_have_count(0)
        words.first.focus()
        page.keyboard.press("Tab")
        play_of.expect(blue).to_be_focused()
        play_of.expect(overlay.locator(".box")).to_have_attribute("d", "M0 0H20V16H0Z")
        page.keyboard.press("Enter")
        play_of.expect(blue).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("Tab")  # another word is shown while it has the focus; the pressed one comes back
        page.keyboard.press("Tab")
        play_of.expect(overlay.locator(".box")).to_have_attribute("d", "M0 0H20V16H0Z")
        picture, marked = page.locator(".picture img").bounding_box(), overlay.bounding_box()
        assert picture is not None
        assert marked is not None
        assert all(abs(picture[side] - marked[side]) < 1 for side in ("x", "y", "width", "height"))
        page.set_viewport_size(
            {"width": 390, "height": 844}
        )  # a mark moves nothing, or the words flee from the pointer
        picture, marked = page.locator(".picture img").bounding_box(), overlay.bounding_box()
        assert picture is not None
        assert marked is not None
        assert all(abs(picture[side] - marked[side]) < 1 for side in ("x", "y", "width", "height"))
        below = words.first.bounding_box()
        blue.click()
        play_of.expect(blue).to_have_attribute("aria-pressed", "false")
        page.mouse.move(5, 5)
        play_of.expect(overlay).to_have_count(0)
        assert words.first.bounding_box() == below
        page.set_viewport_size({"width": 1200, "height": 800})
        page.mouse.move(5, 5)
        words.first.focus()
        faults = axe_of.Axe().run(page).response["violations"]
        assert faults == [], [(fault["id"], fault["nodes"][0]["html"]) for fault in faults]
        assert lines == []
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (CHROMIUM names one)")
def test_the_page_says_why_words_have_no_places(address: str, folder: Path) -> None:
    play_of = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    (folder / "yellow-black.png").unlink()
    with play_of.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(f"{address}/")
        page.locator("#text").fill("yellow black")
        page.locator("#text").press("Enter")
        page.get_by_role("link", name="yellow-black.png").click()
        play_of.expect(page.locator(".matched button")).to_have_count(2)
        play_of.expect(page.locator(".matched button:not([disabled])")).to_have_count(0)
        play_of.expect(page.get_by_text("The original picture cannot be read now")).to_be_visible()
        browser.close()
