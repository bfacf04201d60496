"""Scripts written for the HAI Platform, on Tide: its `hfai.client` and `hfai.checkpoint`, with Tide's agreement behind.

    import hfai
    if dist.get_rank() == 0 and hfai.client.receive_suspend_command():
        torch.save(...)
        hfai.client.go_suspend()

Every rank has to import this package before a suspension can reach rank 0: the import is what tells the node's agent
that the rank leaves by itself instead of by a signal. Outside the platform it does nothing. What differs from the
original is in README.md beside this file.
"""

from . import checkpoint, client

__all__ = ["checkpoint", "client"]
