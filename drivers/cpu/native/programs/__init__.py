"""The programs in LLVM IR that run steps, compute their sizes, and serve clients."""
