"""Resources of a process: forks, threads, memory, descriptors, directories and addresses."""
