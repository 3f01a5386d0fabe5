"""What stands in front of a model: tables that turn inputs of some kind into the rows that its blocks read."""
