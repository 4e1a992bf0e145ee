"""Real faults in real processes, cycle after cycle, under load: `make chaos`, described in docs/chaos.md."""
