"""Jobs over the tables: follow the catalogue, derive, compact, backfill, import."""
