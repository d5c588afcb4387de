"""What a person sees and touches: the shell, live fragments, the plot element, panels, filters."""
