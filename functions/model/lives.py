"""How long things last, in days, and the one rule between them: what remembers outlives what can come again."""

EFFECT_DAYS = 90
COMMAND_DAYS = 90
NOTIFICATION_DAYS = 180
ACTIVITY_DAYS = 90
QUEUE_DAYS = 4
DLQ_DAYS = 14
FAILURE_DAYS = 30
BUS_ARCHIVE_DAYS = 30
