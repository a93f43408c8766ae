"""`umbel doctor`: a small file per family of checks; a check is a function from context to finding.

`parts.py` lists them in order, `running.py` carries them out, `rendering.py` shows the findings.
"""
