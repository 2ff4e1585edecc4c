"""The search page in headless Chromium, against the real service and a small real library full of odd data."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="visir[serve] is not installed")
pytest.importorskip("torch", reason="torch is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

from page_library import HACK, NAMES, make_libraries  # noqa: E402

from visir.library.updating import update  # noqa: E402

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium here (CHROMIUM names one)", allow_module_level=True)

expect = playwright.expect
DOG = "a red sheep on a farm"


@contextmanager
def serving(libraries: list[Path], tokens: Path | None = None, *, paths: bool = False) -> Iterator[str]:
    """The service on a free port of this machine, in a thread."""
    import uvicorn

    from visir.library.service.app import create_app
    from visir.library.service.settings import ServiceSettings
    from visir.serving.logs import ServiceLog

    app = create_app(ServiceSettings(tuple(libraries), tokens=tokens, rate=0, paths=paths), log=ServiceLog(BytesIO()))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("page")
    os.environ["VISIR_CACHE"] = str(folder / "cache")
    return make_libraries(folder)


@pytest.fixture(scope="module")
def service(libraries: list[Path]) -> Iterator[str]:
    with serving(libraries) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as play:
        launched = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


class Watched:
    """A page whose console and requests are written down."""

    def __init__(self, browser: Any, service: str, width: int = 1200, height: int = 800, **settings: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": height}, base_url=service, **settings)
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(f"{request.method} {request.url}"))

    def searches(self) -> int:
        return sum(one.startswith("POST") and one.endswith("/search") for one in self.asked)

    def open(self, address: str = "/") -> Any:
        self.page.goto(address)
        expect(self.page.locator(".grid a, .empty, .error").first).to_be_visible()
        return self.page

    def items(self, column: int = 0) -> list[str]:
        """The items of a column, in order, once its search is done."""
        grid = self.page.locator(".column").nth(column)
        expect(grid).not_to_have_class(re.compile("busy"))
        return grid.locator(".grid a").evaluate_all("links => links.map(link => link.dataset.item)")  # type: ignore[no-any-return]


@pytest.fixture
def watched(browser: Any, service: str) -> Iterator[Watched]:
    one = Watched(browser, service)
    yield one
    assert one.said == [], "the console must stay empty"
    assert [url for url in one.asked if not url.split()[1].startswith((service, "data:", "blob:"))] == []
    assert one.page.evaluate("window.hacked") is None
    one.context.close()


def answered(page: Any, words: str) -> None:
    """Type, and wait until the results are those of the words."""
    with page.expect_response(lambda response: response.url.endswith("/search")):
        page.locator("#text").fill(words)
        page.locator("#text").press("Enter")
    expect(page.locator(".column").first).not_to_have_class(re.compile("busy"))


def found(watched: Watched, library: str, **query: Any) -> list[str]:
    """What the service itself says: the items of an answer."""
    answer = watched.page.request.post(f"/v1/libraries/{library}/search", data=query)
    return [hit["id"] for hit in answer.json()["hits"]]


def photo(width: int = 2400, height: int = 1200) -> bytes:
    data = BytesIO()
    Image.new("RGB", (width, height), (200, 40, 40)).save(data, "PNG")
    return data.getvalue()


def test_typing_searches_and_the_address_follows(watched: Watched) -> None:
    page = watched.open()
    expect(page.locator("#text")).to_be_focused()
    expect(page.get_by_role("status").first).to_have_text("90 pictures, by name")
    browsed = watched.items()
    page.evaluate("times = []; document.querySelector('#text').addEventListener('input', () => times.push(Date.now()))")
    with page.expect_response(lambda response: response.url.endswith("/search")):
        page.keyboard.type("a red sheep", delay=15)
    expect(page.get_by_role("status").first).to_contain_text(
        re.compile(r"90 pictures, ranked best first(; \d+ found by words)? · \d+ ms|1 ms")
    )
    pauses = sum(after - before > 200 for before, after in pairwise(page.evaluate("times")))  # of a busy machine
    assert watched.searches() <= 1 + pauses, "one search for a text typed without a pause"
    assert page.url.endswith("/?q=a+red+sheep") and page.title() == "a red sheep · visir"
    found = watched.items()
    assert found != browsed
    page.go_back()
    expect(page.locator("#text")).to_have_value("")
    assert watched.items() == browsed
    page.go_forward()
    assert watched.items() == found and watched.searches() == 1, "an answer that is there is not asked for again"
    page.reload()
    assert watched.items() == found


def test_results_come_page_by_page_without_moving(watched: Watched) -> None:
    page = watched.open(f"/?q={DOG}")
    first = watched.items()
    assert 30 <= len(first) < 36, "a row that is not full waits for the next page"
    page.evaluate(
        "window.shift = 0; new PerformanceObserver(list => list.getEntries().forEach(one => window.shift += one.value))"
        ".observe({ type: 'layout-shift' })"
    )
    page.locator(".grid a").last.scroll_into_view_if_needed()
    expect(page.locator(".grid a").nth(60)).to_be_attached()
    page.locator(".grid a").last.scroll_into_view_if_needed()
    expect(page.locator(".grid a")).to_have_count(90)
    expect(page.get_by_role("button", name="More", exact=True)).to_be_hidden()
    assert len(set(watched.items())) == 90 and watched.items()[: len(first)] == first
    assert page.evaluate("window.shift") < 0.02


def test_a_newer_search_wins(watched: Watched) -> None:
    """The slow one is cancelled, and nothing of it is ever shown."""
    page, held, cancelled = watched.open(), [], []
    page.on("requestfailed", lambda request: cancelled.append(request.post_data_json["text"]))
    page.route(
        "**/search", lambda route: held.append(route) if "slow" in route.request.post_data else route.continue_()
    )
    page.locator("#text").fill("slow")
    page.locator("#text").press("Enter")
    expect(page.locator(".column")).to_have_class(re.compile("busy"))
    deadline = time.monotonic() + 10
    while not held and time.monotonic() < deadline:  # the page is busy before its request is on its way
        page.wait_for_timeout(20)
    answered(page, "a dog")
    assert len(held) == 1 and cancelled == ["slow"]
    shown = watched.items()
    assert shown == found(watched, "photos", text="a dog", k=36)[: len(shown)]
    assert page.url.endswith("q=a+dog")


def test_a_photo_is_made_small_and_searched_with(watched: Watched) -> None:
    page = watched.open()
    with page.expect_request(lambda request: request.url.endswith("/search")) as asked:
        page.locator("#file").set_input_files({"name": "my <b>.png", "mimeType": "image/png", "buffer": photo()})
    import base64

    body = asked.value.post_data_json
    sent = Image.open(BytesIO(base64.b64decode(body["image"]["data"])))
    assert sent.format == "JPEG" and sent.size == (1024, 512) and set(body) >= {"image", "k", "offset"}
    expect(page.locator(".chip")).to_contain_text("my <b>.png")
    expect(page.locator("#note")).to_contain_text("a link to this page does not carry it")
    assert "photo=1" in page.url and len(watched.items()) >= 30
    expect(page.locator("#text-weight")).to_be_hidden()
    alone = watched.items()
    answered(page, DOG)
    expect(page.locator("#text-weight")).to_be_visible()
    with page.expect_request(lambda request: request.url.endswith("/search")) as asked:
        page.get_by_role("slider").fill("90")
    assert asked.value.post_data_json["text_weight"] == 0.9 and "text_weight=90" in page.url
    page.get_by_role("button", name="Remove the photo my <b>.png").click()
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.locator("#text")).to_be_focused()
    page.go_back()
    expect(page.locator(".chip")).to_have_count(1)
    page.reload()
    expect(page.locator("#note")).to_contain_text("a link cannot carry one")
    assert alone


def test_a_photo_is_dropped_or_pasted(watched: Watched) -> None:
    page = watched.open()
    make = """async ([kind, type, bytes]) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type }));
      const given = kind === "paste" ? { clipboardData: data } : { dataTransfer: data };
      const event = kind === "paste" ? new ClipboardEvent(kind, { ...given, bubbles: true, cancelable: true })
        : new DragEvent(kind, { ...given, bubbles: true, cancelable: true });
      document.body.dispatchEvent(event);
    }"""
    page.evaluate(make, ["dragenter", "image/png", list(photo(40, 40))])
    expect(page.get_by_text("Drop a photo to search with it")).to_be_visible()
    page.evaluate(make, ["drop", "image/png", list(photo(40, 40))])
    expect(page.locator(".chip")).to_contain_text("dropped.png")
    expect(page.locator("#drop")).to_be_hidden()
    page.get_by_role("button", name="Clear the search").click()
    expect(page.locator(".chip")).to_have_count(0)
    page.evaluate(make, ["paste", "image/png", list(photo(40, 40))])
    expect(page.locator(".chip")).to_have_count(1)
    page.evaluate(make, ["drop", "image/png", [1, 2, 3]])
    expect(page.get_by_role("alert")).to_contain_text("is not a picture that this browser can read. Try a JPEG")


def test_details_say_why_and_lead_on(watched: Watched) -> None:
    page = watched.open(f"/?q={DOG}&system=hybrid")
    items = watched.items()
    page.locator(".grid a").nth(1).click()
    dialog = page.locator("#details")
    expect(dialog).to_be_visible()
    assert f"open={items[1]}" in page.url
    expect(dialog.get_by_role("status")).to_have_text("2 of 90")
    expect(dialog.locator(".why h3")).to_have_text("Why this picture")
    expect(dialog.locator(".parts")).to_contain_text("dense")
    expect(dialog.locator(".pairs tbody tr").first).to_be_visible()
    expect(dialog.locator(".near li").first).to_be_visible()
    expect(dialog.locator(".about dl")).to_contain_text("photo")
    expect(dialog.locator(".strip a").first).to_be_visible()
    assert dialog.locator(".picture img").evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("status")).to_have_text("3 of 90")
    assert f"open={items[2]}" in page.url
    page.keyboard.press("ArrowLeft")
    expect(dialog.get_by_role("status")).to_have_text("2 of 90")
    similar = dialog.locator(".strip a").first
    address = similar.get_attribute("href")
    similar.click()
    page.wait_for_url(f"**{address}")
    page.go_back()
    expect(dialog.get_by_role("status")).to_have_text("2 of 90")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator(".grid a").nth(1)).to_be_focused()
    assert "open=" not in page.url
    page.go_forward()
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="More like this").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(".chip")).to_contain_text("like this")
    assert f"like={items[1]}" in page.url and items[1] not in watched.items()[:1]
    expect(page.locator("#text")).to_have_value("")  # the words are no part of what is answered now
    expect(page.get_by_role("status").first).to_contain_text("89 pictures like this one, nearest first")


def test_a_shared_link_opens_what_it_says(watched: Watched) -> None:
    page = watched.open(f"/?q={DOG}")
    item = watched.items()[4]
    page = watched.open(f"/?q={DOG}&system=sparse&where=width+%3E%3D+90&category=farm&open={item}")
    expect(page.locator("#details")).to_be_visible()
    expect(page.locator("#details").get_by_role("button", name="Close")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#details")).to_be_hidden()
    expect(page.get_by_role("radio", name="Sparse")).to_be_checked()
    expect(page.locator("#where")).to_contain_text("in farm")
    expect(page.locator("#where")).to_contain_text("width ≥ 90")


def test_filters_and_categories(watched: Watched) -> None:
    page = watched.open(f"/?q={DOG}")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Field").select_option("width")
    page.get_by_label("Value").fill("100")
    with page.expect_request(lambda request: request.url.endswith("/search")) as asked:
        page.get_by_role("button", name="Add").click()
    assert asked.value.post_data_json["where"] == [{"field": "width", "op": ">=", "value": 100}]
    expect(page.get_by_role("status").first).to_contain_text("36 pictures")  # 160 and 600 wide: two shapes of five
    page.get_by_label("Field").select_option("camera_kind")
    page.get_by_label("Value").fill("phone")
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".chip")).to_have_count(2)
    page.get_by_role("button", name="Remove the filter width ≥ 100").click()
    expect(page.locator(".chip")).to_have_count(1)
    page.get_by_label("Value").press("Escape")
    expect(page.locator("#filters")).to_be_hidden()
    page.locator("#text").fill("")
    page.locator("#text").press("Enter")
    expect(page.get_by_role("status").first).to_have_text("44 pictures, by name")  # they hold without a search too
    page.goto("/?where=width+%3E%3D+100&where=camera_kind+%3D+phone&category=farm/spring")
    expect(page.get_by_role("status").first).to_have_text("9 pictures, by name")  # of 23: wide is n % 5 in (1, 3)
    page.goto("/?where=width+%3E+100000")
    page.get_by_role("button", name="Remove all filters").click()
    expect(page.get_by_role("status").first).to_have_text("90 pictures, by name")

    page.get_by_role("button", name="Categories").click()
    tree = page.get_by_role("navigation", name="Categories")
    expect(tree.get_by_role("button", name="farm , 46")).to_be_visible()
    expect(tree.get_by_role("button", name="autumn")).to_be_hidden()
    tree.get_by_role("button", name="Below farm").click()
    tree.get_by_role("button", name="autumn").click()
    expect(page.get_by_role("status").first).to_have_text("23 pictures, by name")
    expect(tree.get_by_role("button", name="autumn")).to_have_attribute("aria-current", "true")
    page.reload()
    expect(tree.get_by_role("button", name="autumn")).to_be_visible()
    tree.get_by_role("button", name="All").click()
    expect(page.get_by_role("status").first).to_have_text("90 pictures, by name")


@pytest.fixture(scope="module")
def pixels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A folder of photos with a model that takes no texts: the address of its service, and the folder."""
    folder = tmp_path_factory.mktemp("pixels")
    for name, colour in {"sea/blue": "blue", "red": "red", "green": "green"}.items():
        (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 48), colour).save(folder / "photos" / f"{name}.png")
    update(folder / "photos", folder / "photos.visir", model="pixels")
    with serving([folder / "photos.visir"], paths=True) as address:
        yield address, folder / "photos"


