"""Who may use the service: keys and roles, under REST and command line alike."""
