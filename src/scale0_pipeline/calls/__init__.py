"""Scale0 services as part of Spark jobs: columns that workers compute, and rows that become tasks."""
