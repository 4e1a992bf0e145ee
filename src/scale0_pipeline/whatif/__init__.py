"""What if a service had more workers, or fewer, or another policy? Recorded tasks, replayed through the routing core.

`recorded` has what is replayed, `replay` drives the core in virtual time for one number of workers (a cell), `policies`
are the ways to choose a worker, `fan_out` spreads cells over Spark, `curve` puts them together and checks the method on
a day that was held out, `render` shows it.
"""

from scale0_pipeline.whatif.cells import Cell, Check, Curve
from scale0_pipeline.whatif.curve import run
from scale0_pipeline.whatif.render import render

__all__ = ["Cell", "Check", "Curve", "render", "run"]
