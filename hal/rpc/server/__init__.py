"""Any device, served over gRPC and shared memory."""
