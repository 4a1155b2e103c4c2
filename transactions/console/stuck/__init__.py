"""Why is it stuck? The nonces of a lane, and what to do about each."""
