"""Scale0 as a Spark data source, `format("scale0")`: recorded events, live tables of a network, and tasks to send."""
