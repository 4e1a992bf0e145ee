"""Hints: advice to the network, small, bounded, and gone by itself.

There is one kind so far, `damp`: a worker that flaps, that is, whose sessions keep ending and beginning again, should
be asked last. `damping` has the rules, `tables` makes the hints and their scores from gold, `document` brings them to a
broker. What a broker does with them is in `scale0.core.hints`; without hints, or when they have expired, it does what
it always did.
"""
