"""What annotation platforms call: webhooks, and labelwatch as a model of a project."""
