"""What labelwatch consists of: bills of materials, licences, and known vulnerabilities of its dependencies."""
