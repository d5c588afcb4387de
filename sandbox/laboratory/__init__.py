"""The fault laboratory: faults and healthy situations on the real server, and what triage must say of them."""
