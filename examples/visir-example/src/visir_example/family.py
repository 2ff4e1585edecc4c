"""How a name says that it means our encoder. The encoder itself is imported when such a name is loaded."""

from visir.encoders import Family

FAMILY = Family(
    name="colour-words",
    title="how much of a picture has each of six colours, and how often a text names each",
    form="colour-words",
    example="colour-words",
    module="visir_example.encoder",
    prefixes=("colour-words",),
    devices=False,
    dtypes=("float32",),
)
