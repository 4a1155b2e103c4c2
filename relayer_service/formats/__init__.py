"""How Django writes dates on pages; named in `FORMAT_MODULE_PATH`, which looks for a package for each language."""
