"""The record of the fleet in an SQL database: problems, labels, jobs, and what came of them."""
