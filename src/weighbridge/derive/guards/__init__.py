"""Guards: the conditions that keep configs away from code that no probe reached."""
