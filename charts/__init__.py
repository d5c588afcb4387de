"""Charts as plain data: frames of values in, a description that plotly can draw out. No streamlit, no I/O."""
