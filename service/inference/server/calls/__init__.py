"""What clients may call, whichever transport they use."""
