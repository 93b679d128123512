"""Read XML safely: no document types, no entities. An error message looks up the line of its element."""

from __future__ import annotations

import gc
import re
from xml.etree import ElementTree
from xml.parsers import expat

from kleene.errors import FileError

Element = ElementTree.Element
NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Document:
    """A parsed file.

    >>> Document("<a><b x='1'>hi</b></a>", "example").root.findtext("b")
    'hi'
    """

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.origins: dict[Element, Element] = {}  # rewritten element → the element in the file
        if found := re.search("<!(DOCTYPE|ENTITY)", text):
            line = text.count("\n", 0, found.start()) + 1
            raise FileError(f"{where}, line {line}: Kleene does not read document types and entities")
        collecting = gc.isenabled()
        gc.disable()  # a million elements without cycles: garbage collection would take twice as long as parsing
        try:  # the text is already decoded, whatever encoding it declares
            self.root = ElementTree.fromstring(text.encode("utf-8"), ElementTree.XMLParser(encoding="utf-8"))
            self.tree = self.root  # as in the file
        except ElementTree.ParseError as error:
            reason = expat.errors.messages[error.code]
            raise FileError(f"{where}, line {error.position[0]}: not XML ({reason})") from None
        finally:
            if collecting:
                gc.enable()

    def line(self, element: Element) -> int:
        """The line that an element begins on."""
        lines: list[int] = []
        parser = expat.ParserCreate("UTF-8")
        parser.StartElementHandler = lambda tag, attributes: lines.append(parser.CurrentLineNumber)
        parser.Parse(self.text.encode("utf-8"), True)
        element = self.origins.get(element, element)
        return next(line for line, other in zip(lines, self.tree.iter()) if other is element)

    def error(self, element: Element, message: str) -> FileError:
        """An error that names the file and the element's line."""
        return FileError(f"{self.where}, line {self.line(element)}: {message}")


def text_of(element: Element | None) -> str:
    """An element's text; empty where there is no such element."""
    return "" if element is None else element.text or ""


def xml_text(text: str) -> str:
    """Escape text for XML, including white space. Reject characters that XML cannot hold."""
    from xml.sax.saxutils import escape

    if bad := NOT_XML.search(text):
        raise FileError(f"{text!r:.60}: XML, and so JFLAP, cannot hold {bad.group()!r}; save it as .json")
    return escape(text, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;", '"': "&quot;"})
