"""The rules of the HAL's contract, as checks of a device."""
