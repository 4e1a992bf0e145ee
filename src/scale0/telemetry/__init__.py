"""From a broker to sealed segments: the feed, the recorder process, and the place where data lies."""
