"""Finds causes of drivers' deaths: reads breadcrumbs, and repeats deaths in other processes."""
