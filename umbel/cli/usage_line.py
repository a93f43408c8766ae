"""Usage as manuals write it: `umbel run REQUEST`, not `umbel run {REQUEST}`."""

import typer
from typer.core import TyperCommand


class PlainUsage(TyperCommand):
    """A command whose required arguments stand without braces."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # the library's Context is private
        """The pieces behind the command's name."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]
