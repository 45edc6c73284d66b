"""What administrators manage: keys, the audit trail and outgoing webhooks."""
