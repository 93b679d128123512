"""Compiled computers with their devices: keyboard, screen, memory."""
