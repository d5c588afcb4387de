"""Numbers over time behind one protocol: the ring in this process now, Prometheus and recordings later."""
