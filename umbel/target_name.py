"""Names of what calls change and rules protect, in one spelling."""

import posixpath
import unicodedata

from umbel.visible import is_ignorable


def target_name(text: str) -> str:
    r"""One spelling for all that mean the same; empty if nothing is left.

    Case, compatible letters, characters that are shown as nothing, `.`, `..`, `//` and `\` make no
    difference.
    """
    seen = "".join(char for char in text if not is_ignorable(char))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).strip()
    if not folded:
        return ""
    path = posixpath.normpath(folded.replace("\\", "/"))
    return path.replace("//", "/", 1) if path.startswith("//") else path
