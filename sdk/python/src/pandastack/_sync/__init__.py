# Generated from _async/__init__.py by generate_sync.py. Do not edit.
"""One flavour of the classes; `_sync` is generated from `_async` by generate_sync.py."""
