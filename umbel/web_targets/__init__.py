"""Which web servers may be asked: hosts and addresses, and what an operator opens beside them."""
