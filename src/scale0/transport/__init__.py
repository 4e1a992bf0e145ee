"""ZeroMQ plumbing: the broker's sockets and loop, and the DEALER that clients and workers share."""
