"""The graph of extracted documents: in an embedded store, in files and in a page. Needs the extra `graph`."""

from __future__ import annotations

from trustgraph_prompt.errors import ConfigError

try:
    import pyoxigraph as pyoxigraph
except ModuleNotFoundError as error:
    raise ConfigError("graphs need the extra `graph`: pip install 'trustgraph-prompt[graph]'") from error
