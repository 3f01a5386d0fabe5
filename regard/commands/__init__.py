"""The commands of the command line, one file each; what is heavy is imported when a command runs."""
