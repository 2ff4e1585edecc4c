"""XMP as plain values: RDF in XML, from a file that may come from anybody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

_PREFIXES = {
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/XML/1998/namespace": "xml",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://ns.adobe.com/xap/1.0/": "xmp",
    "http://ns.adobe.com/photoshop/1.0/": "photoshop",
    "http://ns.adobe.com/lightroom/1.0/": "lr",
    "http://ns.adobe.com/exif/1.0/": "exif",
    "http://www.digikam.org/ns/1.0/": "digiKam",
    "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/": "Iptc4xmpCore",
    "http://iptc.org/std/Iptc4xmpExt/2008-02-29/": "Iptc4xmpExt",
    "http://www.metadataworkinggroup.com/schemas/regions/": "mwg-rs",
    "http://ns.microsoft.com/photo/1.2/": "MP",
    "http://ns.microsoft.com/photo/1.2/t/RegionInfo#": "MPRI",
    "http://ns.microsoft.com/photo/1.2/t/Region#": "MPReg",
}
"""What programs call these spaces of names; others keep their address."""
LARGEST = 1 << 24
_DEEPEST, _MOST = 60, 200_000
_LISTS = ("rdf:Bag", "rdf:Seq", "rdf:Alt")


class XmpError(ValueError):
    """It is no XMP, or does what XMP does not do."""


@dataclass
class _Node:
    """An element."""

    name: str
    attributes: dict[str, str]
    children: list[_Node] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def properties(self) -> dict[str, str]:
        """Its attributes that are properties."""
        return {name: text for name, text in self.attributes.items() if name.partition(":")[0] not in ("rdf", "xml")}


def read_xmp(data: bytes) -> dict[str, Any]:
    """The properties of a packet: from "dc:subject" to a text, a list, or a mapping of the same kind.

    Raises `XmpError` for what is no XML, declares entities, or is larger or deeper than any program writes.
    """
    result: dict[str, Any] = {}
    for description in _descriptions(_parsed(data)):
        for name, value in [*description.properties.items(), *((each.name, _value(each)) for each in
                            description.children)]:  # fmt: skip
            if name not in result:
                result[name] = value
                continue
            if not isinstance(result[name], list):  # several descriptions of one picture
                result[name] = [result[name]]
            result[name].extend(value if isinstance(value, list) else [value])
    return result


def _parsed(data: bytes) -> _Node:
    data = data.strip(b"\0 \t\r\n")
    if len(data) > LARGEST:
        raise XmpError(f"it has {len(data):,} bytes")
    root = _Node("", {})
    open_nodes, count = [root], 0

    def refused(*_: object) -> None:
        raise XmpError("it declares a document type, which XMP has none of")

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > _MOST or len(open_nodes) > _DEEPEST:
            raise XmpError("it has more elements, or deeper ones, than any program writes")
        node = _Node(_named(name), {_named(key): text for key, text in attributes.items()})
        open_nodes[-1].children.append(node)
        open_nodes.append(node)

    # No entity is ever declared, so none is expanded, and nothing outside is looked up.
    parser = expat.ParserCreate(namespace_separator="\t")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refused
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_nodes.pop()
    parser.CharacterDataHandler = lambda text: open_nodes[-1].texts.append(text)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as fault:
        raise XmpError(f"no XML: {fault}") from None
    return root


def _named(name: str) -> str:
    space, _, local = name.rpartition("\t")
    return f"{_PREFIXES.get(space, space)}:{local}" if space else local


def _descriptions(node: _Node) -> list[_Node]:
    """What rdf:RDF says, wherever it stands."""
    if node.name == "rdf:RDF":
        return node.children
    return [results for child in node.children for results in _descriptions(child)]


def _value(node: _Node) -> Any:
    """A property: a text, a list, or what has properties of its own."""
    if len(node.children) == 1 and node.children[0].name in _LISTS:
        return [_value(each) for each in node.children[0].children]
    if len(node.children) == 1 and node.children[0].name == "rdf:Description":
        return _value_of_structure(node.children[0])
    if node.children or node.properties:
        return _value_of_structure(node)
    return "".join(node.texts).strip()


def _value_of_structure(node: _Node) -> Any:
    for child in node.children:
        if child.name == "rdf:value":  # a text with qualifiers
            return _value(child)
    return {**node.properties, **{child.name: _value(child) for child in node.children}}
