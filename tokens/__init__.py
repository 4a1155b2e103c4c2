"""Access tokens, with which programs call the API. The settings name `authentication`; no app uses another module."""
