"""User interface: the command line, the problem file, and functions such as `sample`."""
