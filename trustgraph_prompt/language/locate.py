"""Where in a text that stands which a JSON Pointer names in the JSON Schema made of it."""

from __future__ import annotations

from trustgraph_prompt.language.inherit import Schemas
from trustgraph_prompt.language.nodes import File, Position


def locate(file: File, schema: str, pointer: str) -> Position | None:
    """The place of a field, or of its constraint, by a pointer into `to_json_schema(file, schema)`; else that
    of the schema that the pointer leads into, None where it leads to nothing that was read."""
    schemas = Schemas(file)
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    if steps[:1] == ["$defs"]:
        schema, steps = "".join(steps[1:2]), steps[2:]
    if schema not in schemas.by_name:
        return None
    if steps[:1] == ["properties"]:
        for field in schemas.fields(schema):
            if [field.name] == steps[1:2]:
                named = (one.at for one in field.constraints if one.name == steps[-1])
                return next(named, field.at)
    return schemas[schema].at
