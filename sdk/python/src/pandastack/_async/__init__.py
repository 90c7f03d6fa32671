"""One flavour of the classes; `_sync` is generated from `_async` by generate_sync.py."""
