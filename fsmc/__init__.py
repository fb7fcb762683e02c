"""fsmc."""
