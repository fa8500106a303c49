"""Documents as text: files are converted, with their pages and headings, and split into chunks."""

from __future__ import annotations

from trustgraph_prompt.documents.converter import Converter
from trustgraph_prompt.documents.document import Document, DocumentChunk, Place
from trustgraph_prompt.documents.formats import convert
from trustgraph_prompt.documents.named_files import Listing, listed

__all__ = ["Converter", "Document", "DocumentChunk", "Listing", "Place", "convert", "listed"]
