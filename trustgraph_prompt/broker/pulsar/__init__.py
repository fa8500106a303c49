"""Apache Pulsar: `broker.py` uses `pulsar.asyncio` (pulsar-client 3.13 or newer), `admin` uses HTTP.

Imports nothing, because the client is slow to import and the admin API does not need it.
"""
