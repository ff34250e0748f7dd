"""Finds out what killed a driver: reads its breadcrumbs, and repeats deaths in sacrificial processes."""
