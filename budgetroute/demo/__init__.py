"""A day without a key: simulated models, everyday prompts with known answers, and when they come."""
