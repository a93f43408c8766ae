"""Tool calls that a server left in the text because it did not know the model's template.

A call is read out only if no proper call came, the block is whole, outside code, readable, and
names an offered tool; else the text stays as it is, for it may be an answer about such markup.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from providers.call_names import resolve_name
from providers.shapes import as_list, as_object, as_text
from umbel import strict_json
from umbel.strict_json import InvalidJson, Json

_CODE: Final = re.compile(
    r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)|`[^`\n]+`", re.DOTALL | re.MULTILINE
)
# The body of a block never holds another opening of its kind: so a model that repeats an opening
# for ever costs time in proportion to its words, not to their square.
_BLOCK: Final = re.compile(
    r"<(?P<tag>tool_call|function_call|tool_calls)>(?P<tagged>(?:(?!<(?P=tag)>).)*?)</(?P=tag)>"
    r"|(?P<bare><function=[^<>\n]{1,200}>(?:(?!<function=).)*?</function>)"
    r"|\[TOOL_CALLS\]\s*(?P<listed>\[(?:(?!\[TOOL_CALLS\]).)*\])\s*\Z"
    r"|\[TOOL_CALLS\]\s*(?P<named>[\w.-]{1,200}(?:\[ARGS\])?\s*\{(?:(?!\[TOOL_CALLS\]).)*\})\s*\Z"
    r"|<[|\uff5c]tool[_\u2581]call[_\u2581]begin[|\uff5c]>(?P<begun>(?:(?!call[_\u2581]begin).)*?)"
    r"<[|\uff5c]tool[_\u2581]call[_\u2581]end[|\uff5c]>",
    re.DOTALL,
)
_FUNCTION: Final = re.compile(r"\s*<function=([^<>\n]{1,200})>(.*)</function>\s*", re.DOTALL)
_PARAMETER: Final = re.compile(
    r"<parameter=([^<>\n]{1,200})>((?:(?!<parameter=).)*?)</parameter>", re.DOTALL
)
_ARG_KEYS: Final = re.compile(
    r"<arg_key>([^<>]{1,200})</arg_key>\s*<arg_value>((?:(?!<arg_key>).)*?)</arg_value>", re.DOTALL
)
_NAMED: Final = re.compile(r"([\w.-]+)(?:\[ARGS\])?\s*(\{.*\})", re.DOTALL)
_BEGUN: Final = re.compile(
    r"\s*([\w.-]+)(?::\d+)?\s*<[|\uff5c]tool[_\u2581](?:call[_\u2581]argument[_\u2581]begin|sep)[|\uff5c]>"
    r"\s*(\{.*\})\s*",
    re.DOTALL,
)
_SECTION: Final = re.compile(
    r"<[|\uff5c]tool[_\u2581]calls(?:[_\u2581]section)?[_\u2581](?:begin|end)[|\uff5c]>"
)
_STRAY: Final = re.compile(
    r"</(?:tool_calls?|function_call|function|parameter|invoke|think)>|<\|(?:tool_call_end|call)\|>"
)
_CHEAP_SIGNS: Final = ("</tool", "</function", "[TOOL_CALLS]", "call_end|>", "call\u2581end\uff5c>")

Schemas = Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RecoveredCall:
    """A call read out of text."""

    name: str
    arguments_text: str


def recover_calls(text: str, schemas: Schemas) -> tuple[str, list[RecoveredCall]]:
    """The text without the blocks that are calls, and those calls; both unchanged if none is."""
    calls: list[RecoveredCall] = []
    if not any(sign in text for sign in _CHEAP_SIGNS):
        return text, calls
    kept, end = [], 0
    for block in _blocks_outside_code(text):
        found = _read_block(block, schemas)
        if found:
            calls.extend(found)
            kept.append(text[end : block.start()])
            end = block.end()
    rest = _SECTION.sub("", "".join([*kept, text[end:]])).strip()
    return (rest if calls else text), calls


def drop_stray_tags(text: str) -> str:
    """The text beside a proper call, without closing tags that a half-parsed template left."""
    if "</" not in text and "<|" not in text:
        return text
    code = [found.span() for found in _CODE.finditer(text)]
    cleaned = _STRAY.sub(lambda tag: tag[0] if _is_within(tag.start(), code) else "", text)
    return cleaned if cleaned.strip() or cleaned == text else ""


def _blocks_outside_code(text: str) -> Iterator[re.Match[str]]:
    code = [found.span() for found in _CODE.finditer(text)]
    return (block for block in _BLOCK.finditer(text) if not _is_within(block.start(), code))


def _is_within(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)


def _read_block(block: re.Match[str], schemas: Schemas) -> list[RecoveredCall]:
    """Every call of a block; none if any part of it cannot be used."""
    for form, written in ((_NAMED, block["named"]), (_BEGUN, block["begun"])):
        if written is not None:
            found = form.fullmatch(written)
            return _named_call(found[1], found[2], schemas) if found else []
    body = block["tagged"] or block["bare"] or block["listed"] or ""
    if _FUNCTION.fullmatch(body):
        return _read_function(body, schemas)
    if "<arg_key>" in body:
        name, sign, rest = body.partition("<arg_key>")
        values = _values_of(sign + rest, _ARG_KEYS)
        return [] if values is None else _typed_call(name.strip(), values, schemas)
    try:
        value = strict_json.parse(body.strip(), lenient_controls=True)
    except InvalidJson:
        return []
    calls = [_from_object(item, schemas) for item in as_list(value)]
    return [call for call in calls if call] if all(calls) else []


def _from_object(item: Json, schemas: Schemas) -> RecoveredCall | None:
    entry = as_object(item)
    inner = as_object(entry.get("function"))
    entry = inner or entry
    name = resolve_name(as_text(entry.get("name")), schemas)
    arguments = entry.get("arguments", entry.get("parameters"))
    if name not in schemas or not isinstance(arguments, dict | str | None):
        return None
    text = arguments if isinstance(arguments, str) else strict_json.dump(arguments or {})
    return RecoveredCall(name, text)


def _read_function(body: str, schemas: Schemas) -> list[RecoveredCall]:
    found = _FUNCTION.fullmatch(body)
    if found is None or "<function=" in found[2]:
        return []
    name, inner = found[1].strip(), found[2].strip()
    if inner and "<parameter=" not in inner:
        return _named_call(name, inner, schemas)
    values = _values_of(inner, _PARAMETER)
    return [] if values is None else _typed_call(name, values, schemas)


def _values_of(text: str, form: re.Pattern[str]) -> dict[str, str] | None:
    """Named values, each once; None if the text holds anything else between them."""
    found: list[tuple[str, str]] = form.findall(text)
    values = {key.strip(): value for key, value in found}
    is_whole = not form.sub("", text).strip() and len(values) == len(found)
    return values if is_whole else None


def _named_call(written: str, arguments: str, schemas: Schemas) -> list[RecoveredCall]:
    """A call given as its name and the JSON text of its arguments."""
    try:
        value = strict_json.parse(arguments, lenient_controls=True)
    except InvalidJson:
        return []
    name = resolve_name(written, schemas)
    is_call = name in schemas and isinstance(value, dict)
    return [RecoveredCall(name, strict_json.dump(value))] if is_call else []


def _typed_call(written: str, values: dict[str, str], schemas: Schemas) -> list[RecoveredCall]:
    """A call whose values came as plain text: each becomes what the schema says it is."""
    name = resolve_name(written, schemas)
    if name not in schemas:
        return []
    properties = schemas[name].get("properties") or {}
    arguments = {key: _typed(value, properties.get(key)) for key, value in values.items()}
    return [RecoveredCall(name, strict_json.dump(arguments))]


def _typed(text: str, schema: Any) -> Json:
    text = text.removeprefix("\n").removesuffix("\n")
    if not isinstance(schema, dict) or schema.get("type") in (None, "string"):
        return text
    try:
        return strict_json.parse(text.strip())
    except InvalidJson:
        return text
