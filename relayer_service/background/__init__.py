"""Work outside of requests: tasks and their queue, thread pools, event loops, and how web threads are shared."""
