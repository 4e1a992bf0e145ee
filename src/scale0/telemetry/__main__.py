"""`python -m scale0.telemetry`: a broker starts its recorder so."""

from scale0.telemetry.process import main

main()
