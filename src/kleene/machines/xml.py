"""XML read safely, with the line of every element: no document types, no entities, a limited depth."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from kleene.errors import FileError

MAX_DEPTH = 50


@dataclass
class Element:
    """One element: its tag, attributes, text, children, and the line that it begins on."""

    tag: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        """The children with a tag."""
        return [child for child in self.children if child.tag == tag]

    def first(self, tag: str) -> Element | None:
        """The first child with a tag."""
        return next(iter(self.all(tag)), None)


def parse(text: str, where: str) -> Element:
    """The root element of a document.

    >>> parse("<a><b x='1'>hi</b></a>", "example").first("b").text
    'hi'
    """
    root = Element("", {}, 0)
    stack = [root]
    parser = expat.ParserCreate("UTF-8")  # whatever the file says: it is text already

    def refuse(*_: object) -> None:
        raise FileError(f"{where}, line {parser.CurrentLineNumber}: document types and entities are not read")

    def begin(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            raise FileError(f"{where}, line {parser.CurrentLineNumber}: elements nested more than {MAX_DEPTH} deep")
        element = Element(tag, attributes, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def end(tag: str) -> None:
        stack.pop()

    def characters(data: str) -> None:
        stack[-1].text += data

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise FileError(f"{where}, line {error.lineno}: not XML ({expat.errors.messages[error.code]})") from None
    return root.children[0]
