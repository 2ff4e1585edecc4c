"""The page on environment variables. A variable that the code reads and the page lacks stops the build."""

from __future__ import annotations

import re

from sources import python_files

OWN = {
    "VISIR_DATA": "The folder where recipes, studies and `visir demo` look for data sets and model files. No default.",
    "VISIR_CACHE": "The folder for vectors that were computed before, and other files that can be made again. "
    "Default: the user's cache folder (`~/.cache/visir` on Linux). It must be on a local disk.",
    "VISIR_DEVICE": "Where models compute for which no device is named: `cpu`, `cuda:1`, `openvino`. A model that cannot "
    "be compiled computes with PyTorch then, and a warning says so. Without it: the fastest device there is.",
    "VISIR_MAX_PIXELS": "The largest picture that is read, in pixels: `300e6`. Larger ones are refused, because a small "
    "file can hold a picture that fills the memory.",
    "VISIR_QUIET": "`1`: commands print results only, no progress and no notes, as `--quiet` does.",
    "VISIR_TRACEBACK": "`1`: an error is printed with Python's traceback. Use it when you report a fault.",
    "VISIR_TRUSTED_CODE": "The names of models whose own Python code may run where a library, an index or another "
    "file names them, one in each line. Read that code first.",
    "VISIR_QDRANT_URL": "The addresses of Qdrant servers that you trust, with spaces between them.",
    "VISIR_QDRANT_API_KEY": "The API key of these servers. It is never written to a file.",
    "VISIR_QDRANT_CERTIFICATE": "A PEM file with certificates to trust for these servers.",
    "VISIR_PGVECTOR_URL": "The addresses of PostgreSQL servers that you trust, with spaces between them.",
    "VISIR_PGVECTOR_PASSWORD": "The password for these servers. It is never written to a file.",
    "VISIR_PGVECTOR_CERTIFICATE": "A PEM file with certificates to trust for these servers; without one, a password is "
    "never sent to another machine in clear.",
    "VISIR_MILVUS_URL": "The addresses of Milvus servers that you trust, with spaces between them.",
    "VISIR_MILVUS_TOKEN": "The token for these servers (`user:password`, or an API key). It is never written to a file.",
    "VISIR_MILVUS_CERTIFICATE": "A PEM file with certificates to trust for these servers.",
}
OTHERS = {
    "OMP_NUM_THREADS": "How many threads PyTorch and NumPy use. Set it to the cores that you want visir to use.",
    "NO_COLOR": "No colours in the terminal, whatever the value.",
    "COLUMNS": "The width of tables where the output is no terminal.",
    "HF_HUB_OFFLINE": "`1`: load models of the Hugging Face hub from the disk only.",
    "HF_HOME": "Where models of the Hugging Face hub are kept.",
    "CUDA_VISIBLE_DEVICES": "Which GPUs are used: `0`, `0,1`; empty for none.",
}


def page() -> dict[str, str]:
    """Path → Markdown."""
    used = {
        name for path in python_files() for name in re.findall(r"\bVISIR_[A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    if used != set(OWN):
        raise ValueError(
            f"environment variables: the code has {sorted(used)}, scripts/docs_site/environment.py {sorted(OWN)}"
        )
    return {
        "reference/environment.md": "# Environment variables\n\n"
        "## Of visir\n\n" + _table(OWN) + "\n\n## Of libraries that visir uses\n\n" + _table(OTHERS) + "\n"
    }


def _table(rows: dict[str, str]) -> str:
    return "| variable | what it does |\n|---|---|\n" + "\n".join(
        f"| `{name}` | {text} |" for name, text in rows.items()
    )
