"""Headers that are not ASCII: the web server passes on their names alone."""

# The key of WSGI's environ that holds the variable of such a header. No client can set it, as those of headers begin
# with HTTP_ or CONTENT_.
UNREADABLE_HEADER = "relayer.unreadable_header"
