"""Audits files: judges every sentence of a file and ranks the sentences, worst first."""
