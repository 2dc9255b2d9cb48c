"""What everything else rests on: errors, processes, atomic writing, output folders."""
