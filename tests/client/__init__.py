"""Tests of the client libraries."""
