"""Photos with metadata as programs write it: bytes of EXIF, IPTC and XMP, and files beside them."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from PIL.TiffImagePlugin import IFDRational

PACKET = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>{}<?xpacket end="w"?>'

LIGHTROOM = """<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Adobe XMP Core 7.0-c000">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about=""
    xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" xmlns:lr="http://ns.adobe.com/lightroom/1.0/"
    xmlns:Iptc4xmpCore="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/"
    xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
   xmp:Rating="4" photoshop:City="Étretat" photoshop:State="Normandie" photoshop:Country="France"
   Iptc4xmpCore:Location="Falaise d’Aval">
   <dc:title><rdf:Alt><rdf:li xml:lang="x-default">Cliffs at noon</rdf:li></rdf:Alt></dc:title>
   <dc:description><rdf:Alt><rdf:li xml:lang="x-default">White cliffs above a green sea</rdf:li></rdf:Alt>
   </dc:description>
   <dc:creator><rdf:Seq><rdf:li>Jo Maler</rdf:li></rdf:Seq></dc:creator>
   <dc:subject><rdf:Bag><rdf:li>beach</rdf:li><rdf:li>Chiara</rdf:li><rdf:li>Normandy</rdf:li></rdf:Bag></dc:subject>
   <lr:hierarchicalSubject><rdf:Bag><rdf:li>People|Chiara</rdf:li><rdf:li>Places|France|Normandy</rdf:li></rdf:Bag>
   </lr:hierarchicalSubject>
   <Iptc4xmpExt:PersonInImage><rdf:Bag><rdf:li>Chiara</rdf:li></rdf:Bag></Iptc4xmpExt:PersonInImage>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>"""

DIGIKAM = """<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:digiKam="http://www.digikam.org/ns/1.0/"
    xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:mwg-rs="http://www.metadataworkinggroup.com/schemas/regions/"
    xmlns:stArea="http://ns.adobe.com/xmp/sType/Area#" xmlns:exif="http://ns.adobe.com/exif/1.0/"
   xmp:Rating="5" exif:GPSLatitude="52,31.2N" exif:GPSLongitude="13,24.3E">
   <digiKam:TagsList><rdf:Seq><rdf:li>People/Anna</rdf:li><rdf:li>Animals/Dog</rdf:li></rdf:Seq></digiKam:TagsList>
   <dc:subject><rdf:Bag><rdf:li>Anna</rdf:li><rdf:li>Dog</rdf:li></rdf:Bag></dc:subject>
   <mwg-rs:Regions rdf:parseType="Resource">
    <mwg-rs:AppliedToDimensions rdf:parseType="Resource"/>
    <mwg-rs:RegionList><rdf:Bag>
     <rdf:li><rdf:Description mwg-rs:Name="Anna" mwg-rs:Type="Face"><mwg-rs:Area stArea:x="0.5" stArea:y="0.4"/>
     </rdf:Description></rdf:li>
     <rdf:li rdf:parseType="Resource"><mwg-rs:Name>Boris</mwg-rs:Name><mwg-rs:Type>Face</mwg-rs:Type></rdf:li>
     <rdf:li rdf:parseType="Resource"><mwg-rs:Name>Rex</mwg-rs:Name><mwg-rs:Type>Pet</mwg-rs:Type></rdf:li>
    </rdf:Bag></mwg-rs:RegionList>
   </mwg-rs:Regions>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>"""

TAKEOUT = {
    "title": "IMG_3.jpg",
    "description": "Fireworks over the harbour",
    "photoTakenTime": {"timestamp": "1609455600"},
    "geoData": {"latitude": 48.8584, "longitude": 2.2945, "altitude": 33.0, "latitudeSpan": 0.0, "longitudeSpan": 0.0},
    "people": [{"name": "Dmitri Ivanov"}],
}


def packet(xmp: str) -> bytes:
    """XMP as it stands in a file."""
    return PACKET.format(xmp).encode()


def iptc(values: Sequence[tuple[int, str]], coding: str = "utf-8") -> bytes:
    """An APP13 segment of Photoshop with data sets of record 2."""
    sets = [(1, 90, b"\x1b%G")] if coding == "utf-8" else []
    sets += [(2, number, text.encode(coding)) for number, text in values]
    data = b"".join(b"\x1c" + bytes([record, number]) + struct.pack(">H", len(text)) + text
                    for record, number, text in sets)  # fmt: skip
    block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(data)) + data + b"\0" * (len(data) % 2)
    body = b"Photoshop 3.0\0" + block
    return b"\xff\xed" + struct.pack(">H", len(body) + 2) + body


def picture(colour: object, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """A picture of one colour."""
    return Image.new("RGB", size, colour)  # type: ignore[arg-type]


def jpeg(image: Image.Image, *, xmp: str = "", exif: Image.Exif | None = None, app13: bytes = b"") -> bytes:
    """A JPEG with these blocks."""
    stream = io.BytesIO()
    more = {} if exif is None else {"exif": exif.tobytes()}
    image.save(stream, "JPEG", **more, **({"xmp": packet(xmp)} if xmp else {}))
    data = stream.getvalue()
    return data[:2] + app13 + data[2:]


def exif_of(
    *, gps: tuple[float, float, float] | None = None, description: str = "", rating: int = 0, keywords: str = ""
) -> Image.Exif:
    """EXIF as phones and Windows write it."""
    exif = Image.Exif()
    if description:
        exif[0x010E] = description
    if rating:
        exif[0x4746] = rating
    if keywords:
        exif[0x9C9E] = keywords.encode("utf-16-le") + b"\0\0"
    if gps is not None:
        north, east, height = gps
        exif.get_ifd(0x8825).update(
            {1: "N" if north >= 0 else "S", 2: _sexagesimal(abs(north)), 3: "E" if east >= 0 else "W",
             4: _sexagesimal(abs(east)), 5: b"\0", 6: IFDRational(int(height * 10), 10)}
        )  # fmt: skip
    return exif


def _sexagesimal(degrees: float) -> tuple[IFDRational, IFDRational, IFDRational]:
    whole, rest = divmod(degrees, 1)
    minutes, rest = divmod(rest * 60, 1)
    return IFDRational(int(whole)), IFDRational(int(minutes)), IFDRational(round(rest * 60 * 10_000), 10_000)


def album(folder: Path) -> None:
    """Six photos: Lightroom's XMP, digiKam's sidecar, a phone's GPS with Takeout's JSON, IPTC, Windows, nothing."""
    (folder / "Summer 2019").mkdir(parents=True)
    at = folder / "Summer 2019"
    (at / "IMG_1.jpg").write_bytes(jpeg(picture((220, 220, 200)), xmp=LIGHTROOM))
    (at / "IMG_2.jpg").write_bytes(jpeg(picture((120, 80, 40))))
    (at / "IMG_2.xmp").write_bytes(packet(DIGIKAM))
    (at / "IMG_3.jpg").write_bytes(jpeg(picture((10, 10, 60)), exif=exif_of(gps=(-33.8568, 151.2153, 5.0))))
    (at / "IMG_3.jpg.supplemental-metadata.json").write_text(json.dumps(TAKEOUT))
    words = iptc([(5, "Straße im Regen"), (25, "rain"), (25, "street"), (90, "Zürich"), (101, "Schweiz")])
    (folder / "IMG_4.jpg").write_bytes(jpeg(picture((90, 90, 90)), app13=words))
    windows = exif_of(description="Garden of Grandm__re", rating=3, keywords="garden;roses")
    data = jpeg(picture((30, 160, 40)), exif=windows).replace(
        b"Grandm__re", "Grandmère".encode()
    )  # not ASCII, as often
    (folder / "IMG_5.jpg").write_bytes(data)
    (folder / "IMG_6.jpg").write_bytes(jpeg(picture((200, 30, 30))))
