"""Inspects and creates tenants, namespaces, topics and subscriptions over Pulsar's admin API."""
