"""Unknown quantities as transformations of standard normal variables."""
