"""What bytes mean: messages, dialects, status codes, limits, and the codecs between frames and messages.

Nothing here decides anything; it only says what was said. Rules live in `scale0.core`.
"""
