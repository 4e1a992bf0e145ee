"""The HTTP door: a process of its own beside the broker, with the API, the page, event streams and metrics."""
