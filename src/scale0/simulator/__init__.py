"""A whole world in one process: the real core, virtual time, a network that breaks, and checks at every step.

`World(seed)` builds brokers, clients and workers from a seed; every random choice comes from that seed, one generator a
concern, so a seed and a number of steps replay a run to the byte. A world has one broker, or two that do not know one
another, or it is a network of up to five (`network_profiles`). `checks_*` say what must hold. Run it with
`python -m scale0.simulator`.
"""
