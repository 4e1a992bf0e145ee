"""Tables that any Delta reader reads, written exactly once: commits, the log of batches, the lease."""
