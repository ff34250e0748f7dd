"""What killed a driver: breadcrumbs of a driver process, patterns of operations, and their records."""
