"""The request as text: the argument, or standard input in its place."""

import sys
from typing import Final

from umbel.errors import InvalidInput

_FROM_STDIN: Final = "-"


def request_text(argument: str) -> str:
    """The request; `-` reads standard input to its end.

    Raises:
        InvalidInput: it is not UTF-8 text.
    """
    if argument == _FROM_STDIN:
        try:
            return sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"Standard input is not UTF-8 text: byte {error.start + 1} is "
                f"0x{error.object[error.start]:02x}. Convert it, for instance with iconv."
            ) from error
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError as error:  # bytes that are no UTF-8 reach us as half surrogates
        raise InvalidInput(
            f"The request is not UTF-8 text from character {error.start + 1} on. Write it in "
            "UTF-8, or put the material into a file of the workspace."
        ) from error
    return argument
