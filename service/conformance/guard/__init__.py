"""Cases run beside guard bytes and guard pages, in processes that a fault may end."""
