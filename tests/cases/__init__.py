"""Scripted-model cases: files that say what a model and its tools do, and what comes of it.

`python -m tests.cases runs|provider|badinput DIR` runs any folder of them; see
docs/testing.md.
"""
