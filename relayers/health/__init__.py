"""The health check of relayers: what it reads, decides and keeps."""
