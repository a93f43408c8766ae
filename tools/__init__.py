"""Tool contract, registry, argument checks, built-ins."""
