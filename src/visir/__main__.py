"""`python -m visir`: the command line, for launchers that want a module (`torchrun … -m visir train …`)."""

from visir.cli.start import run

run()
