"""What beat does on each tick."""
