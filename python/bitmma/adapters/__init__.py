# SPDX-License-Identifier: MIT
"""Adapters that make other programs compute with bitmma, one module each. bitmma itself imports none of them."""
