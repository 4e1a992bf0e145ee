"""Tests of what bytes mean."""
