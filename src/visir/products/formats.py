"""The layouts of catalogues, in the order in which they are tried. A new one is one new file and one line here."""

from __future__ import annotations

from visir.collections.descriptor import Format
from visir.products import generated
from visir.products.readers import abo, amazon, fashion, flipkart, table
from visir.registry import Registry

FORMATS: Registry[Format] = Registry("catalogue format")

for _reader in (flipkart, fashion, amazon, abo, table, generated):
    FORMATS.add(_reader.FORMAT.name, _reader.FORMAT)
