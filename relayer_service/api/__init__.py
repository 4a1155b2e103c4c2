"""The REST API: the code that all viewsets share, from the router to the bytes on the wire."""
