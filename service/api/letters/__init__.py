"""Dead letters over REST: what the routes share."""
