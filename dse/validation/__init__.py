"""How far predictions lie from measurements: records, their statistics, intervals and reports."""
