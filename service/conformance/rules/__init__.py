"""Rules of the HAL's contract, each checked on a device."""
