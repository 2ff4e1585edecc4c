"""What visir keeps on disk: folders that visir made, the files in them, and how they change, survive kills and go.

- `disk.py`: what a disk refuses, as errors; bytes on disk before anything counts on them; the only code that removes
- `manifest.py`: `visir.json`, which says what a folder is and which files in it visir wrote, with checksums
- `claims.py`: the log of file names that a writer has begun, and its lock
- `folder.py`: a folder is read as it was written, and is changed in place, in one step
- `scratch.py`: a folder or a file that appears at once; unfinished work, removed when its writer is done or dead
- `shared.py`: entries found by a key of their content; a folder in which many machines write without locks

The rule that all of it keeps: visir removes or replaces a file only when a manifest or a log of claims that visir wrote
into that folder names it, and the file is as visir left it. Never by a guess from its name, never through a symbolic
link, and never in a folder that held something before visir made it.
"""

from visir.storage.claims import is_begun, locked, locked_or
from visir.storage.disk import check_version
from visir.storage.folder import (
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
    sweep,
    write_new,
)
from visir.storage.shared import ContentStore, SharedFolder

__all__ = [
    "MANIFEST",
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
    "put",
    "read_checked",
    "read_written_json",
    "recover",
    "remove_folder",
    "remove_own_folders",
    "sweep",
    "write_new",
]
