"""`Library`: a searchable folder of photos, as people use it from Python; `index` makes one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.display import Columnar, brief, counted
from visir.library.check import Item
from visir.library.facets import Category, Facets
from visir.library.filters import Field
from visir.library.layout import LibraryError, UnknownItemError, default_folder, is_library, places_of, removals
from visir.library.models import NO_MODEL, default_model
from visir.library.query import By, Query, System
from visir.library.results import (
    DuplicatePictures,
    ExplainedPicture,
    LibraryPicture,
    LibraryResults,
    picture_of,
    results_of,
)
from visir.library.searcher import Searcher
from visir.library.snapshot import LibrarySnapshot
from visir.library.updating import Tell, UpdateReport, update
from visir.retrieval.fusion import Fusion

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.base import Encoder
    from visir.library.service.running import RunningService
    from visir.library.watch import Watcher


def index(
    source: str | Path,
    model: str | Path | Encoder | None = None,
    *,
    out: str | Path | None = None,
    head: str | Path | Encoder | None = None,
    kind: str | Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    name: str | None = None,
    split: str | None = None,
    images: str | Path | Sequence[str | Path] = (),
    verify: bool = False,
    language: str | None = None,
    synonyms: str | Path | None = None,
    device: str | None = None,
) -> Library:
    """Make photos searchable: make a library of them, or bring it up to date, and open it.

    Only what is new is encoded; moved files cost nothing. A call that was interrupted goes on where it was.

    Args:
        source: A folder of photos, or anything else on disk that `visir.open` takes; or the folder of a library.
        model: A name as `visir.load` takes it, or an encoder; "none" for a library that is searched by words alone.
            Default for a new library: the recommended model, for products none. A library keeps its model; one without
            takes one later.
        out: The library's folder. Default: the source's name with `.visir`, in the current folder.
        head: A sparse head, for search by weighted words.
        kind: The kind of index ("hnsw"), or one for each form of vectors. Default: exact.
        settings: Of the indexes: {"url": "http://qdrant:6333"}.
        name: What to call the library. Default: the folder's name.
        split: One split of the source only.
        images: Where the pictures of the source are.
        verify: Whether to read every file, also those whose size and time of change are as they were.
        language: How words are compared, "plural" (English plurals, the default), "none", or a Snowball
            stemmer such as "german".
        synonyms: A file of rules, `sofa, couch` or `tee => t shirt` on each line; the library copies it.
        device: Of the models: "cpu", "cuda", "mps"; None for the best there is.

    Returns:
        The library, open; its `report` says what was added, skipped and broken.

    Raises:
        LibraryError: Another update is under way; model or source are not those of the library; there is no picture.
        EncoderError: The model cannot be loaded, or takes no pictures.

    Example:
        >>> from pathlib import Path
        >>> import visir
        >>> from PIL import Image
        >>> Path("holiday").mkdir()
        >>> Image.new("RGB", (64, 48), "red").save("holiday/red.png")
        >>> library = visir.index("holiday", "pixels")
        >>> library.folder.name, len(library), library.report.added
        ('holiday.visir', 1, 1)
        >>> visir.index("holiday").report.unchanged
        1
    """
    if not isinstance(source, str | PathLike):
        raise LibraryError(
            f"a library is made of photos on disk, not of a {type(source).__name__}.",
            hint='name what it was opened from: visir.index("photos/", model) or visir.index("captions.csv", model); a '
            "collection in memory: visir.search(collection, model, query); vectors or parts: "
            "visir.retrieval.build_index",
        )
    given = Path(source)
    if is_library(given) and out is None:
        place, folder = None, given
    else:
        place, folder = source, Path(out) if out is not None else default_folder(str(source))
    loaded: dict[str, Encoder] = {}
    names = [_named(model, loaded), _named(head, loaded)]
    if names[0] is None and not is_library(folder):
        default = default_model(source, [images] if isinstance(images, str | Path) else images, split)
        names[0] = default.name
        print(f"model {default.name}: {default.reason}", file=sys.stderr, flush=True)  # noqa: T201
    before = places_of(folder)
    report = update(
        place,
        folder,
        model=names[0],
        head=names[1],
        kind=kind,
        settings=settings,
        name=name,
        split=split,
        images=[images] if isinstance(images, str | Path) else images,
        verify=verify,
        language=language,
        synonyms=synonyms,
        device=device,
        loaded=loaded,
    )
    for removal in removals(before, places_of(folder)):
        warnings.warn(
            f"{folder}: no longer used, and left on its server; unless a copy of this library uses it: {removal}",
            stacklevel=2,
        )
    snapshot = LibrarySnapshot.open(folder.absolute())
    library = Library(Searcher(snapshot, device=device, loaded=loaded), loaded=loaded, device=device)
    library.report = report
    return library


def _named(model: str | PathLike[str] | Encoder | None, loaded: dict[str, Encoder]) -> str | None:
    """The name of a model; an encoder is put among those that are in memory."""
    if model is None or isinstance(model, str | PathLike):
        return None if model is None else str(model)
    loaded[model.card.name] = model
    return model.card.name


# Whether Python runs interactively, where nothing may block a person.


def in_background(background: bool | None) -> bool:
    """Whether to work in the background: as the caller says, else where Python runs interactively."""
    return is_interactive() if background is None else background


def is_interactive() -> bool:
    """Whether a person types lines one by one: a notebook, IPython, or Python's own prompt."""
    import builtins
    import sys

    return hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")


