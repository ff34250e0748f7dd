"""Modules under the names that programs of LiteRT import, for processes that these programs start.

The folder is in `sys.path` of a program that runs on neurald. `multiprocessing` passes this list
on, so that a process which imports one of the names gets neurald's classes, too.
"""
