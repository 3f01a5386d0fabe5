"""Side by side with the peers: `python -m bench [NAME]`, or `regard bench`; `--help` has the names.

Every contender does the same work with the same weights, and that is checked before anything is timed.  Contenders
take turns (A B C, A B C, ...), so that what else the machine does falls on all of them.
"""
