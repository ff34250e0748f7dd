"""Finds the causes of deaths of drivers: reads breadcrumbs, and repeats deaths in sacrificial processes."""
