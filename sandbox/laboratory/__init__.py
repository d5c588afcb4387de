"""The fault laboratory: faults and healthy situations on the real server, and what must be said of them."""
