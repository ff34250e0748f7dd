"""The CPU device, which runs in the application's process and can do everything."""
