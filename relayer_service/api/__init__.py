"""The interface for programs: what every viewset shares, from the router to the bytes on the wire."""
