"""How hard pages are to read: words, words per sentence, Flesch–Kincaid grade.

    python scripts/reading_level.py docs/how-to/*.md
    python scripts/reading_level.py --commit HEAD~20 README.md

Code, tables, addresses of links and HTML are left out; the items of lists are sentences. Syllables are counted by
hyphenation (pyphen). A grade of 8 is easy for most readers, 12 is the end of school, above 14 is hard.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import pyphen

HYPHENS = pyphen.Pyphen(lang="en_US")


def prose(markdown: str) -> str:
    """The sentences of a page: no code, tables, marks."""
    text = re.sub(r"\A---\n.*?\n---\n", "", markdown, flags=re.S)
    text = re.sub(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)(\{[^}]*\})?", r"\1", text)
    lines = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("|", "===", "!!!", "???")):
            continue
        if re.match(r"(#+|[-*]|\d+\.) ", bare):
            bare = re.sub(r"^(#+|[-*]|\d+\.) ", "", bare)
            lines.append("")
        lines.append(bare if not line.startswith("#") else "")
    text = re.sub(r"`[^`]*`", "code", "\n".join(lines))
    text = re.sub(r"[*_]{1,2}|:[a-z-]+:", "", text)
    paragraphs = [re.sub(r"\s+", " ", one).strip() for one in re.split(r"\n\s*\n", text)]
    return " ".join(one if one[-1] in ".!?" else one.rstrip(":;,") + "." for one in paragraphs if one)


def measured(markdown: str) -> tuple[int, float, float]:
    """Words of prose, words per sentence, Flesch–Kincaid grade."""
    text = prose(markdown)
    words = re.findall(r"[A-Za-z][A-Za-z'’-]*", text)
    sentences = len(re.findall(r"[.!?]+(?:\s|$)", text)) or 1
    syllables = sum(1 + len(HYPHENS.positions(word.lower())) for word in words)
    length = len(words) / sentences
    return len(words), length, 0.39 * length + 11.8 * syllables / max(1, len(words)) - 15.59


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--commit", help="read the pages as they were in a commit of this repository")
    chosen = parser.parse_args()
    print("| page | words | words per sentence | Flesch–Kincaid grade |\n|---|--:|--:|--:|")
    for page in chosen.pages:
        if chosen.commit:
            text = subprocess.check_output(["git", "show", f"{chosen.commit}:{page}"], text=True)
        else:
            text = page.read_text(encoding="utf-8")
        words, length, grade = measured(text)
        print(f"| {page} | {words:,} | {length:.1f} | {grade:.1f} |")


if __name__ == "__main__":
    main()
