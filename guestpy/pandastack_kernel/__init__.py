"""The Python kernel host that runs inside a sandbox.

A warmed *zygote* process forks one *kernel* per code context. A kernel embeds
IPython's InteractiveShell on its main thread and exchanges Jupyter messages
with the guest agent as length-prefixed frames. PROTOCOL.md has the bytes.
"""

__version__ = "1"
