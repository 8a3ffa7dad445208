"""Reports as one file of HTML: tables and figures inside, nothing to load, nothing that runs.

A `Document` has a title and sections; a section has parts: `Prose`, a `FactList`, `CodeText`, a
`RecordTable` of `skipjack.app.views`, or a figure of `skipjack.report.figures`. `html_of` is its
text and `write_document` writes it. All texts are escaped here; the page is light or dark as the
reader has it, can be printed, and its content security policy allows only its own stylesheet.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.documents.document import (
        CodeText,
        Document,
        DocumentSection,
        FactList,
        Part,
        Prose,
    )
    from skipjack.report.documents.page import MOST_SHOWN, html_of, write_document

__all__ = [
    "MOST_SHOWN",
    "CodeText",
    "Document",
    "DocumentSection",
    "FactList",
    "Part",
    "Prose",
    "html_of",
    "write_document",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "document": "CodeText Document DocumentSection FactList Part Prose",
        "page": "MOST_SHOWN html_of write_document",
    },
)
