"""What every command needs: arguments and exit codes, interrupts, output folders, paths in messages."""
