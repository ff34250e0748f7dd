"""Operations that move, repeat, pick or resample elements."""
