"""Access tokens, with which programs call the API. No other app imports this one: settings refer to it."""
