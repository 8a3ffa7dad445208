"""The process that tunes for a program; `skipjack.runtime.online` is the program's side of it."""
