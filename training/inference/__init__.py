"""A fine-tuned model at work: records or JSON lines → predictions."""
