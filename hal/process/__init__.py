"""What a process has of its machine: forks, threads, memory, descriptors, directories and addresses."""