def test_a_folder_of_photos_without_words(browser: Any, pixels: tuple[str, Path]) -> None:
    """One system is not compared, categories are folders, what is typed is looked for in names, a path is copied."""
    address, photos = pixels
    watched = Watched(browser, address, permissions=["clipboard-read", "clipboard-write"])
    page = watched.open()
    expect(page.locator("#compare")).to_be_hidden()
    expect(page.get_by_role("button", name="Folders")).to_be_visible()
    expect(page.locator("#note")).to_contain_text("takes no words")
    assert len(watched.items()) == 3
    page.locator("#text").fill("sea/")  # "/" in the box is a character like any other
    page.locator("#text").press("Enter")
    expect(page.locator(".grid a")).to_have_count(1)
    page.locator("#text").fill("nobody")
    page.locator("#text").press("Enter")
    expect(page.locator(".empty")).to_contain_text("No file name and no folder contains these letters")
    page.locator("#clear").click()
    expect(page.locator(".grid a")).to_have_count(3)
    page.locator(".grid a").first.focus()
    page.keyboard.press("/")
    expect(page.locator("#text")).to_be_focused()
    expect(page.locator("#text")).to_have_value("")
    page.keyboard.type("/")
    expect(page.locator("#text")).to_have_value("/")
    page.locator("#text").fill("red")
    page.locator("#text").press("Enter")
    expect(page.locator(".grid a")).to_have_count(1)
    page.locator(".grid a").click()
    copy = page.locator("#details .copy")
    copy.click()
    expect(copy).to_contain_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == str(photos / "red.png")
    assert watched.said == []
    watched.context.close()


