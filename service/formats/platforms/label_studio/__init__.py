"""Label Studio: reader, writer, labelling configuration, predictions."""
