"""HTTP for runs: OpenAI's and LibreTranslate's routes, a route for every verb, and attention on request."""
