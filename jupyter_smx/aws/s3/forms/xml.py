"""Write and parse the XML of S3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"} | {
    chr(code): f"&#{code};" for code in range(32) if chr(code) not in "\t\n"
}
TRANSLATION = str.maketrans(ESCAPES)
MAX_DEPTH = 32


def write_document(name: str, content: Any, *, namespace: bool = True) -> bytes:
    """Return a document with one element.

    A dictionary is a sequence of elements, a list repeats its element, and None leaves one out.
    """
    attribute = f' xmlns="{NAMESPACE}"' if namespace else ""
    return f"{HEAD}<{name}{attribute}>{_write_content(content)}</{name}>".encode()


def _write_content(content: Any) -> str:
    if isinstance(content, dict):
        return "".join(_write_element(name, value) for name, value in content.items())
    if isinstance(content, bool):
        return "true" if content else "false"
    return str(content).translate(TRANSLATION)


def _write_element(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(_write_element(name, item) for item in value)
    return f"<{name}>{_write_content(value)}</{name}>"


def write_error(code: str, message: str, resource: str, request_id: str) -> bytes:
    """Return the document of an error."""
    content = {"Code": code, "Message": message, "Resource": resource, "RequestId": request_id}
    return write_document("Error", content, namespace=False)


@dataclass
class Element:
    """An element of a parsed document, without namespaces and attributes."""

    name: str
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Yield the children of a name."""
        return (child for child in self.children if child.name == name)

    def value(self, name: str) -> str | None:
        """Return the text of the first child of a name; None where there is none."""
        return next((child.text for child in self.all(name)), None)


def parse_document(body: bytes, root: str) -> Element:
    """Return the root element of a document; raise AwsError where it is malformed, or its root is another one."""
    top = Element("")
    stack = [top]
    parser = expat.ParserCreate(namespace_separator="\n")

    def start(name: str, _attributes: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            raise _malformed("it is nested too deeply")
        element = Element(name.rpartition("\n")[2])
        stack[-1].children.append(element)
        stack.append(element)

    def end(_name: str) -> None:
        stack.pop()

    def text(data: str) -> None:
        stack[-1].text += data

    def refuse(*_declaration: object) -> None:
        # Entities of a document type can grow without limit, and S3 has none.
        raise _malformed("it has a document type")

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise _malformed(str(error)) from None
    (element,) = top.children
    if element.name != root:
        raise _malformed(f"its root is {element.name}, not {root}")
    return element


def _malformed(reason: str) -> AwsError:
    message = f"The XML that you provided was not well-formed or did not validate against the schema: {reason}."
    return AwsError("MalformedXML", message)
