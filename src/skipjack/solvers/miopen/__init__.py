"""MIOpenDriver as a solver: found, run with databases and a GPU of its own, read, and harvested.

::

    finding      where the program is
    command      a problem as its command line
    environment  the folders and variables of a worker
    output       what it prints
    databases    the user databases: put in, taken out
    driving      all of it, for one problem
    solver       what the registry knows
"""
