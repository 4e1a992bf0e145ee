"""Managing brokers: one vocabulary of commands, the gate that each of them passes, and the doors that lead to it."""
