"""The V2 protocol: messages, element types, requests and answers over gRPC and HTTP."""
