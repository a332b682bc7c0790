"""What a study asks for: environments, algorithms, settings, and the runs they make."""
