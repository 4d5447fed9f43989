"""Files and tables of the user: read, described, written complete or not at all."""