_CHUNK = 500


class Library(Columnar):
    """Photos that can be searched, in a folder that `visir.index` made.

    It always shows the newest state of the folder: every search looks whether another process has updated it. It is
    safe to use from several threads.

    Attributes:
        folder: Where it lies.
        report: What the last update by this object did; None where there was none.

    Example:
        >>> from pathlib import Path
        >>> import visir
        >>> from PIL import Image
        >>> Path("photos").mkdir()
        >>> for name, colour in {"red": (200, 20, 20), "blue": (20, 20, 200)}.items():
        ...     Image.new("RGB", (64, 48), colour).save(f"photos/{name}.png")
        >>> library = visir.index("photos", "pixels")
        >>> len(library), library.name, library["red.png"].path.name
        (2, 'photos', 'red.png')
        >>> results = library.search(image=Image.new("RGB", (80, 60), (190, 10, 10)), k=1)
        >>> results[0].name, results[0].rank
        ('red.png', 1)
    """

    def __init__(self, searcher: Searcher, *, loaded: dict[str, Encoder], device: str | None = None) -> None:
        self.folder = searcher.library.folder
        self.report: UpdateReport | None = None
        self._searcher, self._loaded, self._device = searcher, loaded, device

    @classmethod
    def open(
        cls, folder: str | Path, *, model: Encoder | None = None, head: Encoder | None = None, device: str | None = None
    ) -> Library:
        """Open a library.

        Args:
            folder: Its folder.
            model: An encoder in memory, for a library that was made with an encoder of one's own.
            head: Likewise, a sparse head.
            device: Of the models: "cpu", "cuda", "mps"; None for the best there is.

        Raises:
            LibraryError: It is missing, damaged, half copied, or of a newer visir.

        Example:
            >>> import visir
            >>> visir.index("scenes:12?size=64", "pixels", out="drawn.visir").close()
            >>> with visir.Library.open("drawn.visir") as library:
            ...     len(library)
            12
        """
        snapshot = LibrarySnapshot.open(Path(folder).absolute())
        given = {snapshot.model: model, snapshot.head: head}
        loaded = {name: encoder for name, encoder in given.items() if name and encoder is not None}
        return cls(Searcher(snapshot, device=device, loaded=loaded), loaded=loaded, device=device)

    # ---- what it is ----

    @property
    def snapshot(self) -> LibrarySnapshot:
        """Its newest state, with the database and the indexes; that object itself never changes."""
        self._searcher.reload()
        return self._searcher.library

    @property
    def name(self) -> str:
        """What people call it."""
        return self._searcher.library.name

    @property
    def model(self) -> str:
        """The name of its model, as `visir.load` takes it; empty for products that are searched by words alone."""
        return self._searcher.library.model

    @property
    def source(self) -> str:
        """What it was made of."""
        return self._searcher.library.card.source

    @property
    def takes_texts(self) -> bool:
        """Whether it can be searched with a text."""
        texts = self._searcher.library.card.texts
        return "words" in self._searcher.ways or (self._searcher.takes_texts if texts is None else texts)

    @property
    def systems(self) -> tuple[str, ...]:
        """Those of "dense", "sparse" and "hybrid" that can answer."""
        return self._searcher.systems

    @property
    def categories(self) -> tuple[Category, ...]:
        """The tree of folders, or of what the source calls categories."""
        self._searcher.reload()
        return self._searcher.categories()

    @property
    def ids(self) -> list[str]:
        """The ids of its pictures, by the path of their first file."""
        return self.snapshot.ids()

    # ---- searching ----

    def search(
        self,
        text: str | Query | None = None,
        *,
        k: int = 10,
        image: str | Path | Image | None = None,
        like: str | Path | LibraryPicture | Item | None = None,
        where: str | Sequence[Any] = (),
        category: str | None = None,
        read_prices: bool = True,
        offset: int = 0,
        text_weight: float = 0.5,
        by: By | None = None,
        system: System | None = None,
        fusion: Fusion | None = None,
        weight: float | None = None,
        rerank: int = 0,
    ) -> LibraryResults:
        """Find pictures by words, by a picture, or by both.

        Args:
            text: What to look for, in words; or a whole `visir.library.Query`, and then no other argument counts.
            k: How many answers.
            image: Look for what fits this picture: a file, or a PIL picture.
            like: Look for what is like this picture of the library: its id, its path, its name, or itself.
            where: Conditions that every answer satisfies: "width >= 800", or several of them.
            category: Only this folder or category, with everything below it.
            read_prices: Whether words such as "under 50" are a condition on the price, in a library that has prices.
            offset: How many of the best answers to skip; `results.next_offset` is that of the next page.
            text_weight: Weight of the text beside a picture, from 0 to 1.
            by: "words", "vectors", or "both" (the default for a text where the library has both, and knows a word).
            system: Of vectors: "dense" (late interaction too), "sparse" or "hybrid". Default: dense where it is there.
            fusion: How rankings are joined: "rrf" or "weighted". Default: "weighted" for both, "rrf" for hybrid.
            weight: Weight of the vectors (default: 0.3), of dense in hybrid (0.5), in weighted fusion, from 0 to 1.
            rerank: How many of the best answers the model's matching head puts in order.

        Raises:
            QueryError: The query contradicts itself, or this library cannot answer it; every fault is listed.
            FilterError: A condition does not fit the fields of the library.
            UnknownItemError: `like` is no picture of the library, or several.
            UnknownCategoryError: The library has no such category; the nearest is named.

        Example:
            >>> import visir
            >>> library = visir.index("scenes:12?size=64", "pixels", out="drawn.visir")
            >>> [first, *others] = library
            >>> library.search(image=first.thumbnail, k=1)[0].name == first.name
            True
            >>> len(library.search(like=first.name, where="width < 100", k=5))
            5
            >>> library.search("a red car", by="vectors")
            Traceback (most recent call last):
            visir.library.query.QueryError: this library takes no text: its model encodes pictures alone.
              → search with a picture, or for pictures like one of its own
        """
        if isinstance(text, Query):
            query = text
        else:
            query = Query(
                text=text,
                image=image,
                like=self._like(like),
                text_weight=text_weight,
                by=by,
                system=system,
                fusion=fusion,
                weight=weight,
                where=where,
                category=category,
                read_prices=read_prices,
                k=k,
                offset=offset,
                rerank=rerank,
            )
        self._searcher.reload()
        return results_of(self._searcher.library, query, self._searcher.find(query))

    def explain(
        self, picture: str | Path | LibraryPicture | Item, text: str | Query, **fields: Any
    ) -> ExplainedPicture:
        """Say why a picture answers a search, whether it is among the answers or not."""
        self._searcher.reload()
        library = self._searcher.library
        query = text if isinstance(text, Query) else Query(text=text, **fields)
        item = library.item(library.id_of(self._like(picture) or ""))
        return ExplainedPicture(picture_of(library, item), query, self._searcher.explain(query, item.id))

    @property
    def fields(self) -> dict[str, Field]:
        """The fields that conditions (`where`) can name."""
        return dict(self.snapshot.fields)

    def facets(
        self,
        text: str | None = None,
        *,
        where: str | Sequence[Any] = (),
        category: str | None = None,
        fields: Sequence[str] | None = None,
        by: By | None = None,
        system: System | None = None,
        read_prices: bool = True,
    ) -> Facets:
        """Count how many items have each brand, lie in each category, cost how much.

        Args:
            text: Count what these words find; where vectors rank everything, everything is counted (`Facets.of`).
            where: Conditions that every counted item satisfies; a field is counted without those on itself, which its
                `left_out` lists.
            category: Only this folder or category, with everything below it.
            fields: The fields; None takes the category, price and brand, and others that group the items.
            by: What the text is searched by, as of `search`.
            system: Of vectors, as of `search`.
            read_prices: Whether words such as "under 50" are a condition on the price.

        Raises:
            FilterError: A field is unknown, or a condition does not fit.
            QueryError: The library cannot be searched so.

        Example:
            >>> import visir
            >>> from pathlib import Path
            >>> _ = Path("shop.csv").write_text("id,title,brand\\n1,red cup,Acme\\n2,pot,Acme\\n3,pan,Zeta\\n")
            >>> visir.index("shop.csv", "bow").facets()["brand"].values[0].count
            2
        """
        self._searcher.reload()
        query = {"text": text, "where": where, "category": category, "read_prices": read_prices}
        given = {name: value for name, value in (("by", by), ("system", system)) if value is not None}
        return self._searcher.facets({**query, **given}, fields)

    def _like(self, like: str | Path | LibraryPicture | Item | None) -> str | None:
        """A picture as `Query.like` names it: what lies below the photos' folder by its path there."""
        if like is None or isinstance(like, LibraryPicture | Item):
            return None if like is None else like.id
        root, path = Path(self._searcher.library.card.root), Path(like)
        for place in (path, path.absolute()):
            if place.is_absolute() and place.is_relative_to(root) and place.exists():
                return place.relative_to(root).as_posix()
        return str(like)

    # ---- its pictures ----

    def __len__(self) -> int:
        return len(self.snapshot)

    def __iter__(self) -> Iterator[LibraryPicture]:
        snapshot = self.snapshot
        ids = snapshot.ids()
        for start in range(0, len(ids), _CHUNK):
            for item in snapshot.items(ids[start : start + _CHUNK]):
                yield picture_of(snapshot, item)

    def __getitem__(self, like: str | Path) -> LibraryPicture:
        """The picture of this id, path or name. Raises `UnknownItemError` (a `KeyError` too) unless there is one."""
        snapshot = self.snapshot
        return picture_of(snapshot, snapshot.item(snapshot.id_of(self._like(like) or "")))

    def __contains__(self, like: object) -> bool:
        try:
            self[like]  # type: ignore[index]
        except (UnknownItemError, TypeError):
            return False
        return True

    # ---- keeping it ----

    def update(self, *, verify: bool = False, callback: Tell = lambda stage, done, total: None) -> UpdateReport:
        """Bring the library up to date with its photos: new, changed, moved and deleted ones.

        Args:
            verify: Whether to read every file, also those whose size and time of change are as they were.
            callback: Called with the stage ("reading", "encoding", "writing"), how much of it is done, and of how much.

        Returns:
            What was added, changed, moved, deleted and skipped.

        Raises:
            LibraryError: Another update is under way, or the photos are away; then the library stays as it was.

        Example:
            >>> import visir
            >>> from PIL import Image
            >>> Path("growing").mkdir()
            >>> Image.new("RGB", (64, 48), "red").save("growing/red.png")
            >>> library = visir.index("growing", "pixels")
            >>> Image.new("RGB", (64, 48), "blue").save("growing/blue.png")
            >>> library.update().added, len(library)
            (1, 2)
        """
        self.report = update(
            None, self.folder, verify=verify, device=self._device, loaded=self._loaded, callback=callback
        )
        self._searcher.reload()
        return self.report

    def watch(self, *, settle: float = 2.0, background: bool | None = None) -> Watcher | None:
        """Update the library whenever something changes among its photos.

        Args:
            settle: Seconds without a change before it is updated.
            background: Whether to return at once, with a `Watcher` that can be stopped, instead of watching until
                Ctrl-C. None: in the background where Python runs interactively (a notebook, IPython).

        Raises:
            MissingPackageError: The package watchfiles (extra `watch`) is not installed.
            LibraryError: Its source is no folder on a disk.

        Example:
            >>> import visir
            >>> from PIL import Image
            >>> Path("watched").mkdir()
            >>> Image.new("RGB", (64, 48), "red").save("watched/red.png")
            >>> with visir.index("watched", "pixels").watch(background=True) as watcher:
            ...     watcher.is_alive
            True
        """
        from visir.library.watch import Watcher

        watcher = Watcher(self.folder, self.update, settle=settle)
        if in_background(background):
            return watcher
        watcher.wait()
        return None

    def check(self) -> list[str]:
        """Read every byte of the library and compare it with its checksums.

        Returns:
            What is wrong, as sentences; empty for a sound library.
        """
        from visir.library.check import check

        return check(self.folder)

    def duplicates(self, *, near: int | None = None) -> DuplicatePictures:
        """Find files of equal content, and pictures that nearly look the same (resized, recompressed).

        Args:
            near: In how many of 256 bits the hashes of near duplicates may differ. Default: 48.

        Example:
            >>> import visir
            >>> from PIL import Image
            >>> Path("double").mkdir()
            >>> for name in ("red", "copy of red"):
            ...     Image.new("RGB", (64, 48), "red").save(f"double/{name}.png")
            >>> [[path.name for path in group] for group in visir.index("double", "pixels").duplicates().exact]
            [['copy of red.png', 'red.png']]
        """
        return DuplicatePictures.of(self.snapshot, near=near)

    def serve(
        self,
        *,
        port: int = 8765,
        host: str = "127.0.0.1",
        open_browser: bool | None = None,
        background: bool | None = None,
        **settings: Any,
    ) -> RunningService | None:
        """Serve the library: a search page, and an HTTP API.

        Args:
            port: 0 takes one that is free.
            host: The address to listen on. Other addresses than this machine's own want `tokens`.
            open_browser: Whether to open the page. Default: where Python runs interactively and has a screen.
            background: Whether to return at once, with a handle that has `url` and `stop()`, instead of serving until
                Ctrl-C. None: in the background where Python runs interactively (a notebook, IPython).
            settings: Further fields of `visir.library.service.settings.ServiceSettings`.

        Raises:
            ConfigurationError: The port is in use, or the settings do not fit.
            MissingPackageError: The packages of the extra `serve` are not installed.

        Example:
            >>> import visir
            >>> library = visir.index("scenes:12?size=64", "pixels", out="drawn.visir")
            >>> with library.serve(port=0, background=True) as service:
            ...     service.url.startswith("http://127.0.0.1:")
            True
        """
        from visir.library.service.running import RunningService, open_page

        interactive = is_interactive()
        service = RunningService.start(
            [self.folder], host=host, port=port, device=self._device, loaded=self._loaded, **settings
        )
        if interactive if open_browser is None else open_browser:
            open_page(service.url, only_with_screen=open_browser is None)
        if in_background(background):
            return service
        service.wait()
        return None

    def close(self) -> None:
        """Close its database. What was handed out stays as it is."""
        self._searcher.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        library = self._searcher.library
        no_texts = library.card.texts is False and "words" not in self._searcher.ways
        return brief(
            self,
            f"{library.name!r}, {counted(len(library), library.card.unit)}",
            f"of {self.source}, in {self.folder}",
            f"model {library.model or NO_MODEL}" + (f", sparse head {library.head}" if library.head else ""),
            "takes pictures to search with, no texts" if no_texts else "",
        )
