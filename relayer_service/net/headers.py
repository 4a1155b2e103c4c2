"""Non-ASCII headers, of which the web server passes on only the names."""

# The key of WSGI's environ that holds the variable of such a header. No client can set it, as those of headers begin
# with HTTP_ or CONTENT_.
UNREADABLE_HEADER = "relayer.unreadable_header"
