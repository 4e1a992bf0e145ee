"""A whole world in one process: the real core, virtual time, a network that breaks, and checks at every step.

As a library it runs users' own services and topologies: see `simulate`, `Handler` and `Load`, and docs/simulator.md.

    result = simulate(3, handlers={"ocr": Handler(recognise, work_s=0.2)}, load=Load("ocr", per_s=20))

As a test of Scale0 itself, `World(seed)` builds brokers, clients and workers from a seed; every random choice comes
from that seed, one generator a concern, so a seed and a number of steps replay a run to the byte. A world has one
broker, or two that do not know one another, or it is a network of up to five (`network_profiles`). `checks_*` say what
must hold. `scale0 sim` runs it.
"""

from scale0.simulator.library import Figures, Simulation, simulate
from scale0.simulator.own_world import Handler, Load
from scale0.simulator.timeline import Strike

__all__ = ["Figures", "Handler", "Load", "Simulation", "Strike", "simulate"]
