"""Views: what turns tables into pictures (terminal, Chrome trace, ...), one a file."""
