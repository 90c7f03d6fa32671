"""The source of both flavours; `_sync` is generated from it by generate_sync.py."""
