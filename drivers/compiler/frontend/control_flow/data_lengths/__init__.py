"""Operations whose results have lengths that are data."""