def test_two_systems_side_by_side(watched: Watched) -> None:
    page = watched.open(f"/?q={DOG}&system=dense")
    page.get_by_role("button", name="Compare two systems").click()
    expect(page.locator(".column")).to_have_count(2)
    expect(page.locator(".column").nth(1).locator(".grid a").first).to_be_visible()
    assert "compare=both" in page.url
    page.locator(".column").nth(1).get_by_text("Sparse", exact=True).click()
    page.wait_for_url("**compare=sparse**")
    expect(page.locator(".column").nth(1)).not_to_have_class(re.compile("busy"))
    assert watched.items(0) != watched.items(1)
    left, right = (found(watched, "photos", text=DOG, system=system, k=36) for system in ("dense", "sparse"))
    shared = len(set(left) & set(right))
    expect(page.locator(".overlap")).to_have_text(f"{shared} of the first 36 are in both")
    marks = (
        page.locator(".column")
        .first.locator(".grid a.both")
        .evaluate_all("links => links.map(link => [link.dataset.item, link.querySelector('.mark').textContent])")
    )
    assert {item: int(text.split()[-1]) for item, text in marks} == {
        item: right.index(item) + 1 for item in watched.items(0) if item in right
    }
    item = marks[0][0]
    page.locator(f'.column:nth-child(1) [data-item="{item}"]').hover()
    expect(page.locator(f'.column:nth-child(2) [data-item="{item}"]')).to_have_class(re.compile("pointed"))
    second = page.locator(".column").nth(1)
    second.get_by_label("Library").select_option("plain <i>")
    expect(second.locator(".choice")).to_contain_text("Dense")
    second.get_by_text("Dense", exact=True).click()
    expect(page.locator(".overlap")).to_have_text(re.compile(r"(\d+) of the first \1 are in both"))
    second.locator(".grid a").first.click()
    assert "side=2" in page.url
    expect(page.locator("#details .about dl")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Compare two systems").click()
    expect(page.locator(".column")).to_have_count(1)
    expect(page.locator(".mark")).to_have_count(0)


def test_everything_by_keyboard(watched: Watched) -> None:
    page = watched.open(f"/?q={DOG}")
    items = watched.items()
    focused = "document.activeElement.dataset.item"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == items[0]
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == items[1]
    page.keyboard.press("ArrowDown")
    below = page.evaluate(focused)
    assert below in items[3:12]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    assert page.evaluate(focused) == items[0]
    page.keyboard.press("Enter")
    expect(page.locator("#details")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#details")).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("?")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_have_value("")
    assert page.locator('.grid a[tabindex="0"]').count() == 1, "the list is one stop of the tab key"


def test_colours_are_remembered(watched: Watched) -> None:
    page = watched.open()
    back = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(back)
    page.get_by_role("button", name="Dark colours").click()
    dark = page.evaluate(back)
    assert dark != light
    page.reload()
    assert page.evaluate(back) == dark
    page.get_by_role("button", name="Light colours").click()
    assert page.evaluate(back) == light and page.evaluate("localStorage.getItem('visir-theme')") is None
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(back) == dark


def test_what_the_data_says_stays_text(watched: Watched) -> None:
    page = watched.open("/?where=width+%3E%3D+1")
    expect(page.locator(f'.grid img[alt="{HACK}"]')).to_be_attached()
    page.locator(f'.grid a:has(img[alt="{HACK}"])').click()
    dialog = page.locator("#details")
    expect(dialog.locator("h2")).to_have_text(HACK)
    expect(dialog.locator(".about")).to_contain_text(NAMES[0])
    expect(dialog.locator(".about")).to_contain_text(HACK)
    assert dialog.locator("script, img[src='x']").count() == 0
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Categories").click()
    expect(page.get_by_role("navigation", name="Categories")).to_contain_text("a <b>bold<i>")
    for address in (
        f"/?q={HACK}",
        f"/?category={HACK}",
        f"/?library={HACK}",
        f"/?where={HACK}",
        f"/?open={HACK}&like=x",
    ):
        page.goto(address.replace("#", "%23"))
        expect(page.locator(".grid a, .error, .empty").first).to_be_attached()
        assert page.evaluate("window.hacked") is None
    # The service refuses what these addresses ask, and Chromium writes refused requests into the console.
    watched.said = [line for line in watched.said if "Failed to load resource" not in line]


def test_errors_and_empty_answers_are_said_in_words(watched: Watched) -> None:
    page = watched.open("/?q=nothing&where=width+%3E+100000")
    expect(page.locator(".empty")).to_contain_text("Remove a filter")
    page.goto("/?q=dog&where=widht+%3E+1")
    expect(page.get_by_role("alert")).to_contain_text("widht")
    expect(page.get_by_role("alert")).to_contain_text("width")
    page.context.set_offline(True)
    page.locator("#text").fill("offline")
    page.locator("#text").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This device is offline.")
    page.context.set_offline(False)
    page.get_by_role("button", name="Clear the search").click()
    expect(page.locator(".grid a").first).to_be_visible()
    page.route("**/search", lambda route: route.fulfill(status=502, body="<h1>proxy</h1>"))
    page.locator("#text").fill("a dog")
    page.locator("#text").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("status 502")
    page.unroute("**/search")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert len(watched.items()) >= 30
    watched.said = [line for line in watched.said if "Failed to load resource" not in line]


@pytest.mark.parametrize("fault", ["the photos' disk is away", None])
def test_answers_that_may_be_out_of_date_are_marked(watched: Watched, fault: str | None) -> None:
    """As when the thread that follows the disk has ended: the service says so of a library, and the page above it."""
    page = watched.page

    def behind(route: Any) -> None:
        answer = route.fetch()
        content = answer.json()
        for library in content:
            library["state"] |= {"status": "behind", "fault": fault}
        route.fulfill(response=answer, json=content)

    page.route("**/v1/libraries", behind)
    watched.open()
    reason = fault or "the library on disk is another one"
    expect(page.locator("#note")).to_have_text(f"What you see may be out of date: {reason}.")
    assert watched.items(), "and pictures are still shown"


def test_a_slow_service_is_waited_for_visibly(watched: Watched) -> None:
    page, held = watched.page, []
    page.route("**/v1/libraries", lambda route: held.append(route))
    page.goto("/")
    expect(page.locator(".skeleton").first).to_be_attached()
    expect(page.locator(".column")).to_have_class(re.compile("busy"))
    held[0].continue_()
    expect(page.locator(".grid a").first).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)


def test_a_token_is_asked_for_and_kept_by_the_tab(browser: Any, libraries: list[Path], tmp_path: Path) -> None:
    from visir.serving.tokens import new_token

    secret = new_token(tmp_path / "tokens", "me", ["search"], None)
    with serving(libraries[:1], tmp_path / "tokens") as address:
        watched = Watched(browser, address)
        page = watched.page
        page.goto("/")
        dialog = page.get_by_role("dialog", name="This service asks for a token")
        expect(dialog).to_contain_text("A token is needed.")
        page.get_by_label("Token", exact=True).fill("wrong")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("not known")
        page.get_by_label("Token", exact=True).fill(secret)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator(".grid img").first).to_be_visible()
        page.wait_for_function("() => document.querySelector('.grid img').naturalWidth > 0")
        assert page.locator(".grid img").first.get_attribute("src").startswith("blob:")
        page.reload()
        expect(page.locator(".grid a").first).to_be_visible()
        expect(dialog).to_be_hidden()
        assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 1]
        watched.context.close()

        watched = Watched(browser, address)
        watched.page.goto("/")
        watched.page.get_by_role("button", name="Cancel").click()
        expect(watched.page.get_by_role("alert")).to_contain_text("A token is needed.")
        watched.page.get_by_role("button", name="Use another token").click()
        watched.page.get_by_label("Token", exact=True).fill(secret)
        watched.page.keyboard.press("Enter")
        expect(watched.page.locator(".grid a").first).to_be_visible()
        watched.context.close()


