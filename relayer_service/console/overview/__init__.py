"""The first page of the admin: what needs attention, one card per subject, first steps."""
