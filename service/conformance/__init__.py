"""The conformance suite, which checks that a device behaves as the HAL requires."""
