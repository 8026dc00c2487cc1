"""The nouns: frozen records that every layer shares and that import nothing of ours."""
