"""What the database holds: tables, views, and the revisions that lead to them."""
