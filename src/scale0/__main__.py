"""`python -m scale0` is the command line."""

from __future__ import annotations

from scale0.cli.main import run

if __name__ == "__main__":
    run()
