"""What our tests use of kubernetes-validate, which has no types."""

from typing import Any

from kubernetes_validate import utils as utils

def latest_version() -> str: ...
def validate(data: dict[str, Any], desired_version: str, strict: bool = False) -> str: ...
