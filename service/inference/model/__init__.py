"""Model folders: files, manifest, the default model and the self-check."""
