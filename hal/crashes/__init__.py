"""Causes of drivers' deaths: a process's breadcrumbs, patterns of operations, and their records."""
