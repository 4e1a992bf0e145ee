"""Gold: what people, reports and the network ask for, derived day by day from facts and notes."""
