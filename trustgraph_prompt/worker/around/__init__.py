"""What stands around a request and may not be in its way: what is known of others, and of the model."""

from __future__ import annotations