def _details(page: Any) -> None:
    page.locator(".grid a").first.click()
    expect(page.locator(".strip a").first).to_be_visible()
    expect(page.locator(".pairs")).to_be_visible()


def _filters(page: Any) -> None:
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Categories").click()
    expect(page.locator(".name").first).to_be_visible()


def _more_like_it(page: Any) -> None:
    _details(page)
    page.get_by_role("button", name="More like this").click()
    answered(page, "blue")


def _dragged(page: Any) -> None:
    page.evaluate("""() => {
      const data = new DataTransfer();
      data.items.add(new File([1], "a.png", { type: "image/png" }));
      document.body.dispatchEvent(new DragEvent("dragenter", { dataTransfer: data, bubbles: true }));
    }""")
    expect(page.locator("#drop")).to_be_visible()


def _waiting(page: Any) -> None:
    """A question that is never answered, where nothing stood before."""
    page.route("**/search", lambda route: None)
    page.goto(f"/?q={DOG}")
    expect(page.locator(".skeleton").last).to_be_attached()


def _refused(page: Any) -> None:
    said = {"error": {"code": "unauthorised", "message": "a token is needed.", "hint": ""}}
    page.unroute("**/search")
    page.route("**/v1/libraries", lambda route: route.fulfill(status=401, json=said))
    page.goto("/")
    expect(page.get_by_role("dialog", name="This service asks for a token")).to_be_visible()


