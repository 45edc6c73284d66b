"""How processes and their threads start, are watched and end."""
