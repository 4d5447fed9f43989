"""What a person types: the command line, the problem file, and `sample` and its kin."""
