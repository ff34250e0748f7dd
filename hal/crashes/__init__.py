"""Causes of drivers' deaths: breadcrumbs of a process, patterns of operations, and their records."""
