"""The drivers, one folder for each device, and the compiler that they share."""
