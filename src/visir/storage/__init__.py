"""What visir keeps on disk: folders that visir made, the files in them, and how they change, survive kills and go.

A folder has `visir.json` (`manifest.py`), which says what it is and which files in it visir wrote, and, while somebody
writes, a log of what is begun, which is the lock, too (`claims.py`). It is changed in place, in one step (`folder.py`),
or appears at once, as files do (`scratch.py`); many processes share one (`shared.py`). Files go in `disk.py` alone.

The rule that all of it keeps: visir removes or replaces a file only when a manifest or a log of claims that visir wrote
into that folder names it, and the file is as visir left it. Never by a guess from its name, never through a symbolic
link, and never in a folder that held something before visir made it.
"""

from visir.storage.claims import is_begun, locked, locked_or
from visir.storage.disk import check_version
from visir.storage.folder import (
    Cells,
    FolderChange,
    LateCheck,
    changing,
    check_folder,
    check_written,
    counted,
    digest_once,
    put,
    read_checked,
    read_written_json,
    recover,
    remove_folder,
    remove_own_folders,
)
from visir.storage.manifest import MANIFEST, FileRecord, FolderError, FolderKind, Manifest, is_made_by_visir
from visir.storage.scratch import (
    Scratch,
    check_new_file,
    check_new_folder,
    check_place,
    new_file,
    new_folder,
    new_plain_folder,
    sweep,
    write_new,
)
from visir.storage.shared import ContentStore, SharedFolder

__all__ = [
    "MANIFEST",
    "Cells",
    "ContentStore",
    "FileRecord",
    "FolderChange",
    "FolderError",
    "FolderKind",
    "LateCheck",
    "Manifest",
    "Scratch",
    "SharedFolder",
    "changing",
    "check_folder",
    "check_new_file",
    "check_new_folder",
    "check_place",
    "check_version",
    "check_written",
    "counted",
    "digest_once",
    "is_begun",
    "is_made_by_visir",
    "locked",
    "locked_or",
    "new_file",
    "new_folder",
    "new_plain_folder",
    "put",
    "read_checked",
    "read_written_json",
    "recover",
    "remove_folder",
    "remove_own_folders",
    "sweep",
    "write_new",
]
