"""One suite for the blocking and the asyncio client: what both promise."""
