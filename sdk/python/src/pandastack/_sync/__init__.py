# Generated from _async/__init__.py by generate_sync.py. Do not edit.
"""The source of both flavours; `_sync` is generated from it by generate_sync.py."""
