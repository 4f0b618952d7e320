"""Random commands for the differential test: what to send, and what must be answered alike."""
