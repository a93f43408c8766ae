"""Umbel: durable agent loops on Celery."""

from umbel.tool import EvidencePage, FileEntry, ToolContext, ToolFailed, Workspace, tool

__all__ = ["EvidencePage", "FileEntry", "ToolContext", "ToolFailed", "Workspace", "tool"]
__version__ = "0.1.0"
