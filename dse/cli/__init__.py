"""The command line, one small module per group of commands; heavy imports happen in commands."""
