"""Makes `format("scale0")` known to Spark by itself.

Spark looks through the modules of its Python whose names begin with `pyspark_`, and takes `DefaultSource` of each. So
wherever `scale0[pipeline]` is installed, every session knows the source, without a line of set-up.
"""

from scale0_pipeline.source.datasource import Scale0Source as DefaultSource

__all__ = ["DefaultSource"]
