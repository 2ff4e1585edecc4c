"""Read and write runs in the formats of other tools. A format is one file here and one entry in `FORMATS`."""

from visir.retrieval.formats.dictionaries import (
    from_dict,
    from_frame,
    from_ranx,
    qrels_to_dict,
    to_ir_measures,
    to_ranx,
)
from visir.retrieval.formats.files import FORMATS, write_run
from visir.retrieval.formats.reading import read_run
from visir.retrieval.formats.trec import write_qrels

__all__ = [
    "FORMATS",
    "from_dict",
    "from_frame",
    "from_ranx",
    "qrels_to_dict",
    "read_run",
    "to_ir_measures",
    "to_ranx",
    "write_qrels",
    "write_run",
]
