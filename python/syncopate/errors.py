"""What can go wrong, as exceptions."""


class Error(Exception):
    """Something the caller can mend: a file, an argument, a machine without a GPU. Its text is the whole message."""

    def __init__(self, message, *, problem="", remedy="", file="", line=0, column=0):
        super().__init__(message)
        self.problem = problem or message  #: what is wrong
        self.remedy = remedy  #: what would be right; may be empty
        self.file = file  #: the place, as far as it is known: "" and 0 if not
        self.line = line
        self.column = column


class LaunchFailed(Error):
    """A launch failed on some rank: a wait took too long, or a process died. The operator cannot be used any more."""


class InternalError(Exception):
    """A defect of Syncopate, whatever the caller did."""
