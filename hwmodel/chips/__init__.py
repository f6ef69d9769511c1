"""One YAML file per known chip: every `Chip` field with its unit, kind of evidence and source."""
