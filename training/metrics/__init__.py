"""Official numbers, signed: what each benchmark's authors count, and what was counted."""
