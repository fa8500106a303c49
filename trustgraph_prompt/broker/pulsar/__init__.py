"""Apache Pulsar: `broker.py` over `pulsar.asyncio` (pulsar-client 3.13 or newer), `admin` over HTTP.

Nothing is imported here: who needs the admin API needs no client, which is slow to import.
"""
