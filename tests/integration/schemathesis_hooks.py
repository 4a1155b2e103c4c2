"""What schemathesis cannot know: how a URL looks that a webhook can be sent to."""

import schemathesis
from hypothesis import strategies as st

HOSTS = ["example.com", "EXAMPLE.com", "a.example", "xn--bcher-kva.example", "127.0.0.1", "[::1]", "8.8.8.8"]

URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTPS"]),
    st.sampled_from(HOSTS),
    st.sampled_from(["", ":", ":80", ":443", ":1024", ":65535"]),
    st.from_regex(r"\A(/[a-z0-9%._~-]{0,9}){0,3}(\?[a-z0-9=&]{0,9})?\Z"),
)

schemathesis.openapi.format("uri", URLS)
