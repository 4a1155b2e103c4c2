"""Django's date formats: the package that `FORMAT_MODULE_PATH` names, with a subpackage per language."""
