"""From events to tables: pure functions of DataFrames; `registry` lists them in the order in which they run."""
