"""How a database is reached and spoken to: connections, transactions, statements, its clock."""
