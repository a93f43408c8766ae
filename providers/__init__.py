"""LLM adapters: the wire on one side, `loop.response` on the other."""