STATES: dict[str, tuple[str, Any]] = {
    "browsing": ("/", None),
    "results": (f"/?q={DOG}", lambda page: page.locator(".grid a").nth(2).focus()),
    "details": (f"/?q={DOG}&system=hybrid", _details),
    "comparison": (f"/?q={DOG}&system=dense&compare=sparse", lambda page: page.locator(".mark").first.hover()),
    "filters": (f"/?q={DOG}&where=width+%3E+90&category=farm", _filters),
    "like this": (f"/?q={DOG}&system=hybrid", _more_like_it),
    "empty": ("/?q=dog&where=width+%3E+100000", None),
    "error": ("/?q=dog&where=widht+%3E+1", None),
    "nothing here": ("/?where=width+%3E+100000", None),
    "keys": ("/", lambda page: page.keyboard.press("Tab") or page.locator("#help").click()),
    "dragged": ("/", _dragged),
    "waiting": ("/", _waiting),
    "token": ("/", _refused),
}


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1200),
        ("dark", 360),
        *(pytest.param(*one, marks=pytest.mark.nightly) for one in [("dark", 1200), ("light", 360)]),
    ],
)
def test_every_state_is_accessible(browser: Any, service: str, scheme: str, width: int) -> None:
    """No rule of axe is broken, and nothing is wider than the screen."""
    watched = Watched(browser, service, width, 800, color_scheme=scheme, reduced_motion="reduce")
    axe, faults = axe_module.Axe(), []
    for state, (address, act) in STATES.items():
        page = watched.open(address)
        watched.items()
        if act:
            act(page)
        faults += [
            f"{state}: {fault['id']}: {fault['help']}: {[node['html'][:150] for node in fault['nodes']]}"
            for fault in axe.run(page).response["violations"]
        ]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{state}: wider than the screen")
    watched.context.close()
    assert not faults, "\n".join(faults)


def test_what_the_page_weighs_and_allows() -> None:
    """Under 64 kB for the first view; nothing that the policy forbids, and nothing from elsewhere."""
    from importlib.resources import files

    held = {Path(one.name).name: one.read_text() for one in files("visir.library.service").joinpath("page").iterdir()}
    text = held["index.html"]
    first = ["index.html", "page.css", *re.findall(r'(?:src|href)="/static/([a-z]+\.js)"', text)]
    assert set(first) <= set(held)
    assert sum(len(held[name].encode()) for name in set(first)) < 64_000
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", text)
    for name, content in held.items():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", content
        ), name
        assert set(re.findall(r"https?://[^\s\"'`]+", content)) <= {"http://www.w3.org/2000/svg"}, name
    imported = {
        one for content in held.values() for one in re.findall(r'(?:from|import\()\s*"\./([a-z]+\.js)"', content)
    }
    assert imported <= set(held)
