"""Refuses XML that could harm the parser behind it: entities, deep trees, too many elements, other encodings."""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

from service.errors import DecodeError, InvalidInput

MAX_DEPTH: Final = 32  # a CAS has 3 levels, a type system 6
MAX_ELEMENTS: Final = 500_000
MAX_TYPE_ELEMENTS: Final = 20_000  # of a type system: reading it takes time that grows with the square of its types


def check_xml(text: str, *, field: str, max_elements: int | None = None) -> None:
    """`max_elements`: of this document, if it is less than for any."""
    parser = expat.ParserCreate()
    limit = MAX_ELEMENTS if max_elements is None else max_elements
    depth = elements = 0

    def start_element(*_: object) -> None:
        nonlocal depth, elements
        depth += 1
        elements += 1
        if depth > MAX_DEPTH:
            raise InvalidInput(f"its elements are nested more than {MAX_DEPTH} deep", field=field)
        if elements > limit:
            raise InvalidInput(f"it has more than {limit:,} elements: use smaller documents", field=field)

    def end_element(_: str) -> None:
        nonlocal depth
        depth -= 1

    def check_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
        # The next parser reads bytes and believes the declaration: in another encoding it could find a document type.
        if encoding is not None and encoding.upper() != "UTF-8":
            raise InvalidInput(f"it is declared as {encoding[:20]}: send it as UTF-8", field=field)

    def refuse_document_type(*_: object) -> None:
        raise InvalidInput("it has a document type declaration: leave the line with <!DOCTYPE out", field=field)

    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.XmlDeclHandler = check_declaration
    parser.StartDoctypeDeclHandler = refuse_document_type  # entities could grow without limit, or name files
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise DecodeError(
            f"it is not XML: {expat.ErrorString(error.code)} in line {error.lineno}", field=field
        ) from None
    except UnicodeEncodeError:
        raise DecodeError("it is not XML: it has half of a surrogate pair", field=field) from None
