"""Run by a test in a namespace of its own, in a folder with real mounts: fills and replaces what is mounted."""

from pathlib import Path

from folder_toys import BOX, make, tree

from visir.storage import FolderError, Manifest, new_folder
from visir.storage.scratch import write_new

for name in ("disk", "bound"):
    target = Path(name)
    make(target, one="1")
    assert tree(target) == {"one": b"1"}, tree(target)
    (target / "mine").write_text("mine")
    with new_folder(target, BOX, replace=True) as change:
        change.file("two").write_text("2")
    assert tree(target) == {"mine": b"mine", "two": b"2"}, tree(target)
    assert Manifest.read(target, BOX).faults(target) == []
write_new("run.json", b"new", replace=True)
assert Path("run.json").read_text() == "new"
for refused in (lambda: make(Path("closed"), one="1"), lambda: make(Path("closed/box"), one="1")):
    try:
        refused()
    except FolderError as fault:
        assert "closed" in fault.message, fault
    else:
        raise AssertionError("a disk that can only be read")
