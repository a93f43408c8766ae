"""Reading the web for a model that may have been told where to look by anybody.

An address is checked where the socket is opened, so that no name, spelling or redirect leads
elsewhere: see `tools.web.dialling`.
"""
