"""Redis or Valkey: ownership locks, wake-ups, the live stream.

All of it may vanish at any moment, and only time is lost.
"""
