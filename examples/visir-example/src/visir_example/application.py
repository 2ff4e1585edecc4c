"""An application: what it adds to the command line."""

from visir.plugins import Application, Verb

APPLICATION = Application(
    "colours",
    verbs=(
        Verb("colours", "visir_example.cli:colours", after="evaluate"),
        Verb("length", "visir_example.length:length", group="analyse"),
    ),
)
"""`visir colours`: which colours the captions of a collection name. `visir length`: a study."""
