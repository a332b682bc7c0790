"""Result files and the table that they make."""
