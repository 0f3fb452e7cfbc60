# SPDX-License-Identifier: MIT
"""Other programs compute with bitmma: a module a host, none of which is imported by bitmma itself."""
