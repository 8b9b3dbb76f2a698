"""A saved run in a notebook: data frames of its tables, and objects that show themselves as HTML. No torch."""
