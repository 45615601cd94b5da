"""From events to memories: five stages, each replaceable and usable alone.

stages     what the stages hand on, and the protocol of each
"""
