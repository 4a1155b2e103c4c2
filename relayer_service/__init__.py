"""The project: settings, paths, start, and in packages by concern what every app shares."""

__version__ = "0.1.0"
