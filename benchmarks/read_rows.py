"""A million rows of captions, and the names of 100,000 pictures: visir beside DuckDB, pandas and `datasets`.

    python benchmarks/read_rows.py [--beside FOLDER]... [--rounds 3] [--rows 1000000] [--only csv,names]

`--beside` names the `src` of another version of visir, which is measured too, in turns with this one. Each measurement
is a process of its own: what is told is the least CPU time and the least wall time of the rounds, from the call to
what it returns (what a library imports only then is in it), and the peak of memory, with the libraries (of Linux).

What is not the same: visir joins the rows of a picture, checks ids, links and texts, and returns Arrow tables of
pictures and captions. DuckDB and pandas return the cells as a table, `datasets` writes them into its cache as Arrow.
Of the names, visir takes those of the folder as they are spelled there; DuckDB and pandas join equal names.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

NAMES = 100_000
_OPEN = "import visir; read = lambda: visir.open(FILE or FOLDER, images=IMAGES)"
_DUCKDB = "import duckdb; read = lambda: duckdb.execute({query!r}, [FILE]).to_arrow_table()"
_JOIN = (
    "import duckdb; read = lambda: duckdb.execute('from read_csv(?) left join (select parse_filename(file) as image "
    "from glob(?)) using (image)', [FILE, FOLDER + '/*']).to_arrow_table()"
)
_DATASETS = (
    "import datasets, tempfile; datasets.disable_progress_bars(); read = lambda: datasets.load_dataset("
    "{loader!r}, data_files=FILE, cache_dir=tempfile.mkdtemp(dir=SCRATCH){more})"
)
_FRAME = "import pandas, pyarrow.parquet; frame = pyarrow.parquet.read_table(FILE).to_pandas(); "
CALLS = {
    "visir": dict.fromkeys(
        ("csv", "tsv", "jsonl", "parquet", "names", "names spelled otherwise", "pairs", "sugarcrepe", "coco", "tokens"),
        _OPEN,
    )
    | {"frame": _FRAME + "import visir; read = lambda: visir.open(frame, images=IMAGES)"},
    "DuckDB": {
        "csv": _DUCKDB.format(query="from read_csv(?)"),
        "tsv": _DUCKDB.format(query="from read_csv(?, delim=chr(9))"),
        "jsonl": _DUCKDB.format(query="from read_json(?)"),
        "parquet": _DUCKDB.format(query="from read_parquet(?)"),
        "frame": _FRAME + "import duckdb; read = lambda: duckdb.execute('from frame').to_arrow_table()",
        "names": _JOIN,
    },
    "pandas": {
        "csv": "import pandas; read = lambda: pandas.read_csv(FILE)",
        "tsv": "import pandas; read = lambda: pandas.read_csv(FILE, sep=chr(9))",
        "jsonl": "import pandas; read = lambda: pandas.read_json(FILE, lines=True)",
        "parquet": "import pandas; read = lambda: pandas.read_parquet(FILE)",
        "names": "import os, pandas; read = lambda: pandas.read_csv(FILE).merge("
        "pandas.DataFrame(dict(image=os.listdir(FOLDER))), how='left', indicator=True)",
    },
    "datasets": {
        "csv": _DATASETS.format(loader="csv", more=""),
        "tsv": _DATASETS.format(loader="csv", more=", sep=chr(9)"),
        "jsonl": _DATASETS.format(loader="json", more=""),
        "parquet": _DATASETS.format(loader="parquet", more=""),
        "frame": _FRAME + "import datasets; read = lambda: datasets.Dataset.from_pandas(frame)",
    },
}
"""Library → what is read → the lines that make `read`, a function."""
_RUN = """
import json, re, time
from pathlib import Path
wall, cpu = time.perf_counter(), time.process_time()
result = read()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
print(json.dumps([cpu, wall, int(peak[1]) / 1e6]))
"""


def write_table(file: Path, images: list[str], texts: list[str]) -> None:
    """Write a table of captions in the form that its ending tells."""
    kind = file.suffix.removeprefix(".")
    if kind == "parquet":
        pq.write_table(pa.table({"image": images, "caption": texts}), file)
        return
    with file.open("w", newline="") as stream:
        if kind == "jsonl":
            rows = ({"image": image, "caption": text} for image, text in zip(images, texts, strict=True))
            stream.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.writer(stream, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
            writer.writerows([("image", "caption"), *zip(images, texts, strict=True)])


def make(root: Path, rows: int, only: list[str]) -> dict[str, dict[str, str]]:
    """Write the files; by what is read, where it lies."""
    images = [f"{number // 5:09d}.jpg" for number in range(rows)]
    texts = [f"Picture {number} shows, as one may say, a {number % 997} of {number % 89}." for number in range(rows)]
    given: dict[str, dict[str, str]] = {}
    for kind in [kind for kind in ("csv", "tsv", "jsonl", "parquet") if kind in only]:
        write_table(root / f"captions.{kind}", images, texts)
        given[kind] = {"FILE": str(root / f"captions.{kind}")}
    if "frame" in only:  # of pandas, read from the file before the clock starts
        write_table(root / "frame.parquet", images, texts)
        given["frame"] = {"FILE": str(root / "frame.parquet")}
    pictures, named = root / "pictures", texts[:NAMES]
    forms = {"names": "{:09d} café.jpg", "names spelled otherwise": "up\\{:09d}%20CAFE\u0301.JPEG"}
    for kind in [kind for kind in forms if kind in only]:
        pictures.mkdir(exist_ok=True)
        for number in range(len(named)):
            (pictures / forms["names"].format(number)).touch()
        write_table(root / f"{kind}.csv", [forms[kind].format(number) for number in range(len(named))], named)
        given[kind] = {"FILE": str(root / f"{kind}.csv"), "FOLDER": str(pictures), "IMAGES": str(pictures)}
    if "pairs" in only:
        given["pairs"] = {"FOLDER": str(root / "pairs")}
        (root / "pairs").mkdir()
        for number, text in enumerate(named[::10]):
            (root / "pairs" / f"{number:09d}.jpg").touch()
            (root / "pairs" / f"{number:09d}.txt").write_text(text)
    if "sugarcrepe" in only:  # seven files as published, of more items each
        given["sugarcrepe"] = {"FOLDER": str(root / "sugarcrepe"), "IMAGES": "none"}
        (root / "sugarcrepe").mkdir()
        for name in ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj"):
            items = {}
            for number, text in enumerate(texts[: rows // 50]):
                right = {"filename": f"{number % 5_000:012d}.jpg", "caption": text}
                items[str(number)] = right | {"negative_caption": texts[-number - 1]}
            (root / "sugarcrepe" / f"{name}.json").write_text(json.dumps(items))
    if "coco" in only:
        given["coco"] = {"FILE": str(root / "captions_val2014.json"), "IMAGES": "none"}
        listed = [{"id": number, "file_name": f"{number:012d}.jpg"} for number in range(rows // 5)]
        captions = [{"id": number, "image_id": number // 5, "caption": text} for number, text in enumerate(texts)]
        Path(given["coco"]["FILE"]).write_text(json.dumps({"images": listed, "annotations": captions}))
    if "tokens" in only:
        given["tokens"] = {"FILE": str(root / "results.token"), "IMAGES": "none"}
        pairs = enumerate(zip(images, texts, strict=True))
        lines = [f"{image}#{number % 5}\t{text}\n" for number, (image, text) in pairs]
        Path(given["tokens"]["FILE"]).write_text("".join(lines))
    return given


def measure(lines: str, source: str) -> list[float] | str:
    """CPU seconds, wall seconds and GB of a process that runs the lines; or the last line of its error."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    if source:
        environment["PYTHONPATH"] = source
    done = subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    figures: list[float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--beside", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(CALLS["visir"]))
    given = parser.parse_args()
    only = given.only.split(",")
    ways = {"visir": ("visir", str(Path(__file__).parents[1] / "src"))}
    ways |= {f"visir of {Path(place).parent.name}": ("visir", place) for place in given.beside}
    ways |= {name: (name, "") for name in CALLS if name != "visir"}
    table = Table(title=f"{given.rows:,} rows, {NAMES:,} names; load {os.getloadavg()[0]:.1f}", title_justify="left")
    for column in ("what", "with", "CPU, s", "wall, s", "peak, GB"):
        table.add_column(column, justify="left" if column in ("what", "with") else "right")
    with tempfile.TemporaryDirectory() as root:
        for kind, places in make(Path(root), given.rows, only).items():
            able = {way: (library, source) for way, (library, source) in ways.items() if kind in CALLS[library]}
            rounds: dict[str, list[list[float] | str]] = {way: [] for way in able}
            for number in range(given.rounds):
                for way in list(able)[:: 1 if number % 2 else -1]:
                    library, source = able[way]
                    known = {
                        "FILE": "",
                        "FOLDER": "",
                        "IMAGES": None if kind == "pairs" else "none",
                        "SCRATCH": root,
                        **places,
                    }
                    names = "".join(f"{name} = {place!r}\n" for name, place in known.items())
                    rounds[way].append(measure(names + CALLS[library][kind] + _RUN, source))
            for way, figures in rounds.items():
                if fault := next((figure for figure in figures if isinstance(figure, str)), ""):
                    table.add_row(kind, way, "refused", fault[:30])
                    continue
                measured = [figure for figure in figures if not isinstance(figure, str)]
                cpu, wall, peak = (min(column) for column in zip(*measured, strict=True))
                table.add_row(kind, way, f"{cpu:.2f}", f"{wall:.2f}", f"{peak:.2f}")
    Console(width=110).print(table)
    print(f"load at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
