"""Operations that move, repeat, select or resample elements."""
