"""replaycheck: does reusing a recurrent state change what the model says?"""

__version__ = "0.1.0"
