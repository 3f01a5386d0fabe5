"""Mistakes that a user can fix.  Their messages say what, where, what is safe, and what to do next."""


class RegardError(ValueError):
    """Shown to the user as it is, without a traceback."""

    exit_code = 1


class ConfigError(RegardError):
    """A recipe or an override that cannot be used."""


class DataError(RegardError):
    """A file whose content cannot be used; the message names the file and the line."""


class RunError(RegardError):
    """A run folder that is missing, incomplete or does not fit what is asked of it."""
