"""Tests of the worker's library."""
