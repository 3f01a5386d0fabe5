"""The commands of the command line; what is heavy is imported when a command runs."""
