"""Workers that are hurt at every named point."""
