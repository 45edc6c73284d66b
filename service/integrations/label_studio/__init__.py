"""Label Studio: REST client and push of open flags."""
