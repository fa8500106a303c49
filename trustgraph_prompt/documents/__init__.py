"""Documents as text: files are converted, with their pages and headings, and split into chunks."""

from __future__ import annotations

from trustgraph_prompt.documents.document import Chunk, Document, Place
from trustgraph_prompt.documents.files import Listing, listed, read
from trustgraph_prompt.documents.formats import convert

__all__ = ["Chunk", "Document", "Listing", "Place", "convert", "listed", "read"]
