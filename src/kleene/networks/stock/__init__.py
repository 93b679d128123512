"""Programs inside unmodified classes of Hugging Face's transformers."""
