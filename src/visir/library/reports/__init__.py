"""How libraries, their pictures and their answers look in a notebook."""
