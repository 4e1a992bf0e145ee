"""The tests; a test's path mirrors its source's."""
