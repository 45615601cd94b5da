"""Tests on whole servers: the packages the images install, over TCP, with passwords and TLS."""
