"""The configuration of OpenZeppelin Relayer, converted to a fleet file. Files are read, and nothing else."""
