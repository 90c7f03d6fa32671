"""The module path by which published programs import the client."""

from ._create_retry import CreateRetryEvent
from ._sync.client import Client, get_default_client, set_default_client
from ._sync.client import Sandboxes as SandboxAPI

__all__ = ["Client", "CreateRetryEvent", "SandboxAPI", "get_default_client", "set_default_client"]
