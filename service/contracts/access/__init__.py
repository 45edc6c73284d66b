"""Who may call what, and who changed what: roles, keys and audit records."""
