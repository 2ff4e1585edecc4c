"""The families of encoders, one file each (and what several of them share). `visir.encoders.families` lists them."""
