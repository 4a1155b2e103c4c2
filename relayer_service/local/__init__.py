"""`make run`: installation, secrets, and the processes of one machine."""
