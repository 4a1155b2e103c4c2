"""Work outside of requests: tasks and their queue, thread pools, event loops; and limits on the web threads."""
