"""One of TrustGraph's processors, as it is: `python … MODULE SPACE OPTION…`.

Only the space of the config service's topics, which none of its options sets, is that of the test.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

if __name__ == "__main__":
    _, module, space, *options = sys.argv
    sys.argv[1:] = options
    package = importlib.import_module("trustgraph")  # of trustgraph-flow; trustgraph-base lies elsewhere
    package.__path__ = pkgutil.extend_path(package.__path__, "trustgraph")
    schema = importlib.import_module("trustgraph.schema")
    for name in ("config_request_queue", "config_response_queue", "config_push_queue"):
        setattr(schema, name, getattr(schema, name).replace(":tg:", f":{space}:"))
    importlib.import_module(module).run()
