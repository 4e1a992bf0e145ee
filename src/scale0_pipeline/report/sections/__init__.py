"""The sections of a report, in their order; each says its conclusion in its title."""
