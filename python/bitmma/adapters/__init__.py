# SPDX-License-Identifier: MIT
"""Adapters that make other programs compute with bitmma, a module for each. bitmma itself imports none of them."""
