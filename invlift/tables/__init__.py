"""Tables as people have them, files or data frames: read, their dialect found, and noted."""
