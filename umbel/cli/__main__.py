"""`python -m umbel.cli`."""

from umbel.cli import main

main()
