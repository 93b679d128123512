"""XML read safely: no document types, no entities. The line of an element is found when a complaint needs it."""

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
        self.origins: dict[Element, Element] = {}  # of elements that were rewritten: the one in the file
        if found := re.search("<!(DOCTYPE|ENTITY)", text):
            line = text.count("\n", 0, found.start()) + 1
            raise FileError(f"{where}, line {line}: document types and entities are not read")
        collecting = gc.isenabled()
        gc.disable()  # a million elements and no cycles: looking for garbage takes twice as long as parsing
        try:  # the text is decoded already, whatever encoding it names
            self.root = ElementTree.fromstring(text.encode("utf-8"), ElementTree.XMLParser(encoding="utf-8"))
            self.tree = self.root  # as the file has it
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
        """A complaint that names the file and the element's line."""
        return FileError(f"{self.where}, line {self.line(element)}: {message}")


def text_of(element: Element | None) -> str:
    """An element's text; empty where there is no such element."""
    return "" if element is None else element.text or ""


def xml_text(text: str) -> str:
    """Text for XML, white space included; refused where XML has no way to write a character."""
    from xml.sax.saxutils import escape

    if bad := NOT_XML.search(text):
        raise FileError(f"{text!r:.60}: XML cannot hold {bad.group()!r}, so JFLAP files cannot; save it as .json")
    return escape(text, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;", '"': "&quot;"})
