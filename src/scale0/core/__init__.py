"""What to do, pure: every rule of Scale0 lives here, in state machines without I/O.

No socket, clock, random number, thread, file or log: messages and time come in, effects come out. Shells in
`transport`, `client`, `worker` and `simulator` carry the effects out.
"""
