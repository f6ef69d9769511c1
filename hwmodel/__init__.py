"""What a chip costs and how long an operator takes on it. Knows nothing of language models."""
