"""The front ends: the Textual application and its plain, numbered twin."""
