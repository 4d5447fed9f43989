"""Reading of tables in files or data frames of many formats, with notes on each format found."""
