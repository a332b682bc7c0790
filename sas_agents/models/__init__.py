"""Features and networks: functions of the state, which see no mask by default."""
