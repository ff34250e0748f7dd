"""Rules of the HAL's contract, which are checked on a device."""
