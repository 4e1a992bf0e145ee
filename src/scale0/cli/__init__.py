"""The command line: what operators type and read. `main.py` holds the commands, the other modules their engines."""
